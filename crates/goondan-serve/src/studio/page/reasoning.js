// Shows the reasoning of a model.

import { h } from "./dom.js";
import { counted } from "./format.js";

const summaryText = (text) => `Reasoning (${counted(text.trim().split("\n").length, "line")})`;

/**
 * Creates an expandable section with the reasoning of a model.
 * @param {string} text
 * @param {boolean} [open]
 */
export function reasoning(text, open = false) {
  return h("details.reasoning", { open }, h("summary.muted", {}, summaryText(text)), h("div.words.muted", { dir: "auto" }, text));
}
