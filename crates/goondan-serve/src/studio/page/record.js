// Records a conversation as a test case of `gdn test`. The server generates it, and the user copies or saves it.

import { conversationPath, post, ApiError, put } from "./api.js";
import { openDialog } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { withErrorNotice, data, download, notice } from "./parts.js";
import { offerSave } from "./save-dialog.js";
import { state } from "./state.js";

/**
 * Records a test case of a conversation, or of the turn of one of its messages, and shows it.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {string} [messageId]
 */
export function recordCase(conversation, messageId) {
  return withErrorNotice(async () => {
    const testCase = await post(`${conversationPath(conversation)}/case`, messageId ? { messageId } : {});
    show(testCase);
  });
}

/** @param {{name: string, file: string, text: string}} testCase */
function show(testCase) {
  const { name, file, text } = testCase;
  const status = h("span.muted", { role: "status" });
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => fill(status, "Copied to the clipboard."),
      () => fill(status, "The browser denied access to the clipboard. Save the file instead."),
    );
  const saveAsDownload = () => download(file.split("/").at(-1) ?? file, "application/yaml", text);
  openDialog(`Test case ${name}`, (close) => {
    const saves = state.features.edit
      ? [button("Save…", () => offerToSave(testCase, close, (message) => fill(status, message)), { class: "primary" }), button("Copy", copy), button("Download", saveAsDownload)]
      : [button("Copy", copy), button("Save", saveAsDownload, { class: "primary" })];
    return [
      h("p.muted", {}, "The test case passed with the project on disk. Save it as ", h("code", {}, file), " in the project directory, and run it with ", h("code", {}, `gdn test ${file}`), ". Review it before you share it."),
      data(text, "Test case"),
      h("div.actions", {}, saves, button("Close", close), status),
    ];
  });
}

/** Shows the changes of the project file, and saves it after a confirmation. */
async function offerToSave({ file, text }, close, showStatus) {
  try {
    const checked = await post("/api/project/check", { path: file, text, hash: "" });
    if (!checked.diff) return showStatus("The file in the project already has this text.");
    const effect = checked.hash ? "The project has another test case in this file. It is replaced." : "This is a new file.";
    offerSave(file, effect, checked.diff, async () => {
      await put("/api/project/file", { path: file, text, hash: checked.hash });
      close();
      notice("ok", `Saved ${file}. Test cases lists it.`);
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    // The dialog would cover a notice.
    showStatus(error.message);
  }
}
