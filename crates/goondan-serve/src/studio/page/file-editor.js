// The editor of a project file: checks the text while the user types, and shows the changes before it saves them.

import { get, post, put } from "./api.js";
import { button, fill, h } from "./dom.js";
import { counted } from "./format.js";
import { viewHref, withErrorNotice, diagnostic, badge, notice } from "./parts.js";
import { offerSave } from "./save-dialog.js";

/** Pause between the last keystroke and a check, in milliseconds. */
const CHECK_DELAY = 500;

/**
 * Unsaved texts by path. They stay when the view closes.
 * @type {Map<string, {text: string, hash: string}>}
 */
const drafts = new Map();

/** Returns true if a file has changes that are not saved. */
export const hasDraft = (path) => drafts.has(path);

// Makes the browser ask before it closes a page with unsaved changes.
addEventListener("beforeunload", (event) => drafts.size > 0 && event.preventDefault());

/**
 * Returns the line ending of a text; `null` if it has different ones. A text field uses only `\n`.
 * @param {string} text
 */
function lineEnd(text) {
  const rest = text.replaceAll("\r\n", "");
  if (rest.includes("\r")) return null;
  if (rest.length === text.length) return "\n";
  return rest.includes("\n") ? null : "\r\n";
}

/**
 * Shows the editor. Returns a function that closes it.
 * @param {Element} detail
 * @param {string} path
 * @param {() => void} changed called when a draft is created or removed
 * @returns {() => void}
 */
export function fileEditor(detail, path, changed) {
  const textField = h("textarea.code-field", { "aria-label": `Text of ${path}`, spellcheck: "false", autocomplete: "off", wrap: /\.ya?ml$/.test(path) ? "off" : "soft", disabled: true });
  const positionText = h("span.muted");
  const status = h("span.row", { role: "status" });
  const findings = h("ul.diagnostics");
  const check = button("Check", () => withErrorNotice(checkNow));
  const save = button("Save…", () => withErrorNotice(offerToSave), { class: "primary" });
  const revert = button("Discard changes", () => withErrorNotice(open), { class: "danger" });
  fill(
    detail,
    h("div.head", {}, h("h2", {}, h("a.back", { href: viewHref("files") }, "‹ all"), path), h("div.actions", {}, revert, check, save)),
    textField,
    h("div.editor-status", {}, status, positionText),
    findings,
  );
  const file = { saved: "", hash: "", end: "\n" };
  let [timer, isClosed, checkCount, reportedHash] = [0, false, 0, ""];
  const edit = () => ({ path, text: textField.value.replaceAll("\n", file.end), hash: file.hash });
  const isChanged = () => textField.value !== file.saved;

  function drawButtons() {
    save.disabled = !isChanged();
    revert.hidden = !isChanged();
  }
  /** Loads the file from disk, and discards the draft. */
  async function open() {
    const { text, hash } = await get(`/api/project/file?path=${encodeURIComponent(path)}`);
    drafts.delete(path);
    show(text, hash);
  }
  function show(text, hash, draft) {
    if (isClosed) return;
    const end = lineEnd(text);
    Object.assign(file, { hash, end, saved: text.replaceAll("\r\n", "\n") });
    textField.value = draft ?? file.saved;
    textField.disabled = false;
    textField.readOnly = end === null;
    if (end === null) notice("bad", `${path} has different kinds of line ends, so the studio can't edit it.`, "Edit the file with another program.");
    changed();
    drawButtons();
    checkNow().catch(() => null);
  }
  /** Checks the text. The result of an older check is ignored. */
  async function checkNow() {
    clearTimeout(timer);
    const current = (checkCount += 1);
    fill(status, badge("busy", "checking"));
    const checked = await post("/api/project/check", edit());
    if (isClosed || current !== checkCount) return checked;
    drawFindings(checked.findings);
    if (checked.hash !== file.hash && checked.hash !== reportedHash) {
      reportedHash = checked.hash;
      notice("bad", `${path} has changed on disk since you opened it.`, "Copy your changes, and press Discard changes to open the new text.");
    }
    return checked;
  }
  function drawFindings(all) {
    const errors = all.filter((one) => one.severity === "error").length;
    const kinds = [errors && badge("bad", counted(errors, "error")), all.length > errors && badge("ask", counted(all.length - errors, "warning"))];
    fill(status, all.length ? kinds : badge("ok", "no problems"));
    const mineFirst = [...all].sort((a, b) => Number(b.file === path) - Number(a.file === path));
    fill(findings, mineFirst.map(findingItem));
  }
  /** Creates the item of a finding. A finding in this file has a button that selects its position. */
  function findingItem(finding) {
    const item = diagnostic(finding);
    if (finding.file !== path || !finding.line) return item;
    const go = () => select(textField, finding.line, finding.column ?? 1);
    item.querySelector(".row").append(button("Go to line", go, { class: "quiet", "aria-label": `Go to line ${finding.line}` }));
    return item;
  }
  /** Shows the changes, and saves them after a confirmation. */
  async function offerToSave() {
    reportedHash = "";
    const checked = await checkNow();
    if (checked.hash !== file.hash || !checked.diff) return;
    const errors = checked.findings.filter((one) => one.severity === "error").length;
    const effect = errors ? `The project has ${counted(errors, "error")} with these changes. The swarm keeps its active generation until they are fixed.` : "The project has no errors with these changes.";
    offerSave(path, effect, checked.diff, write);
  }
  async function write() {
    const saving = edit();
    const { hash } = await put("/api/project/file", saving);
    Object.assign(file, { hash, saved: saving.text.replaceAll("\r\n", "\n") });
    if (isChanged()) drafts.set(path, { text: textField.value, hash });
    else drafts.delete(path);
    changed();
    drawButtons();
    notice("ok", `Saved ${path}. Reloads shows the effect on the swarm.`);
  }

  textField.addEventListener("input", () => {
    const had = hasDraft(path);
    if (isChanged()) drafts.set(path, { text: textField.value, hash: file.hash });
    else drafts.delete(path);
    if (had !== hasDraft(path)) changed();
    drawButtons();
    clearTimeout(timer);
    timer = setTimeout(() => checkNow().catch(() => fill(status, badge("bad", "not checked"))), CHECK_DELAY);
  });
  const showPosition = () => fill(positionText, cursor(textField));
  for (const event of ["keyup", "click", "input", "focus", "select"]) textField.addEventListener(event, showPosition);
  textField.addEventListener("keydown", (event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!save.disabled) save.click();
  });
  drawButtons();
  withErrorNotice(async () => {
    const draft = drafts.get(path);
    const { text, hash } = await get(`/api/project/file?path=${encodeURIComponent(path)}`);
    show(text, draft?.hash ?? hash, draft?.text);
  });
  return () => {
    isClosed = true;
    clearTimeout(timer);
  };
}

/** Returns the position of the cursor as text. */
function cursor(textField) {
  const before = textField.value.slice(0, textField.selectionStart).split("\n");
  return `Line ${before.length}, column ${[...before.at(-1)].length + 1}`;
}

/** Selects the rest of a line from a position, and scrolls to it. */
function select(textField, line, column) {
  const lines = textField.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const before = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  textField.focus();
  textField.setSelectionRange(start + before, start + (lines[line - 1] ?? "").length);
  // Approximate: wrapped lines are higher.
  textField.scrollTop = ((line - 1) / lines.length) * textField.scrollHeight - textField.clientHeight / 2;
}
