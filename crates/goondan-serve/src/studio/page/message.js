// Messages of a conversation, with the tool calls in them.

import { callItem } from "./call.js";
import { button, h } from "./dom.js";
import { counted, timeOrDate } from "./format.js";
import { updateChildren } from "./keyed.js";
import { markdown } from "./markdown.js";
import { modelCallDetails } from "./model-call.js";
import { incompleteBadge, data, badge } from "./parts.js";
import { reasoning } from "./reasoning.js";

/**
 * A stored message.
 * @typedef {{id: string, data: {role: string, content: any[]}, metadata: Record<string, any>, createdAt: string, source: any}} Message
 */
/**
 * Data for drawing a message: the results of its calls, its actions, and the live state of calls and answers.
 * @typedef {{agentName: string, results: Map<any, any>, answered: Set<any>, messageActions: {fork?: (message: Message) => any, record?: (message: Message) => any, edit?: (message: Message) => any},
 *   live: {call?: (message: Message, part: any) => Partial<import("./call.js").CallState>, reason?: (message: Message) => string|undefined,
 *   modelCall?: (message: Message) => import("./facts.js").ModelCall|undefined}, isFile: boolean}} Context
 */

const SPEAKERS = { user: "Input", system: "System", tool: "Tools" };
/** Image types that the page shows. Others could contain scripts. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * Returns the context of messages. A result belongs to the latest earlier call with its id, because ids are unique only in a step.
 * @param {Message[]} messages
 * @param {Partial<Context>} [more]
 * @returns {Context}
 */
export function contextOf(messages, more = {}) {
  const [results, answered, calls] = [new Map(), new Set(), new Map()];
  for (const message of messages) {
    for (const part of message.data.content) {
      if (part.type === "tool-call") calls.set(part.toolCallId, part);
      if (part.type !== "tool-result" || !calls.has(part.toolCallId)) continue;
      results.set(calls.get(part.toolCallId), part);
      answered.add(part);
    }
  }
  return { agentName: "Agent", results, answered, messageActions: {}, live: {}, isFile: false, ...more };
}

/**
 * Returns the list item of a message; `null` if earlier calls show all of its content.
 * @param {Message} message
 * @param {Context} context
 * @returns {import("./keyed.js").Item|null}
 */
export function messageItem(message, context) {
  if (message.data.content.every((part) => context.answered.has(part))) return null;
  return {
    key: message.id,
    make: () => h(`article.message.${message.data.role}`, { data: { message: message.id } }),
    update: (article) => update(article, message, context),
  };
}

/** @type {WeakMap<Element, {message: Message, signature: string}>} drawn messages with all results */
const complete = new WeakMap();

/** Returns the data of an ended call that can still change. */
const callSignature = (live) => (live ? `${live.fact?.status} ${live.waits}` : "");

function update(article, message, context) {
  const { role, content } = message.data;
  const reason = role === "assistant" ? context.live.reason?.(message) : undefined;
  const modelCall = role === "assistant" ? context.live.modelCall?.(message) : undefined;
  const calls = content.filter((part) => part.type === "tool-call");
  // Skips unchanged messages, which are most messages of a long conversation.
  const signature = [reason, modelCall?.spanId, ...calls.map((part) => callSignature(context.live.call?.(message, part)))].join("/");
  const drawn = complete.get(article);
  if (drawn?.message === message && drawn.signature === signature) return;
  if (calls.every((part) => context.results.has(part))) complete.set(article, { message, signature });
  const pieces = content.map((part, number) => piece(`${number}`, part, message, context));
  updateChildren(article, [{ key: "header", signature: `${reason ?? ""}/${modelCall?.spanId ?? ""}`, make: () => header(message, reason, context, modelCall) }, ...pieces]);
}

function header(message, reason, { agentName, messageActions }, modelCall) {
  const { source } = message;
  const isInput = message.data.role === "user" && source?.type === "user";
  const action = (label, onClick, title) => onClick && button(label, () => onClick(message), { class: "quiet", title });
  return h(
    "header",
    {},
    h("h2.speaker", {}, SPEAKERS[message.data.role] ?? agentName),
    source?.type === "extension" && badge("plain", `extension ${source.extensionName}`),
    incompleteBadge(reason),
    h("time.muted", { datetime: message.createdAt }, timeOrDate(message.createdAt)),
    modelCall?.retries.length > 0 && badge("ask", counted(modelCall.retries.length, "retry", "retries")),
    modelCall && modelCallDetails(modelCall),
    isInput && action("Edit", messageActions.edit, "Change this input and send it in a new conversation"),
    isInput && action("Record this turn", messageActions.record, "Record the turn of this input as a test case for gdn test"),
    action("Fork here", messageActions.fork, "Create a new conversation that ends with this message"),
  );
}

/** Returns the list item of a message part; `null` if there is nothing to show. */
function piece(key, part, message, context) {
  switch (part.type) {
    case "text": {
      const isMarkdown = message.data.role === "assistant";
      return part.text ? { key, signature: part.text, make: () => (isMarkdown ? markdown(part.text) : h("div.words", { dir: "auto" }, part.text)) } : null;
    }
    case "reasoning":
      return part.text ? { key, make: () => reasoning(part.text) } : null;
    case "opaque":
      return null;
    case "tool-call":
      return callItem(key, { name: part.toolName, input: part.input, result: context.results.get(part), ...context.live.call?.(message, part) });
    case "tool-result":
      return context.answered.has(part) ? null : callItem(key, { name: part.toolName, input: undefined, result: part });
    case "file":
      return { key, make: () => file(part, context.isFile) };
    default:
      return { key, make: () => data(part) };
  }
}

/** Returns the decoded size of a Base64 string, in bytes. */
function byteCount(base64) {
  return Math.floor(base64.replace(/=+$/, "").length * 0.75);
}

/** Shows an attachment: an image, or the name of another file. */
function file(part, isFile) {
  const size = counted(byteCount(part.data ?? ""), "byte");
  const caption = h("p.file", {}, badge("plain", "file"), ` ${part.name ?? "unnamed"} · ${part.mediaType} · ${size}`);
  if (!IMAGES.has(part.mediaType) || !part.data) return caption;
  const image = h("img", { alt: part.name ?? "Attached image" });
  if (isFile) {
    image.setAttribute("src", `data:${part.mediaType};base64,${part.data}`);
  } else {
    const source = URL.createObjectURL(new Blob([Uint8Array.from(atob(part.data), (character) => character.charCodeAt(0))], { type: part.mediaType }));
    for (const event of ["load", "error"]) image.addEventListener(event, () => URL.revokeObjectURL(source));
    image.setAttribute("src", source);
  }
  return h("figure.image", {}, image, h("figcaption.muted", {}, `${part.name ?? "image"} · ${part.mediaType} · ${size}`));
}
