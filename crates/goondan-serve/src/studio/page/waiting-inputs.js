// Inputs that this tab has sent and that are not part of a conversation yet. The server lists no queued inputs, so the tab keeps
// its own until a turn begins with them, including after a reload of the page.

import { get, remove, segment } from "./api.js";
import { button, h } from "./dom.js";
import { begunInputs, turns } from "./facts.js";
import { attempt, mark } from "./parts.js";
import { nameOf, on, state, tell } from "./state.js";

/**
 * An input that was accepted.
 * @typedef {{id: string, name: string, text: string, files: string[], at: number}} SentInput `name` is that of its conversation
 */

const KEPT = "gdn-studio-inputs";
/** Maximum number of inputs that are kept, the latest. */
const MAX_INPUTS = 50;
/** Maximum number of characters of a text that are kept. */
const MAX_TEXT = 4_000;
/** Time after which an input without a turn counts as queued, in milliseconds. Most turns begin at once. */
const SOON = 1_000;

/** @type {SentInput[]} oldest first */
let inputs = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");

/** A turn is named after the event that started it. */
const turnIdOf = (input) => `turn-${input.id.replace(/^evt-/, "")}`;
const hasBegun = (input) => begunInputs.has(input.id);
const hasFailed = (input) => state.letters.some((letter) => letter.event.id === input.id);

function store(next) {
  inputs = next.slice(-MAX_INPUTS);
  const waiting = inputs.filter((input) => !hasBegun(input));
  if (waiting.length) sessionStorage.setItem(KEPT, JSON.stringify(waiting));
  else sessionStorage.removeItem(KEPT);
  tell("inputs");
}

/**
 * Adds an input that the server has accepted.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {{id: string, text: string, files: string[]}} input
 */
export function addInput(whose, { id, text, files }) {
  store([...inputs, { id, name: nameOf(whose), text: text.slice(0, MAX_TEXT), files, at: Date.now() }]);
  setTimeout(() => tell("inputs"), SOON);
}

/** Forgets inputs that are over, or that the server does not know. */
async function check() {
  const waiting = inputs.filter((input) => !hasBegun(input));
  const states = await Promise.all(waiting.map((input) => get(`/api/inputs/${segment(input.id)}`).catch((error) => (error.status === 404 ? { status: "over" } : null))));
  const over = new Set(waiting.filter((_, number) => states[number]?.status === "over"));
  if (over.size) store(inputs.filter((input) => !over.has(input)));
}

// A turn that begins takes its input out of the queue. An input that is still waiting when its conversation is idle was cancelled.
on("events", (news) => {
  if (!inputs.length) return;
  if (news.some((event) => event.eventId && inputs.some((input) => input.id === event.eventId))) store(inputs);
  const ended = news.filter((event) => event.type === "turn.completed" || event.type === "turn.failed").map(nameOf);
  if (inputs.some((input) => ended.includes(input.name) && !hasBegun(input))) check();
});
if (inputs.length) {
  const stop = on("instances", () => {
    stop();
    check();
  });
}

/**
 * Returns the inputs of a conversation that wait for a turn.
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function queuedInputs(whose) {
  const name = nameOf(whose);
  const isLate = (input) => state.running.has(name) || Date.now() - input.at >= SOON;
  return inputs.filter((input) => input.name === name && !hasBegun(input) && !hasFailed(input) && isLate(input));
}

/**
 * Returns list items of inputs without a message: those whose turn begins, and those that wait.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {Set<string|null>} known ids of the turns whose messages are shown
 * @returns {{begun: import("./keyed.js").Item[], queued: import("./keyed.js").Item[]}}
 */
export function waitingItems(whose, known) {
  const queued = queuedInputs(whose);
  const mine = inputs.filter((input) => input.name === nameOf(whose) && !hasFailed(input) && !known.has(turnIdOf(input)));
  // An input that has joined another turn has no turn of its own.
  const begun = mine.filter((input) => !queued.includes(input) && (!hasBegun(input) || turns.has(turnIdOf(input))));
  const words = state.running.has(nameOf(whose)) ? "waits for the end of the turn" : "queued";
  return { begun: begun.map((input) => item(input, "")), queued: queued.map((input) => item(input, words)) };
}

/**
 * Forgets inputs whose turn is over. Their messages are loaded, or an extension has removed them.
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function forgetEnded(whose) {
  const rest = inputs.filter((input) => input.name !== nameOf(whose) || !turns.get(turnIdOf(input))?.end);
  if (rest.length < inputs.length) store(rest);
}

function item(input, words) {
  const drop = () =>
    attempt(async () => {
      await remove(`/api/inputs/${segment(input.id)}`);
      store(inputs.filter((one) => one.id !== input.id));
    });
  const make = () =>
    h(
      "article.message.user.sent",
      { class: words ? "queued" : "", data: { input: input.id } },
      h("header", {}, h("h2.speaker", {}, "Input"), words && mark("plain", words), words && button("Remove", drop, { class: "quiet", title: "Remove this input from the queue" })),
      input.text && h("div.words", { dir: "auto" }, input.text),
      input.files.map((name) => h("p.file", {}, mark("plain", "file"), ` ${name}`)),
    );
  return { key: `sent/${input.id}`, sign: words, make };
}
