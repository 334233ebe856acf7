// Problems: events whose turns failed, calls of which nobody knows how they ended, and turns and calls that failed.

import { place as placeOf, post, remove, segment } from "../api.js";
import { button, fill, h } from "../dom.js";
import { failures } from "../facts.js";
import { letters } from "../feed.js";
import { excerpt, when } from "../format.js";
import { address, attempt, conversationLink, data, head, mark, nothing, notice } from "../parts.js";
import { nameOf, onFrame, state } from "../state.js";
import { uncertainCalls } from "../uncertain.js";

/** Returns the failures that no failed input shows. A failed turn also shows the failure of its model call. */
function others() {
  const inputs = new Set(state.letters.map(({ event }) => `turn-${event.id.replace(/^evt-/, "")}`));
  const turns = new Set(failures.filter((event) => event.type === "turn.failed").map((event) => event.turnId));
  return failures.filter((event) => (event.type === "turn.failed" ? !inputs.has(event.turnId) : event.type !== "model.failed" || !turns.has(event.turnId)));
}

/** How many wait for somebody to do something about them. */
export function problemCount() {
  return state.letters.length;
}

/** @type {import("../app.js").View} */
export function problems(place) {
  const waiting = h("div.cards-list");
  const uncertain = h("div.cards-list");
  const failed = h("div.cards-list");
  place.append(
    head("Problems"),
    section("Failed inputs", "These inputs failed. Retry or discard them.", waiting),
    section("Uncertain calls", "These calls were running when the process ended, so their effect is unknown. They are not repeated. Check whether each call happened, and report it to the agent.", uncertain),
    section("Failed turns, models and calls", "The latest failures among the loaded events.", failed),
  );
  const drawLetters = () => fill(waiting, state.letters.length ? [...state.letters].reverse().map(letter) : nothing("No failed inputs"));
  function drawEvents() {
    const latest = others();
    fill(failed, latest.length ? latest.reverse().map(failure) : nothing("No other failures"));
  }
  // Other events must not redraw an opened failure.
  const last = () => others().map((event) => event.sequence).join();
  let drawn = last();
  const isNew = () => last() !== drawn;
  const stops = [
    onFrame(["letters"], drawLetters),
    onFrame(["events", "letters"], () => ((drawn = last()), drawEvents()), isNew),
    uncertainCalls(uncertain),
  ];
  drawLetters();
  drawEvents();
  letters().catch(() => null);
  return () => stops.forEach((stop) => stop());
}

function section(title, words, list) {
  return h("section.block", { "aria-label": title }, h("h2", {}, title), h("p.muted", {}, words), list);
}

function letter({ event, error, failedAt }) {
  const whose = { agentName: event.target.agentName ?? event.target.agent, instanceKey: event.target.instanceKey };
  const retry = () =>
    attempt(async () => {
      const state = await post(`${placeOf(whose)}/retry`, { eventId: event.id });
      await letters();
      notice("ok", `${nameOf(whose)} retries the input as ${state.id}.`);
    });
  const discard = () =>
    attempt(async () => {
      await remove(`${placeOf(whose)}/dead-letters/${segment(event.id)}`);
      await letters();
    });
  return h(
    "article.panel",
    {},
    h("div.row", {}, mark("bad", error.code), conversationLink(whose), h("time.muted", {}, when(failedAt))),
    h("p", {}, error.message),
    error.suggestion && h("p.muted", {}, error.suggestion),
    h("blockquote.words", { dir: "auto" }, event.input),
    h("div.actions", {}, button("Try again", retry, { class: "primary" }), button("Discard", discard, { class: "danger" })),
  );
}

function failure(event) {
  const code = event.errorCode ?? event.error?.code ?? event.type;
  const words = event.errorMessage ?? event.error?.message ?? "";
  return h(
    "details.panel.failure",
    {},
    h("summary", {}, mark("bad", code), h("code", {}, event.toolName ?? event.model ?? event.type), h("span", {}, nameOf(event)), h("time.muted", {}, when(event.timestamp)), words && h("span.failure-words", {}, excerpt(words, 160))),
    h("p", {}, words),
    h("p", {}, h("a", { href: address("traces", event.traceId) }, "Trace"), " · ", conversationLink(event)),
    data(event, "The event"),
  );
}
