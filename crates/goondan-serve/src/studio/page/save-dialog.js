// The dialog before a project file is saved: it shows the changes.

import { openDialog } from "./dialog.js";
import { diff } from "./diff.js";
import { button, h } from "./dom.js";
import { attempt } from "./parts.js";

/**
 * Shows the changes of a file, and saves them if they are confirmed.
 * @param {string} path
 * @param {string} words the effect of the changes
 * @param {string} changes a unified diff
 * @param {() => Promise<any>} write
 */
export function offerSave(path, words, changes, write) {
  openDialog(`Save ${path}?`, (close) => {
    const confirm = async () => {
      await attempt(write);
      close();
    };
    return [h("p.muted", {}, words), diff(changes, "Changes"), h("div.actions", {}, button("Save", confirm, { class: "primary" }), button("Cancel", close))];
  });
}
