// The form for an input. If sending fails, the input stays in the form with its id, so that a retry is not a second input.

import { conversationPath, post } from "./api.js";
import { attachments } from "./attachments.js";
import { button, h } from "./dom.js";
import { loadConversations } from "./feed.js";
import { viewHref, withErrorNotice } from "./parts.js";
import { nameOf } from "./state.js";
import { addInput } from "./waiting-inputs.js";

const newId = () => `evt-studio-${crypto.randomUUID()}`;

/** Returns the key of a new conversation. */
export const newKey = () => `chat-${crypto.randomUUID().slice(0, 8)}`;

/** Returns true for a narrow page, which has no room for the keyboard hint. */
const isNarrow = () => matchMedia("(max-width: 760px)").matches;

/**
 * Creates the form. The property `textField` is its text field.
 * @param {() => {agentName: string, instanceKey: string}} target the conversation at the time of sending
 * @param {{label: string, placeholder?: string, sent?: (conversation: {agentName: string, instanceKey: string}) => void}} options
 */
export function composer(target, { label, placeholder = isNarrow() ? "Write to the agent" : "Write to the agent. Enter sends, Shift+Enter adds a new line.", sent }) {
  const textField = h("textarea", { rows: 2, "aria-label": label, placeholder });
  const send = h("button.primary", { type: "submit" }, "Send");
  const files = attachments();
  const form = h("form.composer", {}, files.list, textField, files.element, send);
  let id = "";
  form.addEventListener("input", () => (id = ""));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = textField.value;
    if ((!text.trim() && files.isEmpty()) || send.disabled) return;
    id ||= newId();
    send.disabled = true;
    const conversation = target();
    const { agentName: agent, instanceKey } = conversation;
    const accepted = await withErrorNotice(async () => {
      const attached = await files.read();
      const response = await post("/api/inputs", { text, agent, instanceKey, id, ...(attached.length ? { files: attached } : {}) });
      addInput(conversation, { id, text, files: attached.map((file) => file.name) });
      return response;
    });
    send.disabled = false;
    if (accepted && textField.value === text) textField.value = "";
    if (accepted) {
      id = "";
      files.clear();
    }
    textField.focus();
    if (accepted) sent?.(conversation);
  });
  textField.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return Object.assign(form, { textField });
}

/** Focuses a text field, except on a touch screen, where a keyboard would cover the page. */
export function focusOn(textField) {
  if (!matchMedia("(pointer: coarse)").matches) textField.focus({ preventScroll: true });
}

/**
 * Creates the form that changes an input and sends it in a new conversation, which begins with the messages before the input.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {import("./message.js").Message} message
 * @param {import("./message.js").Message|undefined} before the message before the input
 * @param {() => void} close
 */
export function inputEditor(conversation, message, before, close) {
  const parts = message.data.content;
  const text = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
  const files = parts.filter((part) => part.type === "file").map(({ mediaType, data, name }) => ({ mediaType, data, ...(name ? { name } : {}) }));
  const textField = h("textarea", { rows: Math.min(12, text.split("\n").length + 1), "aria-label": "Changed input", value: text });
  const id = newId();
  /** The new conversation. A retry uses it again. */
  let created = null;
  const send = () =>
    withErrorNotice(async () => {
      created ??= before ? await post(`${conversationPath(conversation)}/fork`, { messageId: before.id }) : { agentName: conversation.agentName, instanceKey: newKey() };
      await post("/api/inputs", { text: textField.value, agent: created.agentName, instanceKey: created.instanceKey, id, files });
      addInput(created, { id, text: textField.value, files: files.map((file) => file.name ?? "unnamed") });
      await loadConversations();
      location.hash = viewHref("conversations", created.agentName, created.instanceKey);
    });
  const form = h(
    "article.message.user.editing",
    { data: { message: message.id }, "aria-label": `Edit an input for ${nameOf(conversation)}` },
    textField,
    h("p.muted", {}, "The changed input starts a new conversation that has all messages before it. This conversation stays as it is."),
    h("div.actions", {}, button("Send", send, { class: "primary" }), button("Cancel", close), h("span.muted", {}, "Ctrl+Enter sends, Escape cancels.")),
  );
  textField.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) form.querySelector("button.primary").click();
  });
  queueMicrotask(() => textField.focus());
  return form;
}
