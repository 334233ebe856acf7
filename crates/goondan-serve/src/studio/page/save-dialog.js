// The dialog that shows the changes of a project file before they are saved.

import { openDialog } from "./dialog.js";
import { diff } from "./diff.js";
import { button, h } from "./dom.js";
import { withErrorNotice } from "./parts.js";

/**
 * Shows the changes of a file, and saves them after a confirmation.
 * @param {string} path
 * @param {string} description the effect of the changes
 * @param {string} changes a unified diff
 * @param {() => Promise<any>} write
 */
export function offerSave(path, description, changes, write) {
  openDialog(`Save ${path}?`, (close) => {
    const confirm = async () => {
      await withErrorNotice(write);
      close();
    };
    return [h("p.muted", {}, description), diff(changes, "Changes"), h("div.actions", {}, button("Save", confirm, { class: "primary" }), button("Cancel", close))];
  });
}
