// What the page knows of the swarm, and who wants to hear when that changes.

/**
 * A runtime event, as docs/events.md describes it.
 * @typedef {{type: string, sequence: number, timestamp: string, agentName: string, instanceKey: string, traceId: string,
 *   spanId: string, parentSpanId?: string} & Record<string, any>} RuntimeEvent
 */
/** @typedef {"events"|"text"|"questions"|"instances"|"topology"|"reloads"|"letters"|"connection"} Topic */

/** So many events are kept; the oldest go first. */
export const KEPT = 50_000;

export const state = {
  /** @type {any} */
  swarm: null,
  /** @type {any} */
  topology: null,
  /** @type {any[]} oldest first */
  instances: [],
  /** @type {RuntimeEvent[]} oldest first */
  events: [],
  /** @type {Map<string, any>} open questions, by id */
  questions: new Map(),
  /** @type {any[]} oldest first */
  reloads: [],
  /** @type {any[]} */
  letters: [],
  /** @type {Map<string, {turnId: string, traceId: string, startedAt: string, text: string, reasoning: string}>} running turns, by instance */
  running: new Map(),
  /** @type {"connecting"|"live"|"lost"} */
  connection: "connecting",
};

/** @type {Map<Topic, Set<(news: any) => void>>} */
const listeners = new Map();

/**
 * Hears of a topic; what is returned ends that.
 * @param {Topic} topic
 * @param {(news: any) => void} listener
 */
export function on(topic, listener) {
  const heard = listeners.get(topic) ?? new Set();
  listeners.set(topic, heard.add(listener));
  return () => heard.delete(listener);
}

/**
 * Tells who listens.
 * @param {Topic} topic
 * @param {any} [news]
 */
export function tell(topic, news) {
  for (const listener of [...(listeners.get(topic) ?? [])]) listener(news);
}

/** @param {{agentName: string, instanceKey: string}} whose */
export function nameOf(whose) {
  return `${whose.agentName}:${whose.instanceKey}`;
}

/**
 * Takes events in, in their order.
 * @param {RuntimeEvent[]} events
 */
export function take(events) {
  for (const event of events) {
    state.events.push(event);
    follow(event);
  }
  if (state.events.length > KEPT) state.events.splice(0, state.events.length - KEPT);
  tell("events", events);
}

/** @param {RuntimeEvent} event */
function follow(event) {
  const name = nameOf(event);
  if (event.type === "turn.started") {
    const { turnId, traceId, timestamp } = event;
    state.running.set(name, { turnId, traceId, startedAt: timestamp, text: "", reasoning: "" });
  } else if (event.type === "turn.completed" || event.type === "turn.failed") {
    state.running.delete(name);
  } else if (event.type === "step.started" || event.type === "step.completed") {
    const turn = state.running.get(name);
    if (turn) clear(turn);
  }
}

/**
 * Discards the text and the reasoning of a step.
 * @param {{text: string, reasoning: string}} turn
 */
export function clear(turn) {
  turn.text = "";
  turn.reasoning = "";
}
