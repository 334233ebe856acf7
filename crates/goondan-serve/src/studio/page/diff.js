// Diffs with colored lines. The `+` and `-` signs make them readable without color.

import { h } from "./dom.js";

const HUNK = /^@@ .*@@/m;
const PATCH = /^\*\*\* Begin Patch/;

/**
 * Returns true for a unified diff and for a patch.
 * @param {any} text
 */
export function isDiff(text) {
  return typeof text === "string" && (PATCH.test(text) || (HUNK.test(text) && /^[-+]/m.test(text)));
}

/** @param {string} line */
function kindOf(line) {
  if (line.startsWith("@@") || line.startsWith("***")) return "hunk";
  if (line.startsWith("--- ") || line.startsWith("+++ ")) return "name";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}

/**
 * Shows a diff.
 * @param {string} text
 * @param {string} [label] name for screen readers
 */
export function diff(text, label = "Changes") {
  const lines = text.replace(/\n$/, "").split("\n");
  return h("pre.data.diff", { tabindex: 0, role: "group", "aria-label": label }, lines.map((line) => h(`span.line.${kindOf(line)}`, {}, `${line}\n`)));
}

/**
 * Returns the requested change of an edit tool call as a diff; `null` for other arguments.
 * @param {any} input
 */
export function requestedChange(input) {
  const [before, after] = [input?.oldText ?? input?.old_text, input?.newText ?? input?.new_text];
  if (typeof before !== "string" || typeof after !== "string") return null;
  const lines = (text, prefix) => (text === "" ? [] : text.replace(/\n$/, "").split("\n").map((line) => `${prefix}${line}`));
  return [...lines(before, "-"), ...lines(after, "+")].join("\n");
}
