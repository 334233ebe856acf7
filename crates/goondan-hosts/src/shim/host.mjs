// Runs the handlers, extensions and connectors of modules in JavaScript and TypeScript for gdn, in Node.js, Bun or Deno. It speaks in lines of JSON: it
// reads them from descriptor 3 and writes them to descriptor 4, so that whatever a module prints gets in nobody's way.
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
// Files that are looked through for a mistake.
const MOST_CHECKED = 16;
const runtime = globalThis.Deno ? 'deno' : process.versions.bun ? 'bun' : 'node';
const version = globalThis.Deno ? Deno.version.deno : process.versions.bun ?? process.versions.node;
const { stringify, parse } = JSON;
const current = new AsyncLocalStorage();
const calls = new Map();
const asked = new Map();
const modules = new Map();
const sessions = new Map();
const buses = new Map();
let nextAsk = 1;
// The folder of the project, which all modules of a host belong to.
let home;
// What is mostly thrown by the runtime, not by a module that knows what it says: where it happened tells more than the words.
const SLIPS = new Set(['TypeError', 'ReferenceError', 'RangeError', 'SyntaxError']);

// Deno knows no descriptors but its own; a socket takes any.
const up = runtime === 'deno' ? new net.Socket({ fd: 4, readable: false, writable: true }) : undefined;

// `stringify` writes half a character as an escape, and nothing else as one that begins so. Others take no such text.
function wellFormed(line) {
  return line.includes('\\ud') ? line.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length === 6 ? '\ufffd' : escape)) : line;
}

function write(text) {
  const line = wellFormed(text);
  if (up) return void up.write(line + '\n');
  const bytes = Buffer.from(line + '\n');
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(4, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

const tell = (message) => write(stringify(message));

function short(text, most = MAX_LOG) {
  return text.length > most ? text.slice(0, most) + '…' : text;
}

function plain(fields) {
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
  return { title: short(String(text), 1000), metadata: { ...plain(rest), ...plain(more) } };
}

// What is not the handler's own error: its module, or its result.
class Fault {
  constructor(fault, message, suggestion) {
    Object.assign(this, { fault, message, suggestion });
  }
}

// What was thrown, as gdn takes it. Anything may be thrown.
function thrown(error) {
  try {
    if (typeof error !== 'object' || error === null || typeof error.message !== 'string') {
      return { name: 'NonError', message: short('the handler threw ' + util.inspect(error, { depth: 2 })) };
    }
    const text = (value) => (typeof value === 'string' ? short(value) : undefined);
    return {
      name: text(error.name),
      message: short(error.message || error.name || 'the handler failed'),
      code: text(error.code),
      suggestion: text(error.suggestion) ?? slip(error),
      helpUrl: text(error.helpUrl),
    };
  } catch {
    return { message: 'the handler threw an error that cannot be displayed' };
  }
}

function slip(error) {
  const place = SLIPS.has(error.name) && !foreign.has(error) ? new Project(home).place(error.stack) : undefined;
  return place && `Look at ${place}, where ${error.name} was thrown.`;
}

function log(id, level, args) {
  const fields = args.length === 2 && typeof args[0] === 'string' && util.types.isProxy(args[1]) === false
    && Object.prototype.toString.call(args[1]) === '[object Object]' ? args[1] : undefined;
  const message = fields ? args[0] : util.format(...args);
  tell({ kind: 'log', id, level, message: short(message), fields: plain(fields) });
}

function consoleOf(id) {
  const at = (level) => (...args) => log(id(), level, args);
  return {
    debug: at('debug'), trace: at('debug'), info: at('info'), log: at('info'), dir: at('info'), table: at('info'),
    warn: at('warn'), error: at('error'),
    assert: (holds, ...args) => { if (!holds) log(id(), 'error', ['Assertion failed', ...args]); },
  };
}

// What a module prints with `console` is a log line of the call that it belongs to.
Object.assign(console, consoleOf(() => current.getStore()?.id));

function ask(id, name, payload) {
  return new Promise((resolve, reject) => {
    const number = nextAsk++;
    asked.set(number, { resolve, reject });
    tell({ kind: 'ask', id, ask: number, name, payload: plain(payload) });
  });
}

function agents(id) {
  const event = (target, event, more) => {
    const { input = '', type, instanceKey, metadata } = typeof event === 'string' ? { input: event } : event ?? {};
    return { target, input: typeof input === 'string' ? input : stringify(input), eventType: type, instanceKey, metadata, ...more };
  };
  return {
    request: (target, what, options = {}) =>
      ask(id, 'runtime.request', event(target, what, { timeoutMs: options.timeoutMs, async: options.async })),
    send: (target, what) => ask(id, 'runtime.send', event(target, what)),
    spawn: (target, options = {}) => ask(id, 'runtime.spawn', { target, instanceKey: options.instanceKey, cwd: options.cwd }),
    list: (options = {}) => ask(id, 'runtime.list', { includeAll: options.includeAll }),
    catalog: () => ask(id, 'runtime.catalog', {}),
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
    progress: (title, metadata) => tell({ kind: 'progress', id: call.id, ...progressOf(title, metadata) }),
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
    const told = thrown(error);
    const isTypes = told.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[mc]?ts$/.test(module);
    const project = new Project(home);
    const place = (isTypes ? undefined : await project.mistake(module, error)) ?? project.inside(module) ?? path.basename(module);
    const message = isTypes ? `Node.js ${version} does not read TypeScript` : project.told(`${told.name ?? 'Error'}: ${told.message}`);
    const suggestion = isTypes ? 'Install Node.js 22.18 or newer, or Bun, or Deno; `spec.runtime` of the Tool chooses one.'
      : told.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' ? 'Node.js only strips types. Remove enums and namespaces, or use Bun: `runtime: bun`.'
      : undefined;
    if (error?.stack) log(current.getStore()?.id, 'debug', [error.stack]);
    throw new Fault('module', `${place} can't be loaded: ${message}`, suggestion);
  }
}

// Where a mistake is in the modules of a project. Nobody is told of files elsewhere.
class Project {
  #roots;

  constructor(root) {
    let real = root;
    try { real = fs.realpathSync(root); } catch { /* it has gone */ }
    this.#roots = [root, real].filter((folder) => folder).map((folder) => folder.replace(/\/$/, '') + '/');
  }

  // The path of a file from the project's folder.
  inside(file) {
    const root = this.#roots.find((root) => file.startsWith(root));
    return root && file.slice(root.length);
  }

  // Text without the path of the project's folder.
  told(text) {
    return this.#roots.flatMap((root) => [pathToFileURL(root).href, root]).reduce((text, root) => text.replaceAll(root, ''), text);
  }

  // The file and the line, as far as the runtime says them.
  async mistake(module, error) {
    const { file, line } = (error?.position ?? error?.errors?.[0]?.position) ?? {};
    const named = typeof file === 'string' && this.inside(file);
    if (named) return `${named}:${line}`;
    const found = this.place(error?.stack);
    if (found || runtime !== 'node' || error?.name !== 'SyntaxError') return found;
    return this.#checked(module);
  }

  // The first place in the project that a text names.
  place(text) {
    for (const [, named, line] of String(text ?? '').matchAll(/(?:^|\(|at )((?:file:\/\/)?\/[^\n()]*?):(\d+)(?::\d+)?\)?$/gm)) {
      const file = named.startsWith('file:') ? fileURLToPath(named) : named;
      const inside = file === fileURLToPath(import.meta.url) ? undefined : this.inside(file);
      if (inside) return `${inside}:${line}`;
    }
  }

  // Node.js does not say where an ES module has its mistake, unless it is asked to check that file; it may be in one that is imported.
  async #checked(module) {
    const files = [module];
    for (let at = 0; at < files.length && at < MOST_CHECKED; at += 1) {
      const said = await new Promise((resolve) => {
        execFile(process.execPath, ['--check', files[at]], { timeout: 5_000 }, (error, _, said) => resolve(error ? said : ''));
      });
      const found = this.place(said);
      if (found) return found;
      let text = '';
      try { text = fs.readFileSync(files[at], 'utf8'); } catch { /* it is not there */ }
      for (const [, , name] of text.matchAll(/(['"])(\.{1,2}\/[^'"\n]+\.[cm]?js)\1/g)) {
        const file = path.resolve(path.dirname(files[at]), name);
        if (!files.includes(file) && this.inside(file)) files.push(file);
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

function done(id, result, more) {
  const whole = result instanceof Output ? result : new Output(result);
  let output, rest;
  try {
    output = stringify(whole.output === undefined ? null : whole.output);
    rest = stringify({ title: whole.title, metadata: whole.metadata, attachments: whole.attachments, ...more });
  } catch (error) {
    throw new Fault('result', `the result is not JSON: ${thrown(error).message}`);
  }
  if (output === undefined) throw new Fault('result', `the result is not JSON: it is a ${typeof whole.output}`);
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
    const result = await current.run(call, async () => {
      const handler = await handlerOf(call);
      return handler(contextOf(call, stop.signal), call.arguments);
    });
    done(call.id, result, news(sessions.get(call.session)));
  } catch (error) {
    failed(call.id, error, sessions.get(call.session));
  } finally {
    calls.delete(call.id);
  }
}

// An error that gdn has told: where it was made says nothing.
const foreign = new WeakSet();

function told(error) {
  const made = Object.assign(new Error(error.message), error);
  foreign.add(made);
  return made;
}

function failed(id, error, session) {
  const fault = error instanceof Fault ? error.fault : undefined;
  let spent = false;
  try {
    if (error instanceof Error && error.stack && !foreign.has(error)) log(id, 'debug', [error.stack]);
    // What was allocated may be free again only later.
    spent = error instanceof RangeError && /allocation failed|out of memory/i.test(error.message);
  } catch {
    // A property of the error throws. The call fails all the same.
  }
  tell({ kind: 'fail', id, fault, error: thrown(error), ...news(session), spent });
}

function hear(message) {
  home ??= message.context?.projectDir ?? message.projectDir;
  switch (message.kind) {
    case 'call': return void run(message);
    case 'layer': return void layer(message);
    case 'register': return void register(message);
    case 'connect': return void connect(message);
    case 'forget': return forget(message.session);
    case 'event': return happened(message);
    case 'cancel': return calls.get(message.id)?.abort();
    case 'ping': return tell({ kind: 'pong' });
    case 'answer': {
      const waiting = asked.get(message.ask);
      asked.delete(message.ask);
      if (!message.error) return waiting?.resolve(message.value);
      return waiting?.reject(told(message.error));
    }
  }
}

process.on('unhandledRejection', (reason) => log(undefined, 'error', ['unhandled promise rejection:', reason]));
process.on('uncaughtException', (error) => {
  tell({ kind: 'fatal', message: short(`${error?.stack ?? util.inspect(error)}`, 2000) });
  process.exit(70);
});

// A fast way where there is one: Bun has none for descriptors.
const down = runtime === 'bun' ? fs.createReadStream('', { fd: 3 }) : new net.Socket({ fd: 3, readable: true, writable: false });
let pieces = [];
down.on('data', (chunk) => {
  let from = 0;
  for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
    pieces.push(chunk.subarray(from, at));
    const line = pieces.length === 1 ? pieces[0].toString() : Buffer.concat(pieces).toString();
    pieces = [];
    from = at + 1;
    hear(parse(line));
  }
  if (from < chunk.length) pieces.push(chunk.subarray(from));
});
down.on('end', () => process.exit(0));
down.on('error', () => process.exit(0));
tell({ kind: 'hello', runtime, version });
