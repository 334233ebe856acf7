// Actions on a stored conversation: its title, its states, its export as JSON Lines, and its deletion.

import { get, conversationPath, post, remove, text } from "./api.js";
import { openDialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { fileName } from "./export.js";
import { loadConversations } from "./feed.js";
import { counted } from "./format.js";
import { viewHref, withErrorNotice, data, download, badge, notice } from "./parts.js";
import { nameOf, state } from "./state.js";

/** Maximum length of a title, in characters. */
const MAX_TITLE = 200;

/**
 * Shows a dialog to change the title of a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {string|undefined} title the current title
 */
export function rename(conversation, title) {
  openDialog(`Rename ${nameOf(conversation)}`, (close) => {
    const field = h("input", { value: title ?? "", maxlength: MAX_TITLE, autocomplete: "off", autofocus: true });
    const save = async () => {
      await withErrorNotice(async () => {
        await post(`${conversationPath(conversation)}/title`, { title: field.value });
        await loadConversations();
      });
      close();
      focusAgain();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      save();
    });
    return [
      h("label", {}, "Title ", field),
      h("p.muted", {}, "The list and the search show the title. Agents do not see it. Without a title, the first words are shown."),
      h("div.actions", {}, button("Save", save, { class: "primary" }), button("Cancel", close)),
    ];
  });
}

/** Moves the focus to the menu when the heading with the new title is drawn. */
function focusAgain() {
  const focus = () => /** @type {HTMLElement|null} */ (document.querySelector(".detail .menu > summary"))?.focus();
  requestAnimationFrame(() => requestAnimationFrame(focus));
}

/**
 * Shows the states that extensions and tools have stored for a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function showStates(conversation) {
  return withErrorNotice(async () => {
    const { states } = await get(`${conversationPath(conversation)}/states`);
    openDialog(`States of ${nameOf(conversation)}`, (close) => [
      states.length ? states.map(stateItem) : h("p", {}, "No extension and no tool has stored a state for this conversation."),
      h("p.muted", {}, "A turn stores the states of extensions when it ends."),
      h("div.actions", {}, button("Close", close, { autofocus: true })),
    ]);
  });
}

/** Creates the element of a stored state. */
function stateItem({ owner, name, value }) {
  return h("details.stored-state", { open: true }, h("summary", {}, h("code", {}, name), " ", badge("plain", owner)), data(value, `State of ${name}`));
}

/**
 * Downloads the conversation as JSON Lines.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function exportLines(conversation) {
  return withErrorNotice(async () => download(fileName(conversation, "jsonl"), "application/jsonl", await text(`${conversationPath(conversation)}/export`)));
}

/**
 * Shows a dialog to delete a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {number} messages
 */
export function confirmDeletion(conversation, messages) {
  openDialog(`Delete ${nameOf(conversation)}?`, (close) => {
    const confirm = async () => {
      await withErrorNotice(async () => {
        await remove(conversationPath(conversation));
        state.lastOpened = [];
        await loadConversations();
        // A change of the page removes notices.
        addEventListener("hashchange", () => notice("ok", `Deleted ${nameOf(conversation)}.`), { once: true });
        location.hash = viewHref("conversations");
      });
      close();
    };
    return [
      h("p", {}, `The ${counted(messages, "message")} of the conversation, its states of extensions and its remembered approvals are deleted. Files of the project and conversations of called agents stay.`),
      h("p", {}, "You can't undo this."),
      h("div.actions", {}, button("Delete", confirm, { class: "danger" }), button("Cancel", close, { autofocus: true })),
    ];
  });
}
