// Traces: the events of a chain as spans, and all chains in short.

import { nameOf, state } from "./state.js";

/**
 * Something that took a while.
 * @typedef {{kind: "turn"|"model"|"tool"|"wait", name: string, whose: string, begin: number, end: number|null, failed: boolean,
 *   depth: number, details: any[], children: Span[], key: string, finishReason?: string}} Span
 */

const at = (text) => Date.parse(text);

/**
 * All chains that the page knows of, latest first.
 * @returns {{id: string, begin: number, end: number, agents: Set<string>, first: any, isRunning: boolean, failed: boolean, calls: number}[]}
 */
export function chains() {
  const found = new Map();
  for (const event of state.events) {
    if (event.instanceKey === "*") continue;
    let chain = found.get(event.traceId);
    if (!chain) {
      chain = { id: event.traceId, begin: at(event.timestamp), end: 0, agents: new Set(), first: event, isRunning: false, failed: false, calls: 0 };
      found.set(event.traceId, chain);
    }
    chain.end = Math.max(chain.end, at(event.timestamp));
    chain.agents.add(event.agentName);
    if (event.type === "tool.called") chain.calls += 1;
    if (event.type === "turn.failed") chain.failed = true;
  }
  for (const turn of state.running.values()) {
    const chain = found.get(turn.traceId);
    if (chain) chain.isRunning = true;
  }
  return [...found.values()].sort((a, b) => b.begin - a.begin);
}

/**
 * The spans of a chain as a tree, in the order in which they began.
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
  const make = (kind, name, event, begin, details) => ({ kind, name, whose: nameOf(event), begin, end: null, failed: false, depth: 0, details, children: [], key: `${kind}/${event.sequence}` });
  for (const event of events) {
    const time = at(event.timestamp);
    const turnKey = `${nameOf(event)}/${event.turnId}`;
    switch (event.type) {
      case "turn.started": {
        // A turn that goes on after a restart begins once more, and is the same one.
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
      case "tool.completed":
        close(tools.get(`${turnKey}/${event.toolCallId}`), time, event, event.status !== "ok");
        break;
      case "approval.requested": {
        const wait = make("wait", "waits for approval", event, time, [event]);
        waits.set(event.approvalId, wait);
        callOf(tools, event)?.children.push(wait);
        break;
      }
      case "approval.resolved":
        close(waits.get(event.approvalId), time, event, event.answer === "deny");
        break;
      default:
    }
  }
  order(roots, 0);
  return roots;
}

/** The call that an approval is about; its event does not name the turn. */
function callOf(tools, event) {
  const begin = `${nameOf(event)}/`;
  const found = [...tools].filter(([key]) => key.startsWith(begin) && key.endsWith(`/${event.toolCallId}`));
  return found.at(-1)?.[1];
}

function close(span, time, event, failed) {
  if (!span) return;
  span.end = Math.max(time, span.begin);
  span.failed = failed;
  span.details.push(event);
}

function order(list, depth) {
  list.sort((a, b) => a.begin - b.begin);
  for (const span of list) {
    span.depth = depth;
    order(span.children, depth + 1);
  }
}

/**
 * The spans in the order of the waterfall.
 * @param {Span[]} roots
 * @returns {Span[]}
 */
export function flat(roots) {
  return roots.flatMap((span) => [span, ...flat(span.children)]);
}
