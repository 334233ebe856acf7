// Traces: summaries of all traces (chains), and the spans of one.

import { lengthOf } from "./facts.js";
import { isDenied } from "./parts.js";
import { nameOf, state } from "./state.js";

/**
 * A turn, a model call, a tool call, or a wait for an approval.
 * @typedef {{kind: "turn"|"model"|"tool"|"wait", name: string, conversation: string, begin: number, end: number|null, failed: boolean,
 *   depth: number, details: any[], children: Span[], key: string, finishReason?: string, isDenied?: boolean, isCancelled?: boolean, took?: number}} Span `took` is the time without waits for approvals
 */

const at = (text) => Date.parse(text);

/**
 * Returns the summaries of all loaded traces, latest first.
 * @returns {{id: string, begin: number, end: number, agents: Set<string>, first: any, isRunning: boolean, isWaiting: boolean, failed: boolean, calls: number, waits: Map<string, {begin: number, end: number|null}>, modelFinishReason?: string, isCancelled?: boolean}[]} `isWaiting` is
 *   true while one of its agents waits for an approval
 */
export function chains() {
  const found = new Map();
  for (const event of state.events) {
    if (event.instanceKey === "*") continue;
    let chain = found.get(event.traceId);
    if (!chain) {
      chain = { id: event.traceId, begin: at(event.timestamp), end: 0, agents: new Set(), first: event, isRunning: false, isWaiting: false, failed: false, calls: 0, waits: new Map() };
      found.set(event.traceId, chain);
    }
    chain.end = Math.max(chain.end, at(event.timestamp));
    chain.agents.add(event.agentName);
    if (event.type === "tool.called") chain.calls += 1;
    if (event.type === "approval.requested") chain.waits.set(event.approvalId, { begin: at(event.timestamp), end: null });
    if (event.type === "approval.resolved" && chain.waits.has(event.approvalId)) chain.waits.get(event.approvalId).end = at(event.timestamp);
    if (event.type === "turn.failed") chain.failed = true;
    // The state of the trace is that of its first turn.
    if (event.type === "turn.completed" && event.turnId === chain.first.turnId) {
      chain.modelFinishReason = event.modelFinishReason;
      chain.isCancelled = event.finishReason === "cancelled";
    }
  }
  for (const turn of state.running.values()) {
    const chain = found.get(turn.traceId);
    if (chain) chain.isRunning = true;
  }
  for (const approval of state.approvals.values()) {
    const chain = found.get(state.running.get(nameOf(approval))?.traceId);
    if (chain) chain.isWaiting = true;
  }
  return [...found.values()].sort((a, b) => b.begin - a.begin);
}

/**
 * Returns the spans of a trace as a tree, in the order in which they began.
 * @param {string} traceId
 * @returns {Span[]}
 */
export function spans(traceId) {
  const events = state.events.filter((event) => event.traceId === traceId && event.instanceKey !== "*");
  const turns = new Map();
  const tools = new Map();
  const waits = new Map();
  const retried = new Map();
  const roots = [];
  const bySpan = new Map();
  const make = (kind, name, event, begin, details) => ({ kind, name, conversation: nameOf(event), begin, end: null, failed: false, depth: 0, details, children: [], key: `${kind}/${event.sequence}` });
  for (const event of events) {
    const time = at(event.timestamp);
    const turnKey = `${nameOf(event)}/${event.turnId}`;
    switch (event.type) {
      case "turn.started": {
        // A turn that continues after a restart has a second start event.
        const known = turns.get(turnKey);
        if (known) break;
        const turn = make("turn", nameOf(event), event, time, [event]);
        turns.set(turnKey, turn);
        bySpan.set(event.spanId, turn);
        const parent = bySpan.get(event.parentSpanId);
        (parent ? parent.children : roots).push(turn);
        break;
      }
      case "turn.completed":
      case "turn.failed":
        close(turns.get(turnKey), time, event, event.type === "turn.failed");
        break;
      case "model.retrying":
        retried.set(turnKey, [...(retried.get(turnKey) ?? []), event]);
        break;
      case "model.completed":
      case "model.failed": {
        const model = make("model", `${event.provider} · ${event.model}`, event, at(event.startedAt), retried.get(turnKey) ?? []);
        retried.delete(turnKey);
        model.finishReason = event.finishReason;
        close(model, at(event.startedAt) + event.duration, event, event.type === "model.failed");
        turns.get(turnKey)?.children.push(model);
        break;
      }
      case "tool.called": {
        const tool = make("tool", event.toolName, event, time, [event]);
        tools.set(`${turnKey}/${event.toolCallId}`, tool);
        bySpan.set(event.spanId, tool);
        turns.get(turnKey)?.children.push(tool);
        break;
      }
      case "tool.completed": {
        const tool = tools.get(`${turnKey}/${event.toolCallId}`);
        const isCancelled = event.error?.code === "E_TOOL_CANCELLED";
        close(tool, time, event, event.status !== "ok" && !isDenied(event.error?.code) && !isCancelled);
        if (tool) Object.assign(tool, { isDenied: isDenied(event.error?.code), isCancelled });
        break;
      }
      case "approval.requested": {
        const wait = make("wait", "waits for approval", event, time, [event]);
        waits.set(event.approvalId, wait);
        callOf(tools, event)?.children.push(wait);
        break;
      }
      case "approval.resolved":
        close(waits.get(event.approvalId), time, event, false);
        if (waits.has(event.approvalId)) waits.get(event.approvalId).isDenied = event.answer === "deny";
        break;
      default:
    }
  }
  order(roots, 0);
  return roots;
}

/** Returns the tool call of an approval event, which does not contain the turn id. */
function callOf(tools, event) {
  const begin = `${nameOf(event)}/`;
  const found = [...tools].filter(([key]) => key.startsWith(begin) && key.endsWith(`/${event.toolCallId}`));
  return found.at(-1)?.[1];
}

function close(span, time, event, failed) {
  if (!span) return;
  span.end = Math.max(time, span.begin);
  if (event.type !== "approval.resolved") span.took = event.duration;
  span.failed = failed;
  span.details.push(event);
}

/**
 * Returns the time that a span waited for approvals, including in called agents, in milliseconds.
 * @param {Span} span
 */
export function waitedIn(span) {
  if (span.end === null || span.kind === "wait") return 0;
  const waits = flat(span.children).filter((one) => one.kind === "wait" && one.end !== null);
  const inside = waits.map(({ begin, end }) => ({ begin: Math.max(begin, span.begin), end: Math.min(end, span.end) }));
  return lengthOf(inside.filter(({ begin, end }) => end > begin));
}

function order(list, depth) {
  list.sort((a, b) => a.begin - b.begin);
  for (const span of list) {
    span.depth = depth;
    order(span.children, depth + 1);
  }
}

/**
 * Returns the spans in the order of the waterfall.
 * @param {Span[]} roots
 * @returns {Span[]}
 */
export function flat(roots) {
  return roots.flatMap((span) => [span, ...flat(span.children)]);
}
