// Turns, calls and totals from events. Each event is read once, so that views do not search all events.

/** Maximum number of approval answers and of failures to keep for the lists. */
const MAX_KEPT_EVENTS = 100;
/** Maximum number of output lines to keep for a running command. */
const MAX_LINES = 20;

/**
 * A tool call of a turn, as its events report it.
 * @typedef {{id: string, name: string, stepId: string, spanId: string, arguments: any, status: ""|"ok"|"error", begin: number, end: number|null, code?: string, duration?: number, title?: string, lines: string[]}} Call
 */
/**
 * A turn, as its events report it.
 * @typedef {{id: string, name: string, eventId: string, traceId: string, stepId: string, startedAt: string, end: any, retries: any[], waits: Map<string, {callId: string, begin: number, end: number|null}>,
 *   failedCall: ModelCall|null, calls: Map<string, Call>}} Turn `name` is the name of its conversation
 */
/**
 * A model call with the events of its retries.
 * @typedef {{traceId: string, spanId: string, startedAt: string, retries: any[]}} ModelCall
 */

/** @type {Map<string, Turn>} turns by id */
export const turns = new Map();
/** @type {Map<string, string>} the finish reason of the model call of a step, by step id */
export const finishReasons = new Map();
/** @type {Map<string, ModelCall>} the latest model call of a step, by step id */
export const modelCalls = new Map();
/** @type {Map<string, {turns: number, failed: number, duration: number}>} totals by agent */
export const totals = new Map();
/** @type {Set<string>} ids of the inputs that started or joined a turn */
export const begunInputs = new Set();
/** @type {Map<string, {agentName: string, instanceKey: string, turnId: string}>} the turn that a tool call started, by the span of the call */
export const callees = new Map();
/** @type {Map<string, any>} the end of the latest turn, by conversation */
export const latestEnds = new Map();
/** @type {Map<string, Turn>} the latest turn, by conversation */
const latestTurns = new Map();
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
 * Returns the turn of an event. Creates it if its start is older than the loaded events.
 * @param {import("./state.js").RuntimeEvent} event
 * @returns {Turn}
 */
function turnOf(event) {
  let turn = turns.get(event.turnId);
  if (!turn) {
    turn = {
      id: event.turnId,
      name: conversationOf(event),
      eventId: "",
      traceId: event.traceId,
      stepId: "",
      startedAt: event.timestamp,
      end: null,
      retries: [],
      waits: new Map(),
      failedCall: null,
      calls: new Map(),
    };
    turns.set(event.turnId, turn);
  }
  return turn;
}

const conversationOf = (event) => `${event.agentName}:${event.instanceKey}`;
const callKey = (event) => `${event.stepId}/${event.toolCallId}`;

/** Appends an event to a list, and removes the oldest if the list is full. */
function keepLatest(list, event) {
  list.push(event);
  if (list.length > MAX_KEPT_EVENTS) list.shift();
}

/** Error codes of calls that are not failures: a user denied or cancelled the call, or another list shows it. */
const EXPECTED = new Set(["E_TOOL_DENIED", "E_TOOL_CANCELLED", "E_TOOL_INTERRUPTED"]);

/** Returns true for an event of the failure list. */
function isFailure(event) {
  if (event.type === "tool.completed") return event.status !== "ok" && !EXPECTED.has(event.error?.code);
  return (event.type === "turn.failed" && event.errorCode !== "E_TURN_CANCELLED") || event.type === "model.failed";
}

/**
 * Adds an event to the facts.
 * @param {import("./state.js").RuntimeEvent} event
 */
export function recordFacts(event) {
  agentNames.add(event.agentName);
  eventTypes.add(event.type);
  if (event.cost?.currency) currency = event.cost.currency;
  if (isFailure(event)) keepLatest(failures, event);
  switch (event.type) {
    case "turn.started":
      beginTurn(event);
      break;
    case "input.joined":
      begunInputs.add(event.eventId);
      break;
    case "step.started":
      turnOf(event).stepId = event.stepId;
      break;
    case "model.retrying":
      turnOf(event).retries.push(event);
      break;
    case "model.completed":
      if (event.stepId) finishReasons.set(event.stepId, event.finishReason);
      if (event.stepId) modelCalls.set(event.stepId, modelCallOf(event));
      turnOf(event).retries = [];
      break;
    case "model.failed":
      turnOf(event).failedCall = modelCallOf(event);
      turnOf(event).retries = [];
      break;
    case "tool.called":
      turnOf(event).calls.set(callKey(event), { id: event.toolCallId, name: event.toolName, stepId: event.stepId, spanId: event.spanId, arguments: event.arguments, status: "", begin: Date.parse(event.timestamp), end: null, lines: [] });
      break;
    case "tool.progress":
      // The event has no step id, and only the latest call with this call id can be running.
      for (const call of [...turnOf(event).calls.values()].reverse()) {
        if (call.id !== event.toolCallId) continue;
        call.title = event.title;
        call.lines = [...call.lines, ...(event.metadata?.lines ?? [])].slice(-MAX_LINES);
        break;
      }
      break;
    case "tool.completed": {
      const call = turnOf(event).calls.get(callKey(event));
      if (call) Object.assign(call, { status: event.status, end: Date.parse(event.timestamp), code: event.error?.code, duration: event.duration, title: event.title });
      break;
    }
    case "turn.completed":
    case "turn.failed":
      endTurn(event);
      break;
    case "approval.requested":
      latestTurns.get(conversationOf(event))?.waits.set(event.approvalId, { callId: event.toolCallId, begin: Date.parse(event.timestamp), end: null });
      break;
    case "approval.resolved":
      keepLatest(answers, event);
      endWait(event);
      break;
    default:
  }
}

/** Records the start of a turn. A turn that continues after a restart starts again. */
function beginTurn(event) {
  const turn = turnOf(event);
  turn.eventId = event.eventId;
  begunInputs.add(event.eventId);
  latestTurns.set(turn.name, turn);
  if (event.parentSpanId) callees.set(event.parentSpanId, { agentName: event.agentName, instanceKey: event.instanceKey, turnId: event.turnId });
}

function modelCallOf(event) {
  return { traceId: event.traceId, spanId: event.spanId, startedAt: event.startedAt, retries: turnOf(event).retries };
}

function endWait(event) {
  const wait = latestTurns.get(conversationOf(event))?.waits.get(event.approvalId);
  if (wait) wait.end = Date.parse(event.timestamp);
}

/**
 * Returns the time that a turn waited for approvals, including in called agents, in milliseconds. Simultaneous waits count once.
 * @param {Turn} turn
 */
export function waited(turn) {
  return lengthOf(waitsOfTurn(turn, new Set()));
}

/**
 * Returns the time that a call waited for approvals, in milliseconds.
 * @param {Turn} turn
 * @param {Call} call
 */
export function waitedInCall(turn, call) {
  return lengthOf(waitsOfCall(turn, call, new Set()));
}

/** Returns the finished waits of a turn, as intervals. */
function waitsOfTurn(turn, seen) {
  if (seen.has(turn.id)) return [];
  seen.add(turn.id);
  return [...ownWaits(turn), ...[...turn.calls.values()].flatMap((call) => waitsOfCall(turn, call, seen))];
}

/** Returns the waits of a call and of the turn that it started, limited to the time of the call. */
function waitsOfCall(turn, call, seen) {
  const called = turns.get(callees.get(call.spanId)?.turnId);
  const waits = [...ownWaits(turn).filter((wait) => wait.callId === call.id), ...(called ? waitsOfTurn(called, seen) : [])];
  const until = call.end ?? Infinity;
  return waits.map(({ begin, end }) => ({ begin: Math.max(begin, call.begin), end: Math.min(end, until) })).filter(({ begin, end }) => end > begin);
}

/** Returns the waits of the calls of a turn. The end of the turn ends unanswered waits. */
function ownWaits(turn) {
  const until = turn.end ? Date.parse(turn.end.timestamp) : null;
  return [...turn.waits.values()].map((wait) => ({ ...wait, end: wait.end ?? until })).filter((wait) => wait.end !== null);
}

/**
 * Returns the length of the union of intervals.
 * @param {{begin: number, end: number}[]} intervals
 */
export function lengthOf(intervals) {
  let [sum, until] = [0, -Infinity];
  for (const { begin, end } of [...intervals].sort((a, b) => a.begin - b.begin)) {
    sum += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return sum;
}

function endTurn(event) {
  turnOf(event).end = event;
  latestEnds.set(conversationOf(event), event);
  const total = totals.get(event.agentName) ?? { turns: 0, failed: 0, duration: 0 };
  total.turns += 1;
  total.failed += event.type === "turn.failed" ? 1 : 0;
  total.duration += event.duration;
  totals.set(event.agentName, total);
}

/**
 * Removes the turn, the finish reason and the model call of a removed event.
 * @param {import("./state.js").RuntimeEvent} event
 */
export function removeFacts(event) {
  if (event.type === "turn.completed" || event.type === "turn.failed") turns.delete(event.turnId);
  if (event.type === "turn.started") {
    begunInputs.delete(event.eventId);
    callees.delete(event.parentSpanId);
  }
  if (event.type !== "model.completed") return;
  finishReasons.delete(event.stepId);
  modelCalls.delete(event.stepId);
}
