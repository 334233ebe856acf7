// Dialogs. A dialog closes when the view changes.

import { append, h } from "./dom.js";

let opened = 0;

/**
 * Shows a dialog until the user closes it or changes the view.
 * @param {string} title
 * @param {(close: () => void) => import("./dom.js").Child[]} content creates the content below the title
 */
export function openDialog(title, content) {
  const id = `dialog-${(opened += 1)}`;
  const dialog = h("dialog.made-case", { "aria-labelledby": id });
  const close = () => dialog.close();
  append(dialog, [h("h2", { id }, title), content(close)]);
  addEventListener("hashchange", close, { once: true });
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", close);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}
