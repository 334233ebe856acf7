// Test cases of the project: runs them, and shows failed expectations.

import { get, ApiError, stream } from "../api.js";
import { diff } from "../diff.js";
import { button, fill, h } from "../dom.js";
import { counted, duration } from "../format.js";
import { updateChildren } from "../keyed.js";
import { viewHref, withErrorNotice, diagnostic, viewHeading, badge, emptyMessage, notice } from "../parts.js";
import { readEvents } from "../server-events.js";
import { state } from "../state.js";

/** State of the current or last run. The run continues when the view closes. */
const runs = {
  /** @type {Map<string, any>} results by name */
  results: new Map(),
  /** @type {Set<string>} names of test cases without a result in this run */
  waiting: new Set(),
  /** @type {any} totals of the last completed run */
  totals: null,
  /** @type {AbortController|null} aborts the run */
  control: null,
};

let draw = () => {};

/** @type {import("../app.js").View} */
export function cases(container) {
  const start = button("Run all", () => void toggle(), { class: "primary", hidden: true });
  const status = h("p.muted", { role: "status" });
  const list = h("div.case-files");
  container.append(
    viewHeading("Test cases", start, button("Refresh", () => read())),
    h("p.muted", {}, "Models are scripted: no test case calls a real model. Test cases can start programs, so review those of other people before you run them."),
    status,
    list,
  );
  /** @type {any} */
  let found = null;
  async function read() {
    found = (await withErrorNotice(() => get("/api/cases"))) ?? { cases: [], errors: [] };
    draw();
  }
  /** The same button starts and stops a run, so that it keeps the focus. */
  function toggle() {
    if (runs.control) runs.control.abort();
    else run(found.cases.map((one) => one.name), true).then(read);
  }
  draw = () => {
    if (!found) return fill(list, emptyMessage("Loading…"));
    const isRunning = runs.control !== null;
    start.textContent = isRunning ? "Stop" : "Run all";
    start.className = isRunning ? "danger" : "primary";
    start.hidden = !found.cases.length && !isRunning;
    fill(status, summary(found.cases.length));
    updateChildren(list, [
      found.errors.length > 0 && { key: "errors", signature: JSON.stringify(found.errors), make: () => h("ul.diagnostics", {}, found.errors.map(diagnostic)) },
      !found.cases.length && !found.errors.length && { key: "none", make: () => emptyMessage("No test cases", "Record one from a conversation, and save it in the project directory as NAME.case.yaml.") },
      ...byFile(found.cases).map(([file, ofFile]) => fileItem(file, ofFile, isRunning)),
    ]);
  };
  draw();
  read();
  return () => (draw = () => {});
}

/** Returns the status text of the run. */
function summary(count) {
  if (runs.control) return `Running: ${runs.waiting.size.toLocaleString("en")} to go.`;
  if (!runs.totals) return count ? counted(count, "test case") : "";
  const { passed, failed, skipped } = runs.totals;
  return `${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}.`;
}

/** Returns the test cases by file, in their order. */
function byFile(all) {
  return [...Map.groupBy(all, (one) => one.file)];
}

/** @returns {import("../keyed.js").Item} */
function fileItem(file, all, isRunning) {
  const name = state.features.edit ? h("a", { href: viewHref("files", file) }, file) : file;
  const rows = h("ul.cards-list");
  const update = (section) => updateChildren(section.lastChild, all.map((one) => ({ key: one.name, make: caseRow, update: (row) => updateRow(row, one, isRunning) })));
  return { key: file, make: () => h("section.block", { "aria-label": file }, h("h2", {}, name), rows), update };
}

/** Creates the row of a test case. Updates keep its button, so that it keeps the focus. */
function caseRow() {
  const start = h("button", { type: "button" }, "Run");
  return Object.assign(h("li.panel.case", {}, h("div.row", {}, h("div.row"), start), h("div")), { start, drawn: "" });
}

function updateRow(row, one, isRunning) {
  const isWaiting = runs.waiting.has(one.name);
  const result = isWaiting ? undefined : runs.results.get(one.name);
  // A disabled button would lose the focus.
  row.start.setAttribute("aria-disabled", String(isRunning));
  const drawn = JSON.stringify([one, result, isWaiting]);
  if (row.drawn === drawn) return;
  row.drawn = drawn;
  row.dataset.case = one.name;
  row.classList.toggle("bad", result?.outcome === "failed");
  row.start.setAttribute("aria-label", `Run ${one.name}`);
  row.start.onclick = () => void (runs.control ?? run([one.name], false));
  fill(
    row.firstChild.firstChild,
    isWaiting ? badge("busy", "running") : outcome(result),
    h("strong", {}, one.name),
    one.isLiveOnly && badge("plain", "only with real models"),
    result && result.outcome !== "skipped" && h("span.muted", {}, duration(result.durationMs)),
    h("span.muted", {}, `line ${one.line}`),
  );
  fill(row.lastChild, one.about && h("p.muted", {}, one.about), result?.reason && h("p", {}, `Skipped: ${result.reason}.`), result?.failures?.map(failure));
}

function outcome(result) {
  const marks = { passed: "ok", failed: "bad", skipped: "plain" };
  return result ? badge(marks[result.outcome], result.outcome) : badge("plain", "not run");
}

/** Shows a failed expectation. */
function failure({ place, message, differences = [] }) {
  return h(
    "div.case-failure",
    {},
    h("p", {}, h("code", {}, place), ` ${message}`),
    differences.map((one) => [
      one.path && h("p.field-name", {}, one.path),
      diff(one.diff ?? `-${one.expected}\n+${one.actual}`, `Expected (-) and actual (+) value of ${one.path || place}`),
    ]),
  );
}

/**
 * Runs test cases, and shows each result as it arrives.
 * @param {string[]} names
 * @param {boolean} isAll
 */
async function run(names, isAll) {
  const control = new AbortController();
  runs.control = control;
  runs.waiting = new Set(names);
  runs.totals = null;
  draw();
  try {
    const response = await stream("/api/cases/run", { cases: isAll ? [] : names }, control.signal);
    await readEvents(response, handleRunEvent);
  } catch (error) {
    if (error instanceof ApiError) notice("bad", error.message, error.suggestion);
    else if (!control.signal.aborted) notice("bad", "The connection to the swarm was lost during the test run.");
  }
  runs.control = null;
  runs.waiting.clear();
  draw();
}

/** Handles an event of the run. */
function handleRunEvent(name, body) {
  if (name === "case") {
    runs.results.set(body.name, body);
    runs.waiting.delete(body.name);
  } else if (name === "done") {
    runs.totals = body;
  } else if (name === "error") {
    notice("bad", `${body.error.message} [${body.error.code}]`, body.error.suggestion);
  }
  draw();
}
