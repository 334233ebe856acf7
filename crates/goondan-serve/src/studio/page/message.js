// Messages of a conversation, with the tool calls in them.

import { callItem } from "./call.js";
import { button, h } from "./dom.js";
import { counted, when } from "./format.js";
import { keep } from "./keyed.js";
import { markdown } from "./markdown.js";
import { modelCallDetails } from "./model-call.js";
import { cut, data, mark } from "./parts.js";
import { reasoning } from "./reasoning.js";

/**
 * A message as the store has it.
 * @typedef {{id: string, data: {role: string, content: any[]}, metadata: Record<string, any>, createdAt: string, source: any}} Message
 */
/**
 * The surroundings of a message: the results of its calls, its buttons, and the live state of calls and answers.
 * @typedef {{agentName: string, results: Map<any, any>, answered: Set<any>, does: {fork?: (message: Message) => any, record?: (message: Message) => any, edit?: (message: Message) => any},
 *   live: {call?: (message: Message, part: any) => Partial<import("./call.js").CallState>, reason?: (message: Message) => string|undefined,
 *   modelCall?: (message: Message) => import("./facts.js").ModelCall|undefined}, isFile: boolean}} Context
 */

const SPEAKERS = { user: "Input", system: "System", tool: "Tools" };
/** Image types that the page shows. Others could contain scripts. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * Returns the context of messages. A result belongs to the latest call before it with its id, because ids are unique only in a step.
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
  return { agentName: "Agent", results, answered, does: {}, live: {}, isFile: false, ...more };
}

/**
 * Returns the list item of a message; `null` if calls before it show all of its content.
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

/** @type {WeakMap<Element, {message: Message, sign: string}>} messages with all results, as they were drawn */
const complete = new WeakMap();

/** Returns everything about an ended call that can still change. */
const callSign = (live) => (live ? `${live.fact?.status} ${live.waits}` : "");

function update(article, message, context) {
  const { role, content } = message.data;
  const reason = role === "assistant" ? context.live.reason?.(message) : undefined;
  const modelCall = role === "assistant" ? context.live.modelCall?.(message) : undefined;
  const calls = content.filter((part) => part.type === "tool-call");
  // A long conversation has many messages that stay as they are.
  const sign = [reason, modelCall?.spanId, ...calls.map((part) => callSign(context.live.call?.(message, part)))].join("/");
  const drawn = complete.get(article);
  if (drawn?.message === message && drawn.sign === sign) return;
  if (calls.every((part) => context.results.has(part))) complete.set(article, { message, sign });
  const pieces = content.map((part, number) => piece(`${number}`, part, message, context));
  keep(article, [{ key: "header", sign: `${reason ?? ""}/${modelCall?.spanId ?? ""}`, make: () => header(message, reason, context, modelCall) }, ...pieces]);
}

function header(message, reason, { agentName, does }, modelCall) {
  const { source } = message;
  const isInput = message.data.role === "user" && source?.type === "user";
  const action = (words, act, title) => act && button(words, () => act(message), { class: "quiet", title });
  return h(
    "header",
    {},
    h("h2.speaker", {}, SPEAKERS[message.data.role] ?? agentName),
    source?.type === "extension" && mark("plain", `extension ${source.extensionName}`),
    cut(reason),
    h("time.muted", { datetime: message.createdAt }, when(message.createdAt)),
    modelCall?.retries.length > 0 && mark("ask", counted(modelCall.retries.length, "retry", "retries")),
    modelCall && modelCallDetails(modelCall),
    isInput && action("Edit", does.edit, "Change this input and send it in a new conversation"),
    isInput && action("Record this turn", does.record, "Record the turn of this input as a test case for gdn test"),
    action("Fork here", does.fork, "Create a new conversation that ends with this message"),
  );
}

/** Returns the list item of a piece of a message; `null` if there is nothing to show. */
function piece(key, part, message, context) {
  switch (part.type) {
    case "text": {
      const isMarkdown = message.data.role === "assistant";
      return part.text ? { key, sign: part.text, make: () => (isMarkdown ? markdown(part.text) : h("div.words", { dir: "auto" }, part.text)) } : null;
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

/** Returns the number of bytes that a text in Base64 stands for. */
function byteCount(base64) {
  return Math.floor(base64.replace(/=+$/, "").length * 0.75);
}

/** Shows an attachment: an image, or the name of another file. */
function file(part, isFile) {
  const size = counted(byteCount(part.data ?? ""), "byte");
  const words = h("p.file", {}, mark("plain", "file"), ` ${part.name ?? "unnamed"} · ${part.mediaType} · ${size}`);
  if (!IMAGES.has(part.mediaType) || !part.data) return words;
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
