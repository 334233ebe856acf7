// Pieces that several views are made of.

import { Problem } from "./api.js";
import { diff, isDiff } from "./diff.js";
import { fill, h } from "./dom.js";
import { json } from "./format.js";

/**
 * What there is to say where there is nothing to show.
 * @param {string} title
 * @param {...import("./dom.js").Child} words
 */
export function nothing(title, ...words) {
  return h("div.empty", {}, h("p.empty-title", {}, title), h("p", {}, ...words));
}

/**
 * A word with a colour that says how it is meant; the word says it, too.
 * @param {"ok"|"bad"|"busy"|"plain"|"ask"} kind
 * @param {string} words
 */
export function mark(kind, words) {
  return h(`span.mark.${kind}`, {}, words);
}

/**
 * Returns true for the error of a call that a rule or a user denied.
 * @param {string|undefined} code
 */
export const isDenied = (code) => code === "E_TOOL_DENIED";

/** The reasons why an answer is incomplete: on a badge, and in a sentence. */
const CUTS = {
  length: ["cut off at the token limit", "it reached the limit of output tokens. Raise `modelConfig.params.maxTokens` of the agent, or lower `options.reasoningEffort` of the Model."],
  contextWindow: ["cut off at the context window", "it reached the context window of the model. Shorten the conversation, for example with the extension `message-window`, or use a model with a larger context window."],
  pause: ["paused by the provider", "the provider paused the answer. Send another input, such as “Continue”."],
};

/**
 * A badge for an incomplete answer; nothing for a complete one.
 * @param {string|undefined} reason the finish reason of a model call
 */
export function cut(reason) {
  const words = CUTS[reason];
  return words && h("span.mark.ask", { title: `The answer is incomplete: ${words[1]}` }, words[0]);
}

/**
 * Shows data. A diff has colors, and each text of several lines is shown as such.
 * @param {any} value
 * @param {string} [label] name for screen readers
 */
export function data(value, label = "Data") {
  if (isDiff(value)) return diff(value, label);
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  const long = isObject ? Object.entries(value).filter(([, text]) => typeof text === "string" && text.includes("\n")) : [];
  if (!long.length) return h("pre.data", { tabindex: 0, role: "group", "aria-label": label }, json(value));
  const short = Object.entries(value).filter(([name]) => !long.some(([known]) => known === name));
  return h(
    "div.fields",
    { role: "group", "aria-label": label },
    short.length > 0 && data(Object.fromEntries(short), label),
    long.map(([name, text]) => [h("p.field-name", {}, name), data(text, name)]),
  );
}

/**
 * The head of a view.
 * @param {string} title
 * @param {...import("./dom.js").Child} more
 */
export function head(title, ...more) {
  return h("div.head", {}, h("h1", {}, title), h("div.head-more", {}, ...more));
}

/**
 * The head of the list of a view with two columns. The heading itself stays when a narrow page leaves out the list.
 * @param {string} title
 * @param {Element} side
 */
export function withHeading(title, side) {
  side.prepend(h("div.head", {}, h("p.side-title", { "aria-hidden": "true" }, title)));
  return [h("h1.visually-hidden", {}, title), side];
}

/**
 * Shows a message for a while, or an error until it is put away.
 * @param {"ok"|"bad"} kind
 * @param {string} words
 * @param {string} [suggestion]
 */
export function notice(kind, words, suggestion) {
  const place = document.getElementById("notice");
  const close = h("button.quiet", { type: "button", "aria-label": "Dismiss" }, "×");
  const box = h(`div.notice.${kind}`, { role: kind === "bad" ? "alert" : "status" }, h("div", {}, h("p", {}, words), suggestion && h("p.muted", {}, suggestion)), close);
  close.addEventListener("click", () => box.remove());
  fill(place, box);
  if (kind === "ok") setTimeout(() => box.remove(), 5000);
}

/**
 * Does something, and says so where it fails.
 * @param {() => Promise<any>} work
 * @returns {Promise<any>}
 */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    notice("bad", error.code ? `${error.message} [${error.code}]` : error.message, error.suggestion);
    return undefined;
  }
}

/**
 * The address of a view.
 * @param {...string} parts
 */
export function address(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * A link to a conversation.
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function conversationLink(whose) {
  return h("a", { href: address("conversations", whose.agentName, whose.instanceKey) }, `${whose.agentName}:${whose.instanceKey}`);
}

/**
 * Gives a file to the person.
 * @param {string} name
 * @param {string} type
 * @param {string} text
 */
export function download(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * A diagnostic of the project.
 * @param {any} diagnostic
 */
export function diagnostic(diagnostic) {
  const place = diagnostic.file && `${diagnostic.file}${diagnostic.line ? `:${diagnostic.line}:${diagnostic.column ?? 1}` : ""}`;
  const isError = diagnostic.severity === "error";
  return h(
    "li.diagnostic",
    {},
    h("div.row", {}, mark(isError ? "bad" : "ask", isError ? "error" : "warning"), diagnostic.code && h("code", {}, diagnostic.code), place && h("code.muted", {}, place)),
    h("p", {}, diagnostic.message),
    diagnostic.suggestion && h("p.muted", {}, diagnostic.suggestion),
  );
}
