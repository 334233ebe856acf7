// A tool call: closed, a line; open, all of it. A call that needs an approval asks for it here.

import { h } from "./dom.js";
import { requestedChange, diff } from "./diff.js";
import { duration, excerpt } from "./format.js";
import { keep } from "./keyed.js";
import { data, mark } from "./parts.js";
import { questionCard } from "./question.js";

/**
 * A tool call with everything that is known about it.
 * @typedef {{name: string, input: any, result?: any, fact?: import("./facts.js").Call, question?: any, isRunning?: boolean}} CallState
 */

/**
 * The state of a call as a badge.
 * @param {CallState} call
 * @returns {["ok"|"bad"|"busy"|"plain"|"ask", string]}
 */
function stateOf({ result, fact, question, isRunning }) {
  const status = result?.status ?? fact?.status;
  if (status) return status === "ok" ? ["ok", "ended"] : ["bad", "failed"];
  if (question) return ["ask", "waiting for approval"];
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
  return { key, make: () => h("div.call-place"), update: (place) => update(place, call) };
}

/** @param {Element} place @param {CallState} call */
function update(place, call) {
  const { question, result, fact } = call;
  const lines = result ? [] : (fact?.lines ?? []);
  keep(place, [
    { key: "call", make: () => h("details.call"), update: (details) => updateDetails(details, call) },
    lines.length > 0 && { key: "lines", sign: lines.join("\n"), make: () => h("pre.data", { tabindex: 0, role: "region", "aria-label": "Output so far" }, lines.join("\n")) },
    question && { key: `question/${question.id}`, make: () => questionCard(question, { isInline: true }) },
  ]);
}

/** @param {Element} details @param {CallState} call */
function updateDetails(details, call) {
  const { name, input, result, fact } = call;
  const [kind, words] = stateOf(call);
  const told = input === undefined ? "" : excerpt(typeof input === "string" ? input : JSON.stringify(input), 80);
  const took = fact?.status ? duration(fact.duration) : "";
  const change = requestedChange(input);
  const summary = () => h("summary", {}, h("code", {}, name), h("span.muted.arguments", {}, told), took && h("span.muted.took", {}, took), mark(kind, words));
  keep(details, [
    { key: "summary", sign: `${kind}/${words}/${took}`, make: summary },
    input !== undefined && { key: "arguments", make: () => h("div.part", {}, h("h4", {}, "Arguments"), data(input, "Arguments")) },
    change !== null && { key: "change", make: () => h("div.part", {}, h("h4", {}, "Requested change"), diff(change, "Requested change")) },
    result?.output !== undefined && { key: "output", make: () => h("div.part", {}, h("h4", {}, "Result", result.untrusted && mark("ask", "untrusted")), output(result.output)) },
    result?.error && { key: "error", make: () => h("div.part", {}, h("h4", {}, "Error"), data(result.error, "Error")) },
  ]);
}

/** Shows a result. The diff of a changed file comes with its colors. */
function output(value) {
  if (typeof value?.diff !== "string" || !value.diff) return data(value, "Result");
  const { diff: text, ...rest } = value;
  return [Object.keys(rest).length > 0 && data(rest, "Result"), diff(text, "Changes")];
}
