// A tool call as an expandable line, with its approval request.

import { h } from "./dom.js";
import { requestedChange, diff } from "./diff.js";
import { callees } from "./facts.js";
import { duration, excerpt, waitText } from "./format.js";
import { updateChildren } from "./keyed.js";
import { conversationLink, data, isDenied, badge } from "./parts.js";
import { approvalCard } from "./question.js";
import { nameOf } from "./state.js";

/** Maximum length of the outcome of a closed call, in characters. */
const MAX_OUTCOME = 120;

/**
 * A tool call with its result, its events and its approval request.
 * @typedef {{name: string, input: any, result?: any, fact?: import("./facts.js").Call, approval?: any, called?: any, waits?: number, isRunning?: boolean}} CallState `called` is the approval request of the called agent
 */

/**
 * Returns the kind and the text of the state badge.
 * @param {CallState} call
 * @returns {["ok"|"bad"|"busy"|"plain"|"ask", string]}
 */
function stateOf({ result, fact, approval, called, isRunning }) {
  const status = result?.status ?? fact?.status;
  if (status === "ok") return ["ok", "ended"];
  const code = result?.error?.code ?? fact?.code;
  if (status) return isDenied(code) ? ["plain", "denied"] : code === "E_TOOL_CANCELLED" ? ["plain", "cancelled"] : ["bad", "failed"];
  if (approval) return ["ask", "waiting for approval"];
  if (called) return ["ask", `waits for approval in ${nameOf(called)}`];
  if (!isRunning) return ["plain", "no result"];
  return fact ? ["busy", "running"] : ["plain", "waiting"];
}

/**
 * Returns the list item of a call.
 * @param {string} key
 * @param {CallState} call
 * @returns {import("./keyed.js").Item}
 */
export function callItem(key, call) {
  return { key, make: () => h("div.call-place"), update: (container) => update(container, call) };
}

/** @param {Element} container @param {CallState} call */
function update(container, call) {
  const { approval, called, result, fact } = call;
  const callee = fact && callees.get(fact.spanId);
  const lines = result ? [] : (fact?.lines ?? []);
  updateChildren(container, [
    { key: "call", make: () => h("details.call"), update: (details) => updateDetails(details, call) },
    callee && { key: "callee", signature: `${callee.agentName}:${callee.instanceKey}`, make: () => h("p.callee.muted", {}, "Open ", conversationLink(callee)) },
    lines.length > 0 && { key: "lines", signature: lines.join("\n"), make: () => h("pre.data", { tabindex: 0, role: "group", "aria-label": "Output so far" }, lines.join("\n")) },
    approval && { key: `question/${approval.id}`, make: () => approvalCard(approval, { isInline: true }) },
    !approval && called && { key: `question/${called.id}`, make: () => approvalCard(called) },
  ]);
}

/** @param {Element} details @param {CallState} call */
function updateDetails(details, call) {
  const { name, input, result, fact } = call;
  const [kind, stateText] = stateOf(call);
  const argumentsText = input === undefined ? "" : excerpt(typeof input === "string" ? input : JSON.stringify(input), 80);
  const took = fact?.status ? [duration(fact.duration), waitText(call.waits ?? 0)].filter(Boolean).join(" · ") : "";
  const outcome = outcomeOf(call);
  const change = requestedChange(input);
  const summary = () => h("summary", {}, h("code", {}, name), h("span.muted.arguments", {}, argumentsText), took && h("span.muted.took", {}, took), badge(kind, stateText), outcome && h("span.outcome", { class: kind === "bad" ? "bad" : "muted" }, outcome));
  updateChildren(details, [
    { key: "summary", signature: `${kind}/${stateText}/${took}/${outcome}`, make: summary },
    input !== undefined && { key: "arguments", make: () => h("div.part", {}, h("h3", {}, "Arguments"), data(input, "Arguments")) },
    change !== null && { key: "change", make: () => h("div.part", {}, h("h3", {}, "Requested change"), diff(change, "Requested change")) },
    result?.output !== undefined && { key: "output", make: () => h("div.part", {}, h("h3", {}, "Result", result.untrusted && badge("ask", "untrusted")), output(result.output)) },
    result?.error && { key: "error", make: () => h("div.part", {}, h("h3", {}, "Error"), data(result.error, "Error")) },
  ]);
}

/**
 * Returns the outcome of a call in one line: the error, the title of the result, or the beginning of the result.
 * @param {CallState} call
 */
function outcomeOf({ result, fact }) {
  if (result?.error) return excerpt(String(result.error.message ?? "").split("\n")[0], MAX_OUTCOME);
  if (result?.status !== "ok") return "";
  return excerpt(fact?.title ?? firstText(result.output), MAX_OUTCOME);
}

/** Returns the first string of a result, or the result as JSON. */
function firstText(value) {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  const text = typeof value === "object" ? Object.values(value).find((one) => typeof one === "string" && one.trim()) : undefined;
  return text ?? JSON.stringify(value);
}

/** Shows a result. The diff of a changed file is colored. */
function output(value) {
  if (typeof value?.diff !== "string" || !value.diff) return data(value, "Result");
  const { diff: text, ...rest } = value;
  return [Object.keys(rest).length > 0 && data(rest, "Result"), diff(text, "Changes")];
}
