
// Runs extensions: they register for an instance, and their layers run around turns, steps and tool calls.

const KINDS = ['turn', 'step', 'toolCall'];

// Returns the state and event subscriptions that changed since the last report to gdn.
function unreportedChanges(session) {
  const unreported = {};
  if (session?.stateChanged) unreported.state = { value: session.state };
  if (session?.subscriptionsChanged) unreported.listens = [...new Set(session.subscriptions.map(({ name }) => name))];
  if (session) session.stateChanged = session.subscriptionsChanged = false;
  return unreported;
}

const json = (value, what) => {
  const text = stringify(value);
  if (text === undefined) throw new TypeError(`${what} is not JSON`);
  return parse(text);
};

// Event handlers by event name. All extensions of an instance share one bus.
class EventBus {
  #handlers = new Map();
  sessionCount = 0;

  on(entry) {
    const { name } = entry;
    this.#handlers.set(name, [...(this.#handlers.get(name) ?? []), entry]);
    return () => this.#handlers.set(name, (this.#handlers.get(name) ?? []).filter((known) => known !== entry));
  }

  emit(name, ...args) {
    callHandlers(this.#handlers.get(name) ?? [], name, args);
  }
}

function callHandlers(entries, name, args) {
  for (const { handler } of entries) {
    const logFailure = (error) => log(currentCall.getStore()?.id, 'error', [`a handler of the event ${name} failed:`, error]);
    try {
      const result = handler(...args);
      if (typeof result?.then === 'function') result.then(undefined, logFailure);
    } catch (error) {
      logFailure(error);
    }
  }
}

// Calls the handlers of one extension for a runtime event. gdn sends the event separately to each extension.
function deliverEvent({ session, event }) {
  const entries = sessions.get(session)?.subscriptions.filter(({ name }) => name === event.type) ?? [];
  callHandlers(entries, event.type, [event]);
}

function subscribe(session, name, handler) {
  if (typeof handler !== 'function') throw new TypeError('`events.on` needs a function');
  const entry = { name: String(name), handler };
  const removeFromBus = session.bus.on(entry);
  session.subscriptions.push(entry);
  session.unsubscribers.push(removeFromBus);
  session.subscriptionsChanged = true;
  return () => {
    removeFromBus();
    session.subscriptions = session.subscriptions.filter((known) => known !== entry);
    session.unsubscribers = session.unsubscribers.filter((known) => known !== removeFromBus);
    session.subscriptionsChanged = true;
  };
}

function apiOf(session, message) {
  const requireOpen = (method) => {
    if (!session.isOpen) throw new Error(`call ${method} only inside \`register\``);
  };
  return {
    agentName: message.agentName,
    instanceKey: message.instanceKey,
    workdir: message.workdir,
    projectDir: message.projectDir,
    config: message.config,
    logger: consoleOf(() => currentCall.getStore()?.id),
    pipeline: {
      register(kind, run, options) {
        requireOpen('`pipeline.register`');
        if (!KINDS.includes(kind)) throw new TypeError(`unknown layer kind ${util.inspect(kind)}; use turn, step or toolCall`);
        if (typeof run !== 'function') throw new TypeError('`pipeline.register` needs a function');
        const priority = options?.priority ?? 0;
        if (!Number.isFinite(priority)) throw new TypeError('a priority must be a number');
        session.layers.push({ kind, run, priority });
      },
    },
    tools: {
      register(item, handler) {
        requireOpen('`tools.register`');
        if (typeof item?.name !== 'string' || typeof handler !== 'function') throw new TypeError('`tools.register` needs `{name, description, parameters}` and a function');
        const { name, description = '', parameters = { type: 'object', properties: {} } } = item;
        session.tools.set(name, { name, description: String(description), parameters: json(parameters, '`parameters`'), handler });
      },
    },
    state: {
      get: async () => structuredClone(session.state ?? null),
      set: async (value) => {
        session.state = json(value, 'the state');
        session.stateChanged = true;
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
  if (!buses.has(key)) buses.set(key, new EventBus());
  const session = {
    key, extension: message.extension, bus: buses.get(key), layers: [], tools: new Map(), unsubscribers: [],
    subscriptions: [], subscriptionsChanged: false, state: message.state, stateChanged: false, isOpen: true, conversation: new ConversationCopy(),
  };
  session.bus.sessionCount += 1;
  sessions.set(message.session, session);
  try {
    await currentCall.run(message, async () => {
      const module = await load(message);
      const registerExtension = module.register ?? module.default?.register;
      if (typeof registerExtension !== 'function') throw new Fault('load', 'its module exports no function `register`', 'Write `export function register(api) { … }`.');
      try {
        await registerExtension(apiOf(session, message), message.config);
      } catch (error) {
        if (error instanceof Error && error.stack) log(message.id, 'debug', [error.stack]);
        const { message: reason, suggestion } = errorFields(error);
        throw new Fault('init', `\`register\` failed: ${reason}`, suggestion);
      }
    });
    session.isOpen = false;
    const layers = session.layers.map(({ kind, priority }) => ({ kind, priority }));
    const tools = [...session.tools.values()].map(({ name, description, parameters }) => ({ name, description, parameters }));
    sendResult(message.id, { layers, tools, keeps: true }, unreportedChanges(session));
  } catch (error) {
    removeSession(message.session);
    sendFailure(message.id, error);
  }
}

function removeSession(number) {
  const session = sessions.get(number);
  if (!session) return;
  sessions.delete(number);
  session.unsubscribers.forEach((unsubscribe) => unsubscribe());
  session.bus.sessionCount -= 1;
  if (session.bus.sessionCount === 0) buses.delete(session.key);
}

const withDate = (message) => ({ ...message, createdAt: new Date(message.createdAt) });
const eventWithDate = (event) => (event.message ? { ...event, message: withDate(event.message) } : event);

// A copy of the conversation in gdn, kept between turns. Messages are kept as JSON, which handlers cannot modify, and parsed at most once per turn.
class ConversationCopy {
  #texts = [];
  #changes = [];
  #base;
  events = [];

  // Applies the whole conversation, or its changes since the last update.
  applyUpdate({ base, splice, events = [] }) {
    if (base) this.#reset(base.map(encodedMessage));
    if (splice) {
      const { of, parts } = splice;
      const known = applyEvents(this.#texts, this.#changes);
      if (known.length !== of) throw new Error('the conversation in the runtime process differs from the one in gdn');
      this.#reset(parts.flatMap((part) => (Array.isArray(part) ? known.slice(...part) : [encodedMessage(part)])));
    }
    this.#changes.push(...events.map((event) => (event.message ? { ...event, message: encodedMessage(event.message) } : event)));
    this.events = [...this.events, ...events.map(eventWithDate)];
  }

  #reset(texts) {
    this.#texts = texts;
    this.#base = undefined;
    this.#changes = [];
    this.events = [];
  }

  get base() {
    this.#base ??= this.#texts.map((known) => withDate(parse(known.text)));
    return this.#base;
  }
}

const encodedMessage = (message) => ({ id: message.id, text: stringify(message) });

// Applies changes of the conversation and the state that gdn sent.
function applyUpdate(session, update) {
  session.conversation.applyUpdate(update);
  if (update.state) {
    session.state = update.state.value;
    session.stateChanged = false;
  }
}

function applyEvents(base, events) {
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
  get nextMessages() { return applyEvents(this.#session.conversation.base, this.events); }
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
    run.emitted.push(eventWithDate(plainEvent));
  };
}

// Returns the changes of a layer since the last report to gdn.
function layerChanges(run) {
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
  return { changes: { fields, events }, ...unreportedChanges(session) };
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
    const agentRequest = (name) => (options) => layerRequest(run, name, { ...options, input: typeof options?.input === 'string' ? options.input : stringify(options?.input ?? '') });
    ctx.agents = { request: agentRequest('layer.request'), send: agentRequest('layer.send') };
  }
  ctx.next = () => next(run);
  return ctx;
}

function layerRequest(run, name, payload) {
  if (run.isOver) return Promise.reject(new Error('the layer is over: it can no longer send requests'));
  return new Promise((resolve, reject) => {
    const number = nextAsk++;
    pendingRequests.set(number, { resolve, reject });
    sendMessage({ kind: 'ask', id: run.id, ask: number, name, payload });
  });
}

async function next(run) {
  if (run.hasNext) {
    run.broken = new Fault('next', '`next` was called a second time', 'Call `next` once, and keep its result.');
    throw Object.assign(new Error(run.broken.message), { code: 'E_EXT_NEXT' });
  }
  run.hasNext = true;
  const { result, metadata, news: update } = await layerRequest(run, 'layer.next', layerChanges(run));
  applyUpdate(run.session, update);
  // Updates the same object, because the layer may have a reference to it.
  for (const key of Object.keys(run.ctx.metadata)) delete run.ctx.metadata[key];
  Object.assign(run.ctx.metadata, metadata);
  run.known.metadata = stringify(run.ctx.metadata);
  if (result?.responseMessage) result.responseMessage = withDate(result.responseMessage);
  return result;
}

async function layer(message) {
  const stop = new AbortController();
  calls.set(message.id, stop);
  const session = sessions.get(message.session);
  const run = { id: message.id, context: message.context, session, stop, emitted: [], hasNext: false, isOver: false };
  try {
    applyUpdate(session, message.news);
    const result = await currentCall.run(run, async () => {
      run.ctx = layerContext(run, session.extension);
      return session.layers[message.layer].run(run.ctx, run.ctx.next);
    });
    if (run.broken) throw run.broken;
    run.isOver = true;
    sendResult(run.id, result, layerChanges(run));
  } catch (error) {
    run.isOver = true;
    sendFailure(run.id, run.broken ?? error, session);
  } finally {
    calls.delete(message.id);
  }
}
