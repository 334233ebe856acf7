// A conversation as a case that `gdn test` plays: the server makes it, a person copies or saves it.

import { place as placeOf, post } from "./api.js";
import { button, fill, h } from "./dom.js";
import { attempt, data, download } from "./parts.js";

/**
 * Has a case made of a conversation, or of the turn of one of its messages, and shows it.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {string} [messageId]
 */
export function recordCase(whose, messageId) {
  return attempt(async () => {
    const made = await post(`${placeOf(whose)}/case`, messageId ? { messageId } : {});
    show(made);
  });
}

/** @param {{name: string, file: string, text: string}} made */
function show({ name, file, text }) {
  const dialog = h("dialog.made-case", { "aria-labelledby": "case-title" });
  const told = h("span.muted", { role: "status" });
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => fill(told, "Copied to the clipboard."),
      () => fill(told, "The browser denied access to the clipboard. Save the file instead."),
    );
  dialog.append(
    h("h2", { id: "case-title" }, `Test case ${name}`),
    h("p.muted", {}, "The test case passed with the project on disk. Save it in the project directory and run it with ", h("code", {}, `gdn test ${file}`), ". Review it before you share it."),
    data(text, "Test case"),
    h("div.actions", {}, button("Copy", copy), button("Save", () => download(file, "application/yaml", text), { class: "primary" }), button("Close", () => dialog.close()), told),
  );
  // The dialog belongs to the view below it.
  const close = () => dialog.close();
  addEventListener("hashchange", close, { once: true });
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", close);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}
