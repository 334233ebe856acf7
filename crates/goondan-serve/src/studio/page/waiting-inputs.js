// Inputs that this tab sent and that are not messages yet. The server does not list queued inputs, so the tab stores them until
// their turn begins, including after a reload of the page.

import { get, remove, segment } from "./api.js";
import { button, h } from "./dom.js";
import { begunInputs, turns } from "./facts.js";
import { withErrorNotice, badge } from "./parts.js";
import { nameOf, on, state, notify } from "./state.js";

/**
 * An input that the server has accepted.
 * @typedef {{id: string, name: string, text: string, files: string[], at: number}} SentInput `name` is the name of its conversation
 */

const INPUTS_KEY = "gdn-studio-inputs";
/** Maximum number of stored inputs. The oldest are removed first. */
const MAX_INPUTS = 50;
/** Maximum length of a stored text, in characters. */
const MAX_TEXT = 4_000;
/** Time after which an input without a turn is shown as queued, in milliseconds. Most turns begin at once. */
const QUEUED_AFTER = 1_000;

/** @type {SentInput[]} oldest first */
let inputs = JSON.parse(sessionStorage.getItem(INPUTS_KEY) ?? "[]");

/** A turn is named after the event that started it. */
const turnIdOf = (input) => `turn-${input.id.replace(/^evt-/, "")}`;
const hasBegun = (input) => begunInputs.has(input.id);
const hasFailed = (input) => state.deadLetters.some((deadLetter) => deadLetter.event.id === input.id);

function store(next) {
  inputs = next.slice(-MAX_INPUTS);
  const waiting = inputs.filter((input) => !hasBegun(input));
  if (waiting.length) sessionStorage.setItem(INPUTS_KEY, JSON.stringify(waiting));
  else sessionStorage.removeItem(INPUTS_KEY);
  notify("inputs");
}

/**
 * Adds an input that the server has accepted.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {{id: string, text: string, files: string[]}} input
 */
export function addInput(conversation, { id, text, files }) {
  store([...inputs, { id, name: nameOf(conversation), text: text.slice(0, MAX_TEXT), files, at: Date.now() }]);
  setTimeout(() => notify("inputs"), QUEUED_AFTER);
}

/** Removes inputs that have ended or that the server no longer has. */
async function removeEnded() {
  const waiting = inputs.filter((input) => !hasBegun(input));
  const states = await Promise.all(waiting.map((input) => get(`/api/inputs/${segment(input.id)}`).catch((error) => (error.status === 404 ? { status: "over" } : null))));
  const over = new Set(waiting.filter((_, number) => states[number]?.status === "over"));
  if (over.size) store(inputs.filter((input) => !over.has(input)));
}

// An input leaves the queue when its turn begins. If it is still queued when its conversation is idle, it was cancelled.
on("events", (payload) => {
  if (!inputs.length) return;
  if (payload.some((event) => event.eventId && inputs.some((input) => input.id === event.eventId))) store(inputs);
  const ended = payload.filter((event) => event.type === "turn.completed" || event.type === "turn.failed").map(nameOf);
  if (inputs.some((input) => ended.includes(input.name) && !hasBegun(input))) removeEnded();
});
if (inputs.length) {
  const stop = on("instances", () => {
    stop();
    removeEnded();
  });
}

/**
 * Returns the inputs of a conversation that wait for a turn.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function queuedInputs(conversation) {
  const name = nameOf(conversation);
  const isLate = (input) => state.running.has(name) || Date.now() - input.at >= QUEUED_AFTER;
  return inputs.filter((input) => input.name === name && !hasBegun(input) && !hasFailed(input) && isLate(input));
}

/**
 * Returns list items of inputs without a message: inputs whose turn has begun, and queued inputs.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {Set<string|null>} known ids of turns with loaded messages
 * @returns {{begun: import("./keyed.js").Item[], queued: import("./keyed.js").Item[]}}
 */
export function waitingItems(conversation, known) {
  const queued = queuedInputs(conversation);
  const sent = inputs.filter((input) => input.name === nameOf(conversation) && !hasFailed(input) && !known.has(turnIdOf(input)));
  // An input that has joined another turn has no turn of its own.
  const begun = sent.filter((input) => !queued.includes(input) && (!hasBegun(input) || turns.has(turnIdOf(input))));
  const status = state.running.has(nameOf(conversation)) ? "waits for the end of the turn" : "queued";
  return { begun: begun.map((input) => inputItem(input, "")), queued: queued.map((input) => inputItem(input, status)) };
}

/**
 * Removes inputs whose turn has ended. Their messages are loaded, or an extension has removed them.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function forgetEnded(conversation) {
  const rest = inputs.filter((input) => input.name !== nameOf(conversation) || !turns.get(turnIdOf(input))?.end);
  if (rest.length < inputs.length) store(rest);
}

function inputItem(input, status) {
  const removeInput = () =>
    withErrorNotice(async () => {
      await remove(`/api/inputs/${segment(input.id)}`);
      store(inputs.filter((one) => one.id !== input.id));
    });
  const make = () =>
    h(
      "article.message.user.sent",
      { class: status ? "queued" : "", data: { input: input.id } },
      h("header", {}, h("h2.speaker", {}, "Input"), status && badge("plain", status), status && button("Remove", removeInput, { class: "quiet", title: "Remove this input from the queue" })),
      input.text && h("div.words", { dir: "auto" }, input.text),
      input.files.map((name) => h("p.file", {}, badge("plain", "file"), ` ${name}`)),
    );
  return { key: `sent/${input.id}`, signature: status, make };
}
