// Reasoning of a model.

import { h } from "./dom.js";
import { counted } from "./format.js";

const words = (text) => `Reasoning (${counted(text.trim().split("\n").length, "line")})`;

/**
 * Reasoning of a model: closed, a line; open, all of it.
 * @param {string} text
 * @param {boolean} [open]
 */
export function reasoning(text, open = false) {
  return h("details.reasoning", { open }, h("summary.muted", {}, words(text)), h("div.words.muted", { dir: "auto" }, text));
}
