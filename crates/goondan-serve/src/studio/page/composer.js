// The form for an input. An input that could not be sent stays in the form, and keeps its id: sent again, it is the same input.

import { place as placeOf, post } from "./api.js";
import { attachments } from "./attachments.js";
import { button, h } from "./dom.js";
import { instances } from "./feed.js";
import { address, attempt } from "./parts.js";
import { nameOf } from "./state.js";
import { addInput } from "./waiting-inputs.js";

const newId = () => `evt-studio-${crypto.randomUUID()}`;

/** Returns the key of a new conversation. */
export const newKey = () => `chat-${crypto.randomUUID().slice(0, 8)}`;

/** A narrow page has no room for the keys. */
const isNarrow = () => matchMedia("(max-width: 760px)").matches;

/**
 * Creates the form. Its text field is the property `words`.
 * @param {() => {agentName: string, instanceKey: string}} target the conversation at the time of sending
 * @param {{label: string, placeholder?: string, sent?: (whose: {agentName: string, instanceKey: string}) => void}} options
 */
export function composer(target, { label, placeholder = isNarrow() ? "Write to the agent" : "Write to the agent. Enter sends, Shift+Enter adds a new line.", sent }) {
  const words = h("textarea", { rows: 2, "aria-label": label, placeholder });
  const send = h("button.primary", { type: "submit" }, "Send");
  const files = attachments();
  const form = h("form.composer", {}, files.list, words, files.element, send);
  let id = "";
  form.addEventListener("input", () => (id = ""));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = words.value;
    if ((!text.trim() && files.isEmpty()) || send.disabled) return;
    id ||= newId();
    send.disabled = true;
    const whose = target();
    const { agentName: agent, instanceKey } = whose;
    const taken = await attempt(async () => {
      const attached = await files.read();
      const accepted = await post("/api/inputs", { text, agent, instanceKey, id, ...(attached.length ? { files: attached } : {}) });
      addInput(whose, { id, text, files: attached.map((file) => file.name) });
      return accepted;
    });
    send.disabled = false;
    if (taken && words.value === text) words.value = "";
    if (taken) {
      id = "";
      files.clear();
    }
    words.focus();
    if (taken) sent?.(whose);
  });
  words.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return Object.assign(form, { words });
}

/** Puts the cursor into a text field, except on a touch screen, where a keyboard would cover the page. */
export function focusOn(words) {
  if (!matchMedia("(pointer: coarse)").matches) words.focus({ preventScroll: true });
}

/**
 * Creates the form that changes an input and sends it in a new conversation, which begins with the messages before the input.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {import("./message.js").Message} message
 * @param {import("./message.js").Message|undefined} before the message before the input
 * @param {() => void} close
 */
export function inputEditor(whose, message, before, close) {
  const parts = message.data.content;
  const text = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
  const files = parts.filter((part) => part.type === "file").map(({ mediaType, data, name }) => ({ mediaType, data, ...(name ? { name } : {}) }));
  const words = h("textarea", { rows: Math.min(12, text.split("\n").length + 1), "aria-label": "Changed input", value: text });
  const id = newId();
  /** The new conversation. A second attempt uses it again. */
  let made = null;
  const send = () =>
    attempt(async () => {
      made ??= before ? await post(`${placeOf(whose)}/fork`, { messageId: before.id }) : { agentName: whose.agentName, instanceKey: newKey() };
      await post("/api/inputs", { text: words.value, agent: made.agentName, instanceKey: made.instanceKey, id, files });
      addInput(made, { id, text: words.value, files: files.map((file) => file.name ?? "unnamed") });
      await instances();
      location.hash = address("conversations", made.agentName, made.instanceKey);
    });
  const form = h(
    "article.message.user.editing",
    { data: { message: message.id }, "aria-label": `Edit an input for ${nameOf(whose)}` },
    words,
    h("p.muted", {}, "The changed input starts a new conversation that has all messages before it. This conversation stays as it is."),
    h("div.actions", {}, button("Send", send, { class: "primary" }), button("Cancel", close), h("span.muted", {}, "Ctrl+Enter sends, Escape cancels.")),
  );
  words.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) form.querySelector("button.primary").click();
  });
  queueMicrotask(() => words.focus());
  return form;
}
