
// Extensions: they register for an instance, and run as layers. This is the second half of the same file.


const KINDS = ['turn', 'step', 'toolCall'];

// What the extension has set, and what it listens to, since gdn was told.
function news(session) {
  const told = {};
  if (session?.isDirty) told.state = { value: session.state };
  if (session?.hasListened) told.listens = [...new Set(session.subscriptions.map(({ name }) => name))];
  if (session) session.isDirty = session.hasListened = false;
  return told;
}

const json = (value, what) => {
  const text = stringify(value);
  if (text === undefined) throw new TypeError(`${what} is not JSON`);
  return parse(text);
};

// Names of events with their handlers; the extensions of an instance share one.
class Bus {
  #handlers = new Map();
  users = 0;

  on(entry) {
    const { name } = entry;
    this.#handlers.set(name, [...(this.#handlers.get(name) ?? []), entry]);
    return () => this.#handlers.set(name, (this.#handlers.get(name) ?? []).filter((known) => known !== entry));
  }

  emit(name, ...args) {
    tellAll(this.#handlers.get(name) ?? [], name, args);
  }
}

function tellAll(entries, name, args) {
  for (const { handler } of entries) {
    const told = (error) => log(current.getStore()?.id, 'error', [`a handler of the event ${name} failed:`, error]);
    try {
      const result = handler(...args);
      if (typeof result?.then === 'function') result.then(undefined, told);
    } catch (error) {
      told(error);
    }
  }
}

// An event of the runtime. Each extension is told by itself, so it goes to the handlers of that one alone.
function happened({ session, event }) {
  const entries = sessions.get(session)?.subscriptions.filter(({ name }) => name === event.type) ?? [];
  tellAll(entries, event.type, [event]);
}

function subscribe(session, name, handler) {
  if (typeof handler !== 'function') throw new TypeError('`events.on` needs a function');
  const entry = { name: String(name), handler };
  const off = session.bus.on(entry);
  session.subscriptions.push(entry);
  session.offs.push(off);
  session.hasListened = true;
  return () => {
    off();
    session.subscriptions = session.subscriptions.filter((known) => known !== entry);
    session.offs = session.offs.filter((known) => known !== off);
    session.hasListened = true;
  };
}

function apiOf(session, message) {
  const open = (what) => {
    if (!session.isOpen) throw new Error(`call ${what} only inside \`register\``);
  };
  return {
    agentName: message.agentName,
    instanceKey: message.instanceKey,
    workdir: message.workdir,
    projectDir: message.projectDir,
    config: message.config,
    logger: consoleOf(() => current.getStore()?.id),
    pipeline: {
      register(kind, run, options) {
        open('`pipeline.register`');
        if (!KINDS.includes(kind)) throw new TypeError(`unknown layer kind ${util.inspect(kind)}; use turn, step or toolCall`);
        if (typeof run !== 'function') throw new TypeError('`pipeline.register` needs a function');
        const priority = options?.priority ?? 0;
        if (!Number.isFinite(priority)) throw new TypeError('a priority must be a number');
        session.layers.push({ kind, run, priority });
      },
    },
    tools: {
      register(item, handler) {
        open('`tools.register`');
        if (typeof item?.name !== 'string' || typeof handler !== 'function') throw new TypeError('`tools.register` needs `{name, description, parameters}` and a function');
        const { name, description = '', parameters = { type: 'object', properties: {} } } = item;
        session.tools.set(name, { name, description: String(description), parameters: json(parameters, '`parameters`'), handler });
      },
    },
    state: {
      get: async () => structuredClone(session.state ?? null),
      set: async (value) => {
        session.state = json(value, 'the state');
        session.isDirty = true;
      },
    },
    events: {
      on: (name, handler) => subscribe(session, name, handler),
      emit: (name, ...args) => session.bus.emit(name, ...args),
    },
  };
}

async function register(message) {
  const key = stringify([message.agentName, message.instanceKey]);
  if (!buses.has(key)) buses.set(key, new Bus());
  const session = {
    key, extension: message.extension, bus: buses.get(key), layers: [], tools: new Map(), offs: [],
    subscriptions: [], hasListened: false, state: message.state, isDirty: false, isOpen: true, conversation: new Told(),
  };
  session.bus.users += 1;
  sessions.set(message.session, session);
  try {
    await current.run(message, async () => {
      const module = await load(message);
      const begin = module.register ?? module.default?.register;
      if (typeof begin !== 'function') throw new Fault('load', 'its module exports no function `register`', 'Write `export function register(api) { … }`.');
      try {
        await begin(apiOf(session, message), message.config);
      } catch (error) {
        if (error instanceof Error && error.stack) log(message.id, 'debug', [error.stack]);
        const told = thrown(error);
        throw new Fault('init', `\`register\` failed: ${told.message}`, told.suggestion);
      }
    });
    session.isOpen = false;
    const layers = session.layers.map(({ kind, priority }) => ({ kind, priority }));
    const tools = [...session.tools.values()].map(({ name, description, parameters }) => ({ name, description, parameters }));
    done(message.id, { layers, tools, keeps: true }, news(session));
  } catch (error) {
    forget(message.session);
    failed(message.id, error);
  }
}

function forget(number) {
  const session = sessions.get(number);
  if (!session) return;
  sessions.delete(number);
  session.offs.forEach((off) => off());
  session.bus.users -= 1;
  if (session.bus.users === 0) buses.delete(session.key);
}

const dated = (message) => ({ ...message, createdAt: new Date(message.createdAt) });
const datedEvent = (event) => (event.message ? { ...event, message: dated(event.message) } : event);

// What was told of a conversation. It lasts from turn to turn as texts, which nobody can change; each turn reads them at most once.
class Told {
  #texts = [];
  #changes = [];
  #base;
  events = [];

  // What a session hears: a conversation, or what is new of it.
  hear({ base, splice, events = [] }) {
    if (base) this.#begin(base.map(text));
    if (splice) {
      const { of, parts } = splice;
      const known = fold(this.#texts, this.#changes);
      if (known.length !== of) throw new Error('the conversation in the runtime process differs from the one in gdn');
      this.#begin(parts.flatMap((part) => (Array.isArray(part) ? known.slice(...part) : [text(part)])));
    }
    this.#changes.push(...events.map((event) => (event.message ? { ...event, message: text(event.message) } : event)));
    this.events = [...this.events, ...events.map(datedEvent)];
  }

  #begin(texts) {
    this.#texts = texts;
    this.#base = undefined;
    this.#changes = [];
    this.events = [];
  }

  get base() {
    this.#base ??= this.#texts.map((known) => dated(parse(known.text)));
    return this.#base;
  }
}

const text = (message) => ({ id: message.id, text: stringify(message) });

function hearNews(session, news) {
  session.conversation.hear(news);
  if (news.state) {
    session.state = news.state.value;
    session.isDirty = false;
  }
}

function fold(base, events) {
  const messages = [...base];
  for (const event of events) {
    const at = event.targetId === undefined ? -1 : messages.findIndex((message) => message.id === event.targetId);
    if (event.type === 'append') messages.push(event.message);
    else if (event.type === 'truncate') messages.length = 0;
    else if (at >= 0 && event.type === 'replace') messages[at] = event.message;
    else if (at >= 0 && event.type === 'remove') messages.splice(at, 1);
  }
  return messages;
}

class ConversationState {
  #session;
  #emitted;

  constructor(session, emitted) {
    this.#session = session;
    this.#emitted = emitted;
  }

  get baseMessages() { return [...this.#session.conversation.base]; }
  get events() { return [...this.#session.conversation.events, ...this.#emitted]; }
  get nextMessages() { return fold(this.#session.conversation.base, this.events); }
  toLlmMessages() { return this.nextMessages.map((message) => message.data); }
}

let emittedIds = 0;

function emitter(run, extension) {
  return (event) => {
    if (run.isOver) throw new Error('the layer is over: it can no longer emit events');
    if (!['append', 'replace', 'remove', 'truncate'].includes(event?.type)) throw new TypeError('the type of a message event must be append, replace, remove or truncate');
    const plainEvent = json(event, 'a message event');
    if (plainEvent.type === 'append' || plainEvent.type === 'replace') {
      const message = plainEvent.message;
      if (!message?.data?.role || message.data.content === undefined) throw new TypeError('a message needs `data: {role, content}`');
      if (typeof message.data.content === 'string') message.data.content = [{ type: 'text', text: message.data.content }];
      message.id ??= plainEvent.targetId ?? `${extension}-${run.context.turnId}-${Date.now()}-${emittedIds++}`;
      message.createdAt ??= new Date().toISOString();
      message.metadata ??= {};
    }
    run.emitted.push(datedEvent(plainEvent));
  };
}

// What a layer has changed since it said so the last time.
function changes(run) {
  const { ctx, session } = run;
  const fields = {};
  for (const field of ['metadata', 'args']) {
    if (!(field in run.known)) continue;
    const text = stringify(ctx[field]) ?? 'null';
    if (text !== run.known[field]) fields[field] = parse(text);
    run.known[field] = text;
  }
  if (run.known.toolCatalog !== undefined) {
    const names = Array.isArray(ctx.toolCatalog) ? stringify(ctx.toolCatalog.map((item) => ({ name: item?.name }))) : 'null';
    if (names !== run.known.toolCatalog) fields.toolCatalog = parse(names);
    run.known.toolCatalog = names;
  }
  const events = run.emitted.splice(0);
  return { changes: { fields, events }, ...news(session) };
}

function layerContext(run, extension) {
  const { context, session, stop } = run;
  const ctx = { ...context, signal: stop.signal, logger: consoleOf(() => run.id) };
  if (context.inputEvent) ctx.inputEvent = { ...context.inputEvent, createdAt: new Date(context.inputEvent.createdAt) };
  if (context.turn) ctx.turn = { ...context.turn, inputEvent: ctx.inputEvent };
  run.known = { metadata: stringify(context.metadata ?? {}) };
  ctx.metadata ??= {};
  if (context.args !== undefined) run.known.args = stringify(context.args);
  if (context.toolCatalog) run.known.toolCatalog = stringify(context.toolCatalog.map(({ name }) => ({ name })));
  if (context.toolName === undefined) {
    ctx.conversationState = new ConversationState(session, run.emitted);
    ctx.emitMessageEvent = emitter(run, extension);
    const question = (name) => (what) => askFor(run, name, { ...what, input: typeof what?.input === 'string' ? what.input : stringify(what?.input ?? '') });
    ctx.agents = { request: question('layer.request'), send: question('layer.send') };
  }
  ctx.next = () => next(run);
  return ctx;
}

function askFor(run, name, payload) {
  if (run.isOver) return Promise.reject(new Error('the layer is over: it can no longer send requests'));
  return new Promise((resolve, reject) => {
    const number = nextAsk++;
    asked.set(number, { resolve, reject });
    tell({ kind: 'ask', id: run.id, ask: number, name, payload });
  });
}

async function next(run) {
  if (run.hasNext) {
    run.broken = new Fault('next', '`next` was called a second time', 'Call `next` once, and keep its result.');
    throw Object.assign(new Error(run.broken.message), { code: 'E_EXT_NEXT' });
  }
  run.hasNext = true;
  const { result, metadata, news: heard } = await askFor(run, 'layer.next', changes(run));
  hearNews(run.session, heard);
  // The same object, for whoever holds it.
  for (const key of Object.keys(run.ctx.metadata)) delete run.ctx.metadata[key];
  Object.assign(run.ctx.metadata, metadata);
  run.known.metadata = stringify(run.ctx.metadata);
  if (result?.responseMessage) result.responseMessage = dated(result.responseMessage);
  return result;
}

async function layer(message) {
  const stop = new AbortController();
  calls.set(message.id, stop);
  const session = sessions.get(message.session);
  const run = { id: message.id, context: message.context, session, stop, emitted: [], hasNext: false, isOver: false };
  try {
    hearNews(session, message.news);
    const result = await current.run(run, async () => {
      run.ctx = layerContext(run, session.extension);
      return session.layers[message.layer].run(run.ctx, run.ctx.next);
    });
    if (run.broken) throw run.broken;
    run.isOver = true;
    done(run.id, result, changes(run));
  } catch (error) {
    run.isOver = true;
    failed(run.id, run.broken ?? error, session);
  } finally {
    calls.delete(message.id);
  }
}
