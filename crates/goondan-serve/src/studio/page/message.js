// Messages of a conversation, with the tool calls in them.

import { button, h } from "./dom.js";
import { counted, excerpt, when } from "./format.js";
import { cut, data, mark } from "./parts.js";

/**
 * A message as the store has it.
 * @typedef {{id: string, data: {role: string, content: any[]}, metadata: Record<string, any>, createdAt: string, source: any}} Message
 */

/**
 * All messages of a conversation. Results stand with the calls that they answer.
 * @param {Message[]} messages
 * @param {{fork?: (message: Message) => any, record?: (message: Message) => any, cuts?: Map<string, string>}} [does] what can be done
 *   with a message, and the finish reasons of incomplete answers by step
 */
export function conversation(messages, does = {}) {
  const results = new Map();
  const called = new Set();
  for (const message of messages) {
    for (const part of message.data.content) {
      if (part.type === "tool-result") results.set(part.toolCallId, part);
      if (part.type === "tool-call") called.add(part.toolCallId);
    }
  }
  const isShown = (message) => !message.data.content.every((part) => part.type === "tool-result" && called.has(part.toolCallId));
  return messages.filter(isShown).map((message) => one(message, results, called, does));
}

const SPEAKERS = { user: "Input", assistant: "Agent", system: "System", tool: "Tools" };

function one(message, results, called, does) {
  const { role, content } = message.data;
  const from = message.source?.type === "extension" && mark("plain", `extension ${message.source.extensionName}`);
  const fork = does.fork && button("Fork here", () => does.fork(message), { class: "quiet", title: "Create a new conversation that ends with this message" });
  const isInput = role === "user" && message.source?.type === "user";
  const record = does.record && isInput && button("Record this turn", () => does.record(message), { class: "quiet", title: "Record the turn of this input as a test case for gdn test" });
  const parts = content.map((part) => piece(part, results, called));
  const incomplete = role === "assistant" && cut(does.cuts?.get(message.source?.stepId));
  return h(
    `article.message.${role}`,
    { data: { message: message.id } },
    h("header", {}, h("span.speaker", {}, SPEAKERS[role] ?? role), from, incomplete, h("time.muted", { datetime: message.createdAt }, when(message.createdAt)), record, fork),
    parts,
  );
}

function piece(part, results, called) {
  switch (part.type) {
    case "text":
      return part.text ? h("div.words", { dir: "auto" }, part.text) : null;
    case "reasoning":
      return part.text ? reasoning(part.text) : null;
    case "opaque":
      return null;
    case "tool-call":
      return call(part.toolName, part.input, results.get(part.toolCallId));
    case "tool-result":
      return called.has(part.toolCallId) ? null : call(part.toolName, undefined, part);
    case "file":
      return h("p.file", {}, mark("plain", "file"), `${part.name ?? "unnamed"} · ${part.mediaType} · ${counted(Math.floor((part.data?.length ?? 0) * 0.75), "byte")}`);
    default:
      return data(part);
  }
}

/**
 * Reasoning of a model: closed, a line; open, all of it.
 * @param {string} text
 * @param {boolean} [open]
 */
export function reasoning(text, open = false) {
  return h("details.reasoning", { open }, h("summary.muted", {}, `Reasoning (${counted(text.trim().split("\n").length, "line")})`), h("div.words.muted", { dir: "auto" }, text));
}

/**
 * A tool call: shut, a line; open, all of it.
 * @param {string} name
 * @param {any} input
 * @param {any} [result]
 * @param {"running"|"asked"} [now] what it does, where it is not over
 */
export function call(name, input, result, now) {
  const failed = result && result.status !== "ok";
  const state = result ? mark(failed ? "bad" : "ok", failed ? "failed" : "ok") : mark("busy", now === "asked" ? "waits for approval" : now === "running" ? "running" : "no result");
  const words = input === undefined ? "" : excerpt(typeof input === "string" ? input : JSON.stringify(input), 80);
  return h(
    "details.call",
    {},
    h("summary", {}, h("code", {}, name), h("span.muted.arguments", {}, words), state),
    input !== undefined && [h("h4", {}, "Arguments"), data(input, "Arguments")],
    result?.output !== undefined && [h("h4", {}, "Result", result.untrusted && mark("ask", "untrusted")), data(result.output, "Result")],
    result?.error && [h("h4", {}, "Error"), data(result.error, "Error")],
  );
}
