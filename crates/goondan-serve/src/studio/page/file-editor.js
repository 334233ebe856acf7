// The editor of a project file: checks the text while it is written, and saves it after its changes were shown.

import { get, post, put } from "./api.js";
import { button, fill, h } from "./dom.js";
import { counted } from "./format.js";
import { address, attempt, diagnostic, mark, notice } from "./parts.js";
import { offerSave } from "./save-dialog.js";

/** Pause after the last key before the text is checked, in milliseconds. */
const PAUSE = 500;

/**
 * Unsaved texts by path. They stay when the view is left.
 * @type {Map<string, {text: string, hash: string}>}
 */
const drafts = new Map();

/** Returns true if a file has changes that are not saved. */
export const hasDraft = (path) => drafts.has(path);

// The browser asks before it closes a page with unsaved changes.
addEventListener("beforeunload", (event) => drafts.size > 0 && event.preventDefault());

/**
 * The line ends of a text; `null` if they differ. A text field has only `\n`.
 * @param {string} text
 */
function lineEnd(text) {
  const rest = text.replaceAll("\r\n", "");
  if (rest.includes("\r")) return null;
  if (rest.length === text.length) return "\n";
  return rest.includes("\n") ? null : "\r\n";
}

/**
 * Shows the editor until the view is left.
 * @param {Element} detail
 * @param {string} path
 * @param {() => void} changed called when a draft begins or ends
 * @returns {() => void}
 */
export function fileEditor(detail, path, changed) {
  const words = h("textarea.code-field", { "aria-label": `Text of ${path}`, spellcheck: "false", autocomplete: "off", wrap: /\.ya?ml$/.test(path) ? "off" : "soft", disabled: true });
  const at = h("span.muted");
  const status = h("span.row", { role: "status" });
  const findings = h("ul.diagnostics");
  const check = button("Check", () => attempt(checkNow));
  const save = button("Save…", () => attempt(offer), { class: "primary" });
  const revert = button("Discard changes", () => attempt(open), { class: "danger" });
  fill(
    detail,
    h("div.head", {}, h("h2", {}, h("a.back", { href: address("files") }, "‹ all"), path), h("div.actions", {}, revert, check, save)),
    words,
    h("div.editor-status", {}, status, at),
    findings,
  );
  const file = { saved: "", hash: "", end: "\n" };
  let [timer, isGone, number, toldHash] = [0, false, 0, ""];
  const edit = () => ({ path, text: words.value.replaceAll("\n", file.end), hash: file.hash });
  const isChanged = () => words.value !== file.saved;

  function drawButtons() {
    save.disabled = !isChanged();
    revert.hidden = !isChanged();
  }
  /** Reads the file from the disk. */
  async function open() {
    const { text, hash } = await get(`/api/project/file?path=${encodeURIComponent(path)}`);
    drafts.delete(path);
    show(text, hash);
  }
  function show(text, hash, draft) {
    if (isGone) return;
    const end = lineEnd(text);
    Object.assign(file, { hash, end, saved: text.replaceAll("\r\n", "\n") });
    words.value = draft ?? file.saved;
    words.disabled = false;
    words.readOnly = end === null;
    if (end === null) notice("bad", `${path} has different kinds of line ends, so the studio can't edit it.`, "Edit the file with another program.");
    changed();
    drawButtons();
    checkNow().catch(() => null);
  }
  /** Checks the text. An older check that ends later is ignored. */
  async function checkNow() {
    clearTimeout(timer);
    const mine = (number += 1);
    fill(status, mark("busy", "checking"));
    const checked = await post("/api/project/check", edit());
    if (isGone || mine !== number) return checked;
    drawFindings(checked.findings);
    if (checked.hash !== file.hash && checked.hash !== toldHash) {
      toldHash = checked.hash;
      notice("bad", `${path} has changed on disk since you opened it.`, "Copy your changes, and press Discard changes to open the new text.");
    }
    return checked;
  }
  function drawFindings(all) {
    const errors = all.filter((one) => one.severity === "error").length;
    const kinds = [errors && mark("bad", counted(errors, "error")), all.length > errors && mark("ask", counted(all.length - errors, "warning"))];
    fill(status, all.length ? kinds : mark("ok", "no problems"));
    const mineFirst = [...all].sort((a, b) => Number(b.file === path) - Number(a.file === path));
    fill(findings, mineFirst.map(findingItem));
  }
  /** A finding of this file leads to its place in the text. */
  function findingItem(finding) {
    const item = diagnostic(finding);
    if (finding.file !== path || !finding.line) return item;
    const go = () => select(words, finding.line, finding.column ?? 1);
    item.querySelector(".row").append(button("Go to line", go, { class: "quiet", "aria-label": `Go to line ${finding.line}` }));
    return item;
  }
  /** Shows the changes, and saves them if they are confirmed. */
  async function offer() {
    toldHash = "";
    const checked = await checkNow();
    if (checked.hash !== file.hash || !checked.diff) return;
    const errors = checked.findings.filter((one) => one.severity === "error").length;
    const words = errors ? `The project has ${counted(errors, "error")} with these changes. The swarm keeps its active generation until they are fixed.` : "The project has no errors with these changes.";
    offerSave(path, words, checked.diff, write);
  }
  async function write() {
    const saving = edit();
    const { hash } = await put("/api/project/file", saving);
    Object.assign(file, { hash, saved: saving.text.replaceAll("\r\n", "\n") });
    if (isChanged()) drafts.set(path, { text: words.value, hash });
    else drafts.delete(path);
    changed();
    drawButtons();
    notice("ok", `Saved ${path}. Reloads shows the effect on the swarm.`);
  }

  words.addEventListener("input", () => {
    const had = hasDraft(path);
    if (isChanged()) drafts.set(path, { text: words.value, hash: file.hash });
    else drafts.delete(path);
    if (had !== hasDraft(path)) changed();
    drawButtons();
    clearTimeout(timer);
    timer = setTimeout(() => checkNow().catch(() => fill(status, mark("bad", "not checked"))), PAUSE);
  });
  const place = () => fill(at, cursor(words));
  for (const event of ["keyup", "click", "input", "focus", "select"]) words.addEventListener(event, place);
  words.addEventListener("keydown", (event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!save.disabled) save.click();
  });
  drawButtons();
  attempt(async () => {
    const draft = drafts.get(path);
    const { text, hash } = await get(`/api/project/file?path=${encodeURIComponent(path)}`);
    show(text, draft?.hash ?? hash, draft?.text);
  });
  return () => {
    isGone = true;
    clearTimeout(timer);
  };
}

/** The place of the cursor in words. */
function cursor(words) {
  const before = words.value.slice(0, words.selectionStart).split("\n");
  return `Line ${before.length}, column ${[...before.at(-1)].length + 1}`;
}

/** Puts the cursor at a place of the text, and scrolls there. */
function select(words, line, column) {
  const lines = words.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const before = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  words.focus();
  words.setSelectionRange(start + before, start + (lines[line - 1] ?? "").length);
  // Lines have the same height, except where a text is wrapped.
  words.scrollTop = ((line - 1) / lines.length) * words.scrollHeight - words.clientHeight / 2;
}
