// Elements that several views share.

import { ApiError } from "./api.js";
import { diff, isDiff } from "./diff.js";
import { fill, h } from "./dom.js";
import { json } from "./format.js";

/**
 * Creates a message for an empty view or list.
 * @param {string} title
 * @param {...import("./dom.js").Child} content
 */
export function emptyMessage(title, ...content) {
  return h("div.empty", {}, h("p.empty-title", {}, title), h("p", {}, ...content));
}

/**
 * Creates a colored label. Its text is sufficient without the color.
 * @param {"ok"|"bad"|"busy"|"plain"|"ask"} kind
 * @param {string} text
 */
export function badge(kind, text) {
  return h(`span.mark.${kind}`, {}, text);
}

/**
 * Returns true for the error of a call that a rule or a user denied.
 * @param {string|undefined} code
 */
export const isDenied = (code) => code === "E_TOOL_DENIED";

/** Label and explanation of an incomplete answer, by finish reason. */
const INCOMPLETE_ANSWERS = {
  length: ["cut off at the token limit", "it reached the limit of output tokens. Raise `modelConfig.params.maxTokens` of the agent, or lower `options.reasoningEffort` of the Model."],
  contextWindow: ["cut off at the context window", "it reached the context window of the model. Shorten the conversation, for example with the extension `message-window`, or use a model with a larger context window."],
  pause: ["paused by the provider", "the provider paused the answer. Send another input, such as “Continue”."],
};

/**
 * Creates a badge for an incomplete answer. Returns `undefined` for a complete answer.
 * @param {string|undefined} reason the finish reason of a model call
 */
export function incompleteBadge(reason) {
  const labels = INCOMPLETE_ANSWERS[reason];
  return labels && h("span.mark.ask", { title: `The answer is incomplete: ${labels[1]}` }, labels[0]);
}

/**
 * Shows data. Diffs are colored, and strings with several lines are separate blocks.
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
 * Creates the heading of a view.
 * @param {string} title
 * @param {...import("./dom.js").Child} more
 */
export function viewHeading(title, ...more) {
  return h("div.head", {}, h("h1", {}, title), h("div.head-more", {}, ...more));
}

/**
 * Adds a title to the list of a view with two columns. A separate hidden heading stays when a narrow page hides the list.
 * @param {string} title
 * @param {Element} side
 */
export function withHeading(title, side) {
  side.prepend(h("div.head", {}, h("p.side-title", { "aria-hidden": "true" }, title)));
  return [h("h1.visually-hidden", {}, title), side];
}

/**
 * Shows a notice: a success for 5 seconds, an error until it is dismissed.
 * @param {"ok"|"bad"} kind
 * @param {string} text
 * @param {string} [suggestion]
 */
export function notice(kind, text, suggestion) {
  const container = document.getElementById("notice");
  const close = h("button.quiet", { type: "button", "aria-label": "Dismiss" }, "×");
  const box = h(`div.notice.${kind}`, { role: kind === "bad" ? "alert" : "status" }, h("div", {}, h("p", {}, text), suggestion && h("p.muted", {}, suggestion)), close);
  close.addEventListener("click", () => box.remove());
  fill(container, box);
  if (kind === "ok") setTimeout(() => box.remove(), 5000);
}

/**
 * Runs an asynchronous function, and shows API errors as a notice.
 * @param {() => Promise<any>} work
 * @returns {Promise<any>}
 */
export async function withErrorNotice(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    notice("bad", error.code ? `${error.message} [${error.code}]` : error.message, error.suggestion);
    return undefined;
  }
}

/**
 * Returns the link target of a view.
 * @param {...string} parts
 */
export function viewHref(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * Creates a link to a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function conversationLink(conversation) {
  return h("a", { href: viewHref("conversations", conversation.agentName, conversation.instanceKey) }, `${conversation.agentName}:${conversation.instanceKey}`);
}

/**
 * Downloads a file.
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
 * Creates the list item of a project diagnostic.
 * @param {any} diagnostic
 */
export function diagnostic(diagnostic) {
  const location = diagnostic.file && `${diagnostic.file}${diagnostic.line ? `:${diagnostic.line}:${diagnostic.column ?? 1}` : ""}`;
  const isError = diagnostic.severity === "error";
  return h(
    "li.diagnostic",
    {},
    h("div.row", {}, badge(isError ? "bad" : "ask", isError ? "error" : "warning"), diagnostic.code && h("code", {}, diagnostic.code), location && h("code.muted", {}, location)),
    h("p", {}, diagnostic.message),
    diagnostic.suggestion && h("p.muted", {}, diagnostic.suggestion),
  );
}
