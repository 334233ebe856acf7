// The loaded state of the swarm, and listeners for its changes.

import { removeFacts, recordFacts } from "./facts.js";

/**
 * A runtime event, as docs/events.md describes it.
 * @typedef {{type: string, sequence: number, timestamp: string, agentName: string, instanceKey: string, traceId: string,
 *   spanId: string, parentSpanId?: string} & Record<string, any>} RuntimeEvent
 */
/** @typedef {"events"|"text"|"approvals"|"instances"|"topology"|"reloads"|"deadLetters"|"connection"|"inputs"} Topic */

/** Maximum number of events in memory. The oldest are removed first. */
export const MAX_EVENTS = 50_000;
/** Number of events to remove at once, so that removals are rare. */
const TRIM_COUNT = 500;

export const state = {
  /** @type {any} */
  swarm: null,
  /** Optional features of the server: running test cases, editing files. */
  features: { cases: false, edit: false },
  /** @type {any} */
  topology: null,
  /** @type {any[]} oldest first */
  instances: [],
  /** @type {RuntimeEvent[]} oldest first */
  events: [],
  /** @type {Map<string, any>} open approval requests, by id */
  approvals: new Map(),
  /** @type {any[]} oldest first */
  reloads: [],
  /** @type {any[]} */
  deadLetters: [],
  /** @type {Map<string, {turnId: string, traceId: string, stepId: string, startedAt: string, text: string, reasoning: string}>} running turns, by instance */
  running: new Map(),
  /** @type {string[]} agent and key of the last opened conversation, the target of the Conversations link */
  lastOpened: [],
  /** @type {"connecting"|"live"|"lost"} */
  connection: "connecting",
  /** True when all stored events are loaded. Until then, `events` is empty. */
  isLoaded: false,
};

/** @type {Map<Topic, Set<(payload: any) => void>>} */
const listeners = new Map();

/**
 * Calls a listener when a topic changes. For `events`, the argument is the list of new events.
 * @param {Topic} topic
 * @param {(payload: any) => void} listener
 * @returns {() => void} removes the listener
 */
export function on(topic, listener) {
  const registered = listeners.get(topic) ?? new Set();
  listeners.set(topic, registered.add(listener));
  return () => registered.delete(listener);
}

/**
 * Draws at most once per animation frame after topics change. A page in the background has no frames, so it draws only when it
 * is visible again.
 * @param {Topic[]} topics
 * @param {() => void} draw
 * @param {(topic: Topic, payload: any) => boolean} [isRelevant] returns false for changes that need no drawing
 * @returns {() => void} removes the listeners
 */
export function onFrame(topics, draw, isRelevant = () => true) {
  let frameRequest = 0;
  const run = () => {
    frameRequest = 0;
    draw();
  };
  const stops = topics.map((topic) =>
    on(topic, (payload) => {
      if (isRelevant(topic, payload)) frameRequest ||= requestAnimationFrame(run);
    }),
  );
  return () => {
    cancelAnimationFrame(frameRequest);
    stops.forEach((stop) => stop());
  };
}

/**
 * Calls the listeners of a topic.
 * @param {Topic} topic
 * @param {any} [payload]
 */
export function notify(topic, payload) {
  for (const listener of [...(listeners.get(topic) ?? [])]) listener(payload);
}

/** @param {{agentName: string, instanceKey: string}} conversation */
export function nameOf(conversation) {
  return `${conversation.agentName}:${conversation.instanceKey}`;
}

/**
 * Returns true if a turn of the conversation is running. Before the events are loaded, uses the status from the API.
 * @param {any} meta
 */
export function isRunning(meta) {
  return state.isLoaded ? state.running.has(nameOf(meta)) : meta.status === "processing";
}

/** @type {WeakMap<RuntimeEvent, number>} */
const eventNumbers = new WeakMap();
let receivedCount = 0;

/**
 * Returns the number of an event, in the order in which the page received the events.
 * @param {RuntimeEvent} event
 */
export const numberOf = (event) => eventNumbers.get(event);

/**
 * Adds an event to the state. After a batch of events, the caller calls `notify` once.
 * @param {RuntimeEvent} event
 */
export function addEvent(event) {
  state.events.push(event);
  eventNumbers.set(event, (receivedCount += 1));
  if (state.events.length > MAX_EVENTS + TRIM_COUNT) state.events.splice(0, TRIM_COUNT).forEach(removeFacts);
  recordFacts(event);
  updateRunning(event);
}

/** @param {RuntimeEvent} event */
function updateRunning(event) {
  const name = nameOf(event);
  if (event.type === "turn.started") {
    const { turnId, traceId, timestamp } = event;
    state.running.set(name, { turnId, traceId, stepId: "", startedAt: timestamp, text: "", reasoning: "" });
  } else if (event.type === "turn.completed" || event.type === "turn.failed") {
    state.running.delete(name);
  } else if (event.type === "step.started") {
    // Until now, the text of the previous step is shown, because the view loads its message later.
    const turn = state.running.get(name);
    if (!turn) return;
    turn.stepId = event.stepId;
    clearText(turn);
  }
}

/**
 * Discards the text and the reasoning of a step.
 * @param {{text: string, reasoning: string}} turn
 */
export function clearText(turn) {
  turn.text = "";
  turn.reasoning = "";
}
