// Facts from events: turns, calls and totals. Each event is read once, so no view has to search all events to draw itself.

/** Maximum number of answers and failures that are kept for the lists. */
const KEPT = 100;
/** Maximum number of output lines of a running command, the latest. */
const LINES = 20;

/**
 * A tool call of a turn, as its events report it.
 * @typedef {{id: string, name: string, stepId: string, arguments: any, status: ""|"ok"|"error", duration?: number, title?: string, lines: string[]}} Call
 */
/**
 * A turn, as its events report it.
 * @typedef {{id: string, eventId: string, traceId: string, stepId: string, startedAt: string, end: any, retries: any[], calls: Map<string, Call>}} Turn
 */

/** @type {Map<string, Turn>} turns by id */
export const turns = new Map();
/** @type {Map<string, string>} the finish reason of the model call of a step, by step id */
export const finishReasons = new Map();
/** @type {Map<string, {traceId: string, spanId: string}>} the latest model call of a step, by step id */
export const modelCalls = new Map();
/** @type {Map<string, {turns: number, failed: number, duration: number}>} totals by agent */
export const totals = new Map();
/** @type {Set<string>} */
export const agentNames = new Set();
/** @type {Set<string>} */
export const eventTypes = new Set();
/** @type {any[]} the latest answers to approval requests, oldest first */
export const answers = [];
/** @type {any[]} the latest failures, oldest first */
export const failures = [];
/** The currency of the latest cost; empty if no Model has prices. */
export let currency = "";

/**
 * Returns the turn with this id, and creates it if its beginning is older than the loaded events.
 * @param {import("./state.js").RuntimeEvent} event
 * @returns {Turn}
 */
function turnOf(event) {
  let turn = turns.get(event.turnId);
  if (!turn) {
    turn = { id: event.turnId, eventId: "", traceId: event.traceId, stepId: "", startedAt: event.timestamp, end: null, retries: [], calls: new Map() };
    turns.set(event.turnId, turn);
  }
  return turn;
}

const callKey = (event) => `${event.stepId}/${event.toolCallId}`;

/** Keeps the latest events of a list. */
function keepLatest(list, event) {
  list.push(event);
  if (list.length > KEPT) list.shift();
}

/** Returns true for an event that the list of failures shows. An interrupted call has its own list. */
function isFailure(event) {
  if (event.type === "tool.completed") return event.status !== "ok" && event.error?.code !== "E_TOOL_INTERRUPTED";
  return event.type === "turn.failed" || event.type === "model.failed";
}

/**
 * Adds an event to the facts.
 * @param {import("./state.js").RuntimeEvent} event
 */
export function note(event) {
  agentNames.add(event.agentName);
  eventTypes.add(event.type);
  if (event.cost?.currency) currency = event.cost.currency;
  if (isFailure(event)) keepLatest(failures, event);
  if (event.stepId && event.type === "model.completed") modelCalls.set(event.stepId, { traceId: event.traceId, spanId: event.spanId });
  switch (event.type) {
    case "turn.started":
      turnOf(event).eventId = event.eventId;
      break;
    case "step.started":
      turnOf(event).stepId = event.stepId;
      break;
    case "model.retrying":
      turnOf(event).retries.push(event);
      break;
    case "model.completed":
      if (event.stepId) finishReasons.set(event.stepId, event.finishReason);
      turnOf(event).retries.length = 0;
      break;
    case "model.failed":
      turnOf(event).retries.length = 0;
      break;
    case "tool.called":
      turnOf(event).calls.set(callKey(event), { id: event.toolCallId, name: event.toolName, stepId: event.stepId, arguments: event.arguments, status: "", lines: [] });
      break;
    case "tool.progress":
      // The event names no step: the latest call with this id runs.
      for (const call of [...turnOf(event).calls.values()].reverse()) {
        if (call.id !== event.toolCallId) continue;
        call.title = event.title;
        call.lines = [...call.lines, ...(event.metadata?.lines ?? [])].slice(-LINES);
        break;
      }
      break;
    case "tool.completed": {
      const call = turnOf(event).calls.get(callKey(event));
      if (call) Object.assign(call, { status: event.status, duration: event.duration, title: event.title });
      break;
    }
    case "turn.completed":
    case "turn.failed":
      endTurn(event);
      break;
    case "approval.resolved":
      keepLatest(answers, event);
      break;
    default:
  }
}

function endTurn(event) {
  turnOf(event).end = event;
  const total = totals.get(event.agentName) ?? { turns: 0, failed: 0, duration: 0 };
  total.turns += 1;
  total.failed += event.type === "turn.failed" ? 1 : 0;
  total.duration += event.duration;
  totals.set(event.agentName, total);
}

/**
 * Removes the turn and the finish reason of an event that is no longer kept.
 * @param {import("./state.js").RuntimeEvent} event
 */
export function forget(event) {
  if (event.type === "turn.completed" || event.type === "turn.failed") turns.delete(event.turnId);
  if (event.type !== "model.completed") return;
  finishReasons.delete(event.stepId);
  modelCalls.delete(event.stepId);
}
