// The state of the swarm as far as the page has it, and the listeners for its changes.

import { forget, note } from "./facts.js";

/**
 * A runtime event, as docs/events.md describes it.
 * @typedef {{type: string, sequence: number, timestamp: string, agentName: string, instanceKey: string, traceId: string,
 *   spanId: string, parentSpanId?: string} & Record<string, any>} RuntimeEvent
 */
/** @typedef {"events"|"text"|"questions"|"instances"|"topology"|"reloads"|"letters"|"connection"|"inputs"} Topic */

/** So many events are kept; the oldest go first. */
export const KEPT = 50_000;
/** So many more are kept before the oldest go, so that this is seldom. */
const SPARE = 500;

export const state = {
  /** @type {any} */
  swarm: null,
  /** What the server offers beyond the usual: running test cases, editing files. */
  features: { cases: false, edit: false },
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
  /** @type {Map<string, {turnId: string, traceId: string, stepId: string, startedAt: string, text: string, reasoning: string}>} running turns, by instance */
  running: new Map(),
  /** @type {string[]} agent and key of the conversation that was opened last, which the link to the conversations opens */
  lastOpened: [],
  /** @type {"connecting"|"live"|"lost"} */
  connection: "connecting",
  /** True when all stored events are here. Until then there are no events at all. */
  isLoaded: false,
};

/** @type {Map<Topic, Set<(news: any) => void>>} */
const listeners = new Map();

/**
 * Calls a listener with the news of a topic.
 * @param {Topic} topic
 * @param {(news: any) => void} listener
 * @returns {() => void} ends that
 */
export function on(topic, listener) {
  const heard = listeners.get(topic) ?? new Set();
  listeners.set(topic, heard.add(listener));
  return () => heard.delete(listener);
}

/**
 * Draws at most once per animation frame after news of some topics, however many events there are. A page in the background
 * has no frames, so it draws nothing until it is shown again.
 * @param {Topic[]} topics
 * @param {() => void} draw
 * @param {(topic: Topic, news: any) => boolean} [concerns] returns false for news that change nothing
 * @returns {() => void} ends that
 */
export function onFrame(topics, draw, concerns = () => true) {
  let planned = 0;
  const run = () => {
    planned = 0;
    draw();
  };
  const stops = topics.map((topic) =>
    on(topic, (news) => {
      if (concerns(topic, news)) planned ||= requestAnimationFrame(run);
    }),
  );
  return () => {
    cancelAnimationFrame(planned);
    stops.forEach((stop) => stop());
  };
}

/**
 * Calls the listeners of a topic.
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
 * Returns true if a turn of the conversation runs. The API has its status before the events are loaded.
 * @param {any} meta
 */
export function isRunning(meta) {
  return state.isLoaded ? state.running.has(nameOf(meta)) : meta.status === "processing";
}

/** @type {WeakMap<RuntimeEvent, number>} */
const numbers = new WeakMap();
let taken = 0;

/**
 * Returns the number of an event: its place among the events that the page has received.
 * @param {RuntimeEvent} event
 */
export const numberOf = (event) => numbers.get(event);

/**
 * Adds an event to the state. The caller then reports all events of its batch at once, with `tell`.
 * @param {RuntimeEvent} event
 */
export function take(event) {
  state.events.push(event);
  numbers.set(event, (taken += 1));
  if (state.events.length > KEPT + SPARE) state.events.splice(0, SPARE).forEach(forget);
  note(event);
  follow(event);
}

/** @param {RuntimeEvent} event */
function follow(event) {
  const name = nameOf(event);
  if (event.type === "turn.started") {
    const { turnId, traceId, timestamp } = event;
    state.running.set(name, { turnId, traceId, stepId: "", startedAt: timestamp, text: "", reasoning: "" });
  } else if (event.type === "turn.completed" || event.type === "turn.failed") {
    state.running.delete(name);
  } else if (event.type === "step.started") {
    // The text of the step before stays until then: the view has to load the message first.
    const turn = state.running.get(name);
    if (!turn) return;
    turn.stepId = event.stepId;
    clear(turn);
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
