// A conversation as a test case of `gdn test`: the server makes it, a person copies or saves it.

import { place as placeOf, post, Problem, put } from "./api.js";
import { openDialog } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { attempt, data, download, notice } from "./parts.js";
import { offerSave } from "./save-dialog.js";
import { state } from "./state.js";

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
function show(made) {
  const { name, file, text } = made;
  const told = h("span.muted", { role: "status" });
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => fill(told, "Copied to the clipboard."),
      () => fill(told, "The browser denied access to the clipboard. Save the file instead."),
    );
  const give = () => download(file.split("/").at(-1) ?? file, "application/yaml", text);
  openDialog(`Test case ${name}`, (close) => {
    const saves = state.features.edit
      ? [button("Save…", () => offer(made, close, (words) => fill(told, words)), { class: "primary" }), button("Copy", copy), button("Download", give)]
      : [button("Copy", copy), button("Save", give, { class: "primary" })];
    return [
      h("p.muted", {}, "The test case passed with the project on disk. Save it as ", h("code", {}, file), " in the project directory, and run it with ", h("code", {}, `gdn test ${file}`), ". Review it before you share it."),
      data(text, "Test case"),
      h("div.actions", {}, saves, button("Close", close), told),
    ];
  });
}

/** Shows the changes of the file in the project, and saves it if they are confirmed. */
async function offer({ file, text }, close, tell) {
  try {
    const checked = await post("/api/project/check", { path: file, text, hash: "" });
    if (!checked.diff) return tell("The file in the project already has this text.");
    const words = checked.hash ? "The project has another test case in this file. It is replaced." : "This is a new file.";
    offerSave(file, words, checked.diff, async () => {
      await put("/api/project/file", { path: file, text, hash: checked.hash });
      close();
      notice("ok", `Saved ${file}. Test cases lists it.`);
    });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    // A notice would be below the dialog.
    tell(error.message);
  }
}
