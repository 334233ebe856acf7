// Problems: failed inputs, calls with an unknown effect, and failed turns and calls.

import { conversationPath, post, remove, segment } from "../api.js";
import { button, fill, h } from "../dom.js";
import { failures } from "../facts.js";
import { loadDeadLetters } from "../feed.js";
import { excerpt, timeOrDate } from "../format.js";
import { viewHref, withErrorNotice, conversationLink, data, viewHeading, badge, emptyMessage, notice } from "../parts.js";
import { nameOf, onFrame, state } from "../state.js";
import { uncertainCalls } from "../uncertain.js";

/** Returns failures without a failed input. A failed turn replaces the failure of its model call. */
function otherFailures() {
  const inputs = new Set(state.deadLetters.map(({ event }) => `turn-${event.id.replace(/^evt-/, "")}`));
  const turns = new Set(failures.filter((event) => event.type === "turn.failed").map((event) => event.turnId));
  return failures.filter((event) => (event.type === "turn.failed" ? !inputs.has(event.turnId) : event.type !== "model.failed" || !turns.has(event.turnId)));
}

/** Returns the number of failed inputs, which need a user. */
export function problemCount() {
  return state.deadLetters.length;
}

/** @type {import("../app.js").View} */
export function problems(container) {
  const waiting = h("div.cards-list");
  const uncertain = h("div.cards-list");
  const failed = h("div.cards-list");
  container.append(
    viewHeading("Problems"),
    section("Failed inputs", "These inputs failed. Retry or discard them.", waiting),
    section("Uncertain calls", "These calls were running when the process ended, so their effect is unknown. They are not repeated. Check whether each call happened, and report it to the agent.", uncertain),
    section("Failed turns, models and calls", "The latest failures among the loaded events.", failed),
  );
  const drawDeadLetters = () => fill(waiting, state.deadLetters.length ? [...state.deadLetters].reverse().map(deadLetterCard) : emptyMessage("No failed inputs"));
  function drawEvents() {
    const latest = otherFailures();
    fill(failed, latest.length ? latest.reverse().map(failure) : emptyMessage("No other failures"));
  }
  // Other events must not redraw an opened failure.
  const last = () => otherFailures().map((event) => event.sequence).join();
  let drawn = last();
  const isNew = () => last() !== drawn;
  const stops = [
    onFrame(["deadLetters"], drawDeadLetters),
    onFrame(["events", "deadLetters"], () => ((drawn = last()), drawEvents()), isNew),
    uncertainCalls(uncertain),
  ];
  drawDeadLetters();
  drawEvents();
  loadDeadLetters().catch(() => null);
  return () => stops.forEach((stop) => stop());
}

function section(title, description, list) {
  return h("section.block", { "aria-label": title }, h("h2", {}, title), h("p.muted", {}, description), list);
}

function deadLetterCard({ event, error, failedAt }) {
  const conversation = { agentName: event.target.agentName ?? event.target.agent, instanceKey: event.target.instanceKey };
  const retry = () =>
    withErrorNotice(async () => {
      const state = await post(`${conversationPath(conversation)}/retry`, { eventId: event.id });
      await loadDeadLetters();
      notice("ok", `${nameOf(conversation)} retries the input as ${state.id}.`);
    });
  const discard = () =>
    withErrorNotice(async () => {
      await remove(`${conversationPath(conversation)}/dead-letters/${segment(event.id)}`);
      await loadDeadLetters();
    });
  return h(
    "article.panel",
    {},
    h("div.row", {}, badge("bad", error.code), conversationLink(conversation), h("time.muted", {}, timeOrDate(failedAt))),
    h("p", {}, error.message),
    error.suggestion && h("p.muted", {}, error.suggestion),
    h("blockquote.words", { dir: "auto" }, event.input),
    h("div.actions", {}, button("Try again", retry, { class: "primary" }), button("Discard", discard, { class: "danger" })),
  );
}

function failure(event) {
  const code = event.errorCode ?? event.error?.code ?? event.type;
  const message = event.errorMessage ?? event.error?.message ?? "";
  return h(
    "details.panel.failure",
    {},
    h("summary", {}, badge("bad", code), h("code", {}, event.toolName ?? event.model ?? event.type), h("span", {}, nameOf(event)), h("time.muted", {}, timeOrDate(event.timestamp)), message && h("span.failure-words", {}, excerpt(message, 160))),
    h("p", {}, message),
    h("p", {}, h("a", { href: viewHref("traces", event.traceId) }, "Trace"), " · ", conversationLink(event)),
    data(event, "The event"),
  );
}
