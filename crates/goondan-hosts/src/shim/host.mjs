// Runs handlers, extensions and connectors in JavaScript and TypeScript for gdn, in Node.js, Bun or Deno. The `.mjs` files of this directory are
// concatenated to one program, so they share names. Messages are lines of JSON on descriptors 3 (in) and 4 (out), so that printed output of a module
// does not mix with them.
import fs from 'node:fs';
import net from 'node:net';
import process from 'node:process';
import util from 'node:util';
import path from 'node:path';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Buffer } from 'node:buffer';
import { execFile } from 'node:child_process';
import { Readable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';

const MAX_RESULT = 16 * 1024 * 1024;
const MAX_LOG = 10_000;
// Maximum number of files to check for a syntax error.
const MAX_CHECKED_FILES = 16;
const runtime = globalThis.Deno ? 'deno' : process.versions.bun ? 'bun' : 'node';
const version = globalThis.Deno ? Deno.version.deno : process.versions.bun ?? process.versions.node;
const { stringify, parse } = JSON;
const currentCall = new AsyncLocalStorage();
const calls = new Map();
const pendingRequests = new Map();
const modules = new Map();
const sessions = new Map();
const buses = new Map();
let nextAsk = 1;
// The project directory, which contains all modules of this process.
let projectRoot;
// Errors that the runtime itself usually throws. Their location helps more than their message.
const BUILTIN_ERRORS = new Set(['TypeError', 'ReferenceError', 'RangeError', 'SyntaxError']);

// Deno accepts only descriptors that it has opened, but a socket accepts any.
const socketOut = runtime === 'deno' ? new net.Socket({ fd: 4, readable: false, writable: true }) : undefined;

// Replaces lone surrogates, which other JSON parsers refuse. `stringify` writes them, and nothing else, as escapes that begin with `\ud`.
function replaceLoneSurrogates(line) {
  return line.includes('\\ud') ? line.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length === 6 ? '\ufffd' : escape)) : line;
}

function write(text) {
  const line = replaceLoneSurrogates(text);
  if (socketOut) return void socketOut.write(line + '\n');
  const bytes = Buffer.from(line + '\n');
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(4, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

const sendMessage = (message) => write(stringify(message));

function truncated(text, maxLength = MAX_LOG) {
  return text.length > maxLength ? text.slice(0, maxLength) + '…' : text;
}

function jsonObject(fields) {
  try {
    return fields === undefined ? {} : parse(stringify(fields)) ?? {};
  } catch {
    return {};
  }
}

// Progress is a title with metadata, or one object with both.
function progressOf(title, metadata) {
  const isObject = typeof title === 'object' && title !== null;
  const { title: text = '', metadata: more = metadata, ...rest } = isObject ? title : { title };
  return { title: truncated(String(text), 1000), metadata: { ...jsonObject(rest), ...jsonObject(more) } };
}

// An error in the module or in the result of the handler.
class Fault {
  constructor(fault, message, suggestion) {
    Object.assign(this, { fault, message, suggestion });
  }
}

// Returns the error fields of a message to gdn. Handlers may throw any value.
function errorFields(error) {
  try {
    if (typeof error !== 'object' || error === null || typeof error.message !== 'string') {
      return { name: 'NonError', message: truncated('the handler threw ' + util.inspect(error, { depth: 2 })) };
    }
    const text = (value) => (typeof value === 'string' ? truncated(value) : undefined);
    return {
      name: text(error.name),
      message: truncated(error.message || error.name || 'the handler failed'),
      code: text(error.code),
      suggestion: text(error.suggestion) ?? locationHint(error),
      helpUrl: text(error.helpUrl),
    };
  } catch {
    return { message: 'the handler threw an error that cannot be displayed' };
  }
}

// Returns a suggestion with the location of a built-in error in the project.
function locationHint(error) {
  const place = BUILTIN_ERRORS.has(error.name) && !gdnErrors.has(error) ? new Project(projectRoot).firstLocation(error.stack) : undefined;
  return place && `Look at ${place}, where ${error.name} was thrown.`;
}

function log(id, level, args) {
  const fields = args.length === 2 && typeof args[0] === 'string' && util.types.isProxy(args[1]) === false
    && Object.prototype.toString.call(args[1]) === '[object Object]' ? args[1] : undefined;
  const message = fields ? args[0] : util.format(...args);
  sendMessage({ kind: 'log', id, level, message: truncated(message), fields: jsonObject(fields) });
}

function consoleOf(id) {
  const logger = (level) => (...args) => log(id(), level, args);
  return {
    debug: logger('debug'), trace: logger('debug'), info: logger('info'), log: logger('info'), dir: logger('info'), table: logger('info'),
    warn: logger('warn'), error: logger('error'),
    assert: (condition, ...args) => { if (!condition) log(id(), 'error', ['Assertion failed', ...args]); },
  };
}

// Turns `console` output of a module into log lines of the current call.
Object.assign(console, consoleOf(() => currentCall.getStore()?.id));

// Sends a request of a call to gdn, and resolves with the answer.
function request(id, name, payload) {
  return new Promise((resolve, reject) => {
    const number = nextAsk++;
    pendingRequests.set(number, { resolve, reject });
    sendMessage({ kind: 'ask', id, ask: number, name, payload: jsonObject(payload) });
  });
}

function agents(id) {
  const event = (target, event, more) => {
    const { input = '', type, instanceKey, metadata } = typeof event === 'string' ? { input: event } : event ?? {};
    return { target, input: typeof input === 'string' ? input : stringify(input), eventType: type, instanceKey, metadata, ...more };
  };
  return {
    request: (target, what, options = {}) =>
      request(id, 'runtime.request', event(target, what, { timeoutMs: options.timeoutMs, async: options.async })),
    send: (target, what) => request(id, 'runtime.send', event(target, what)),
    spawn: (target, options = {}) => request(id, 'runtime.spawn', { target, instanceKey: options.instanceKey, cwd: options.cwd }),
    list: (options = {}) => request(id, 'runtime.list', { includeAll: options.includeAll }),
    catalog: () => request(id, 'runtime.catalog', {}),
  };
}

class Output {
  constructor(output, { title, metadata, attachments } = {}) {
    Object.assign(this, { output, title, metadata, attachments });
  }
}

function contextOf(call, signal) {
  const { message, timeoutMs, ...rest } = call.context;
  return {
    ...rest,
    message: { ...message, createdAt: new Date(message.createdAt) },
    config: call.config,
    timeoutMs,
    signal,
    logger: consoleOf(() => call.id),
    runtime: agents(call.id),
    progress: (title, metadata) => sendMessage({ kind: 'progress', id: call.id, ...progressOf(title, metadata) }),
    output: (output, more) => new Output(output, more),
  };
}

async function load({ module }) {
  if (!modules.has(module)) {
    const loading = import(pathToFileURL(module).href);
    modules.set(module, loading);
    loading.catch(() => modules.delete(module));
  }
  try {
    return await modules.get(module);
  } catch (error) {
    const fields = errorFields(error);
    const isTypeScript = fields.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[mc]?ts$/.test(module);
    const project = new Project(projectRoot);
    const place = (isTypeScript ? undefined : await project.errorLocation(module, error)) ?? project.relativePath(module) ?? path.basename(module);
    const message = isTypeScript ? `Node.js ${version} does not read TypeScript` : project.withRelativePaths(`${fields.name ?? 'Error'}: ${fields.message}`);
    const suggestion = isTypeScript ? 'Install Node.js 22.18 or newer, or Bun, or Deno; `spec.runtime` of the Tool chooses one.'
      : fields.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' ? 'Node.js only strips types. Remove enums and namespaces, or use Bun: `runtime: bun`.'
      : undefined;
    if (error?.stack) log(currentCall.getStore()?.id, 'debug', [error.stack]);
    throw new Fault('module', `${place} can't be loaded: ${message}`, suggestion);
  }
}

// Finds the location of an error in the files of a project. Other files are not reported.
class Project {
  #roots;

  constructor(root) {
    let real = root;
    try { real = fs.realpathSync(root); } catch { /* The directory no longer exists. */ }
    this.#roots = [root, real].filter((folder) => folder).map((folder) => folder.replace(/\/$/, '') + '/');
  }

  // Returns the path of a file relative to the project directory.
  relativePath(file) {
    const root = this.#roots.find((root) => file.startsWith(root));
    return root && file.slice(root.length);
  }

  // Removes the path of the project directory from a text.
  withRelativePaths(text) {
    return this.#roots.flatMap((root) => [pathToFileURL(root).href, root]).reduce((text, root) => text.replaceAll(root, ''), text);
  }

  // Returns the file and the line, if the runtime reports them.
  async errorLocation(module, error) {
    const { file, line } = (error?.position ?? error?.errors?.[0]?.position) ?? {};
    const relative = typeof file === 'string' && this.relativePath(file);
    if (relative) return `${relative}:${line}`;
    const found = this.firstLocation(error?.stack);
    if (found || runtime !== 'node' || error?.name !== 'SyntaxError') return found;
    return this.#syntaxErrorLocation(module);
  }

  // Returns the first location in the project that a stack trace contains.
  firstLocation(text) {
    for (const [, named, line] of String(text ?? '').matchAll(/(?:^|\(|at )((?:file:\/\/)?\/[^\n()]*?):(\d+)(?::\d+)?\)?$/gm)) {
      const file = named.startsWith('file:') ? fileURLToPath(named) : named;
      const relative = file === fileURLToPath(import.meta.url) ? undefined : this.relativePath(file);
      if (relative) return `${relative}:${line}`;
    }
  }

  // Runs `node --check` for the module and its imports, because the error of `import` does not contain the location of a syntax error.
  async #syntaxErrorLocation(module) {
    const files = [module];
    for (let at = 0; at < files.length && at < MAX_CHECKED_FILES; at += 1) {
      const output = await new Promise((resolve) => {
        execFile(process.execPath, ['--check', files[at]], { timeout: 5_000 }, (error, _, stderr) => resolve(error ? stderr : ''));
      });
      const found = this.firstLocation(output);
      if (found) return found;
      let text = '';
      try { text = fs.readFileSync(files[at], 'utf8'); } catch { /* The file is missing. */ }
      for (const [, , name] of text.matchAll(/(['"])(\.{1,2}\/[^'"\n]+\.[cm]?js)\1/g)) {
        const file = path.resolve(path.dirname(files[at]), name);
        if (!files.includes(file) && this.relativePath(file)) files.push(file);
      }
    }
  }
}

async function handlerOf(call) {
  if (call.session !== undefined) {
    const tool = sessions.get(call.session)?.tools.get(call.export);
    if (tool) return tool.handler;
    throw new Fault('module', `the extension has no tool \`${call.export}\``);
  }
  const module = await load(call);
  const handlers = module.handlers ?? module.default?.handlers;
  const handler = handlers && Object.hasOwn(handlers, call.export) ? handlers[call.export] : undefined;
  if (typeof handler === 'function') return handler.bind(handlers);
  const known = handlers && typeof handlers === 'object' ? Object.keys(handlers).join(', ') || 'none' : undefined;
  const suggestion = known ? `Its handlers are: ${known}.` : 'Export `handlers`, a map from export names to functions.';
  throw new Fault('module', `its module has no handler \`${call.export}\``, suggestion);
}

function sendResult(id, result, more) {
  const fullOutput = result instanceof Output ? result : new Output(result);
  let output, rest;
  try {
    output = stringify(fullOutput.output === undefined ? null : fullOutput.output);
    rest = stringify({ title: fullOutput.title, metadata: fullOutput.metadata, attachments: fullOutput.attachments, ...more });
  } catch (error) {
    throw new Fault('result', `the result is not JSON: ${errorFields(error).message}`);
  }
  if (output === undefined) throw new Fault('result', `the result is not JSON: it is a ${typeof fullOutput.output}`);
  const size = Buffer.byteLength(output) + Buffer.byteLength(rest);
  if (size > MAX_RESULT) {
    const suggestion = 'Return less, or write the result to a file and return the file name.';
    throw new Fault('result', `the result has ${size} bytes, which is more than 16 MiB`, suggestion);
  }
  write(`{"kind":"done","id":${id},"output":${output},"more":${rest}}`);
}

async function run(call) {
  const stop = new AbortController();
  calls.set(call.id, stop);
  try {
    const result = await currentCall.run(call, async () => {
      const handler = await handlerOf(call);
      return handler(contextOf(call, stop.signal), call.arguments);
    });
    sendResult(call.id, result, unreportedChanges(sessions.get(call.session)));
  } catch (error) {
    sendFailure(call.id, error, sessions.get(call.session));
  } finally {
    calls.delete(call.id);
  }
}

// Errors from gdn. Their stack traces contain only this program.
const gdnErrors = new WeakSet();

function errorFromGdn(fields) {
  const error = Object.assign(new Error(fields.message), fields);
  gdnErrors.add(error);
  return error;
}

function sendFailure(id, error, session) {
  const fault = error instanceof Fault ? error.fault : undefined;
  let isOutOfMemory = false;
  try {
    if (error instanceof Error && error.stack && !gdnErrors.has(error)) log(id, 'debug', [error.stack]);
    // gdn restarts the process after this error, because the allocated memory may not be freed soon.
    isOutOfMemory = error instanceof RangeError && /allocation failed|out of memory/i.test(error.message);
  } catch {
    // A property of the error throws. The call fails anyway.
  }
  sendMessage({ kind: 'fail', id, fault, error: errorFields(error), ...unreportedChanges(session), spent: isOutOfMemory });
}

function handleMessage(message) {
  projectRoot ??= message.context?.projectDir ?? message.projectDir;
  switch (message.kind) {
    case 'call': return void run(message);
    case 'layer': return void layer(message);
    case 'register': return void register(message);
    case 'connect': return void connect(message);
    case 'forget': return removeSession(message.session);
    case 'event': return deliverEvent(message);
    case 'cancel': return calls.get(message.id)?.abort();
    case 'ping': return sendMessage({ kind: 'pong' });
    case 'answer': {
      const waiting = pendingRequests.get(message.ask);
      pendingRequests.delete(message.ask);
      if (!message.error) return waiting?.resolve(message.value);
      return waiting?.reject(errorFromGdn(message.error));
    }
  }
}

process.on('unhandledRejection', (reason) => log(undefined, 'error', ['unhandled promise rejection:', reason]));
process.on('uncaughtException', (error) => {
  sendMessage({ kind: 'fatal', message: truncated(`${error?.stack ?? util.inspect(error)}`, 2000) });
  process.exit(70);
});

// A socket is faster, but Bun cannot open one for a descriptor.
const input = runtime === 'bun' ? fs.createReadStream('', { fd: 3 }) : new net.Socket({ fd: 3, readable: true, writable: false });
let chunks = [];
input.on('data', (chunk) => {
  let from = 0;
  for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
    chunks.push(chunk.subarray(from, at));
    const line = chunks.length === 1 ? chunks[0].toString() : Buffer.concat(chunks).toString();
    chunks = [];
    from = at + 1;
    handleMessage(parse(line));
  }
  if (from < chunk.length) chunks.push(chunk.subarray(from));
});
input.on('end', () => process.exit(0));
input.on('error', () => process.exit(0));
sendMessage({ kind: 'hello', runtime, version });
