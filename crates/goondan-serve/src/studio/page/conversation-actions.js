// Actions on a stored conversation: its title, its states, its export as JSON Lines, and its deletion.

import { get, place as placeOf, post, remove, text } from "./api.js";
import { openDialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { fileName } from "./export.js";
import { instances } from "./feed.js";
import { counted } from "./format.js";
import { address, attempt, data, download, mark, notice } from "./parts.js";
import { nameOf, state } from "./state.js";

/** Longest title, in characters. */
const LONGEST = 200;

/**
 * Asks for the title of a conversation, and stores it.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {string|undefined} title the title so far
 */
export function rename(whose, title) {
  openDialog(`Rename ${nameOf(whose)}`, (close) => {
    const field = h("input", { value: title ?? "", maxlength: LONGEST, autocomplete: "off", autofocus: true });
    const save = async () => {
      await attempt(async () => {
        await post(`${placeOf(whose)}/title`, { title: field.value });
        await instances();
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
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function showStates(whose) {
  return attempt(async () => {
    const { states } = await get(`${placeOf(whose)}/states`);
    openDialog(`States of ${nameOf(whose)}`, (close) => [
      states.length ? states.map(stateItem) : h("p", {}, "No extension and no tool has stored a state for this conversation."),
      h("p.muted", {}, "A turn stores the states of extensions when it ends."),
      h("div.actions", {}, button("Close", close, { autofocus: true })),
    ]);
  });
}

/** One state, as it is stored. */
function stateItem({ owner, name, value }) {
  return h("details.stored-state", { open: true }, h("summary", {}, h("code", {}, name), " ", mark("plain", owner)), data(value, `State of ${name}`));
}

/**
 * Gives the conversation to the person as JSON Lines.
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function exportLines(whose) {
  return attempt(async () => download(fileName(whose, "jsonl"), "application/jsonl", await text(`${placeOf(whose)}/export`)));
}

/**
 * Deletes a conversation if the person confirms that.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {number} messages
 */
export function confirmDeletion(whose, messages) {
  openDialog(`Delete ${nameOf(whose)}?`, (close) => {
    const confirm = async () => {
      await attempt(async () => {
        await remove(placeOf(whose));
        state.lastOpened = [];
        await instances();
        // A change of the page removes notices.
        addEventListener("hashchange", () => notice("ok", `Deleted ${nameOf(whose)}.`), { once: true });
        location.hash = address("conversations");
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
