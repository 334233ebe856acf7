// Turns of a conversation: what each took, and why it failed. An error is shown under the input that caused it.

import { place as placeOf, post } from "./api.js";
import { button, h } from "./dom.js";
import { finishReasons, modelCalls, turns, waited, waitedInCall } from "./facts.js";
import { letters } from "./feed.js";
import { counted, duration, money, waitWords } from "./format.js";
import { contextOf, messageItem } from "./message.js";
import { modelCallDetails } from "./model-call.js";
import { address, attempt, cut, mark, notice } from "./parts.js";
import { calledQuestion, questionOf } from "./requests.js";
import { nameOf, state } from "./state.js";

/** @typedef {import("./message.js").Message} Message */

/**
 * Returns the id of the turn of a message; `null` for a message that no turn has written.
 * @param {Message} message
 */
export function turnIdOf(message) {
  return /^(.+)-m\d+$/.exec(message.id)?.[1] ?? null;
}

/**
 * Returns the list items of a conversation: messages, and after each turn its end.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {Message[]} messages
 * @param {{does: any, from?: number, isWhole?: boolean, isFile?: boolean, replace?: (message: Message) => import("./keyed.js").Item|null}} options `from` is the number of
 *   the first message that is shown; `isWhole` is false if earlier messages are not loaded; `isFile` leaves out live states; `replace` returns another item for a message
 * @returns {(import("./keyed.js").Item|null)[]}
 */
export function conversationItems(whose, messages, { does, from = 0, isWhole = true, isFile = false, replace }) {
  const live = { call: (message, part) => liveCall(whose, message, part), reason: (message) => finishReasons.get(message.source?.stepId), modelCall: (message) => modelCalls.get(message.source?.stepId) };
  const context = contextOf(messages, { agentName: whose.agentName, does, isFile, live: isFile ? { reason: live.reason } : live });
  const failed = lettersOf(whose, messages, isWhole);
  const items = [];
  messages.slice(from).forEach((message, index) => {
    const number = from + index;
    items.push(replace?.(message) ?? messageItem(message, context));
    const turnId = turnIdOf(message);
    const next = messages[number + 1];
    if (turnId && (!next || (turnIdOf(next) ?? turnId) !== turnId)) items.push(...endItems(turnId, failed.get(turnId), whose));
  });
  // Inputs that failed before they were part of the conversation.
  for (const letter of failed.get(null) ?? []) items.push({ key: `input/${letter.event.id}`, make: () => lostInput(letter) }, ...endItems(`input/${letter.event.id}`, letter, whose));
  return items;
}

/** Returns the live state of a call. */
function liveCall(whose, message, part) {
  const name = nameOf(whose);
  const turnId = turnIdOf(message);
  const isRunning = state.running.get(name)?.turnId === turnId;
  const turn = turns.get(turnId);
  const fact = turn?.calls.get(`${message.source?.stepId}/${part.toolCallId}`);
  const waits = fact?.status ? waitedInCall(turn, fact) : 0;
  return { isRunning, fact, waits, question: isRunning ? questionOf(whose, part.toolCallId) : undefined, called: isRunning ? calledQuestion(fact) : undefined };
}

/** Returns the failed inputs of a conversation by turn, and below `null` those without a message among the loaded ones. */
function lettersOf(whose, messages, isWhole) {
  const found = new Map();
  const begin = isWhole ? 0 : Date.parse(messages[0].createdAt);
  const known = new Set(messages.map(turnIdOf));
  for (const letter of state.letters) {
    const { event } = letter;
    const target = { agentName: event.target.agentName ?? event.target.agent, instanceKey: event.target.instanceKey };
    if (nameOf(target) !== nameOf(whose)) continue;
    // A turn is named after the event that started it.
    const turnId = `turn-${event.id.replace(/^evt-/, "")}`;
    if (known.has(turnId)) found.set(turnId, letter);
    else if (Date.parse(event.createdAt) >= begin) found.set(null, [...(found.get(null) ?? []), letter]);
  }
  return found;
}

function lostInput({ event }) {
  return h("article.message.user", {}, h("header", {}, h("h2.speaker", {}, "Input")), h("div.words", { dir: "auto" }, event.input));
}

/** Returns the items after the last message of a turn. */
function endItems(turnId, letter, whose) {
  // The messages of a fork keep their ids. Their turns belong to the original.
  const own = turns.get(turnId);
  const turn = own?.name === nameOf(whose) ? own : undefined;
  const end = turn?.end;
  const failure = end?.type === "turn.failed" ? { code: end.errorCode, message: end.errorMessage, ...letter?.error } : letter?.error;
  const isCancelled = failure?.code === "E_TURN_CANCELLED";
  const waits = end ? waited(turn) : 0;
  const sign = `${end?.sequence ?? ""}/${letter ? letter.event.id : ""}/${waits}`;
  return [
    failure && !isCancelled && { key: `${turnId}/error`, sign, make: () => errorCard(failure, letter, whose, turn?.failedCall) },
    end && { key: `${turnId}/end`, sign, make: () => endLine(end, isCancelled, waits) },
  ];
}

/** The end of a turn in words; nothing for a complete answer. */
const ENDS = { max_steps: "stopped at the step limit", cancelled: "cancelled" };

function endLine(end, isCancelled, waits) {
  const { tokenUsage: usage, cost } = end;
  const words = isCancelled ? ENDS.cancelled : ENDS[end.finishReason];
  const tokens = usage?.totalTokens && `${counted(usage.totalTokens, "token")} (${usage.promptTokens.toLocaleString("en")} in, ${usage.completionTokens.toLocaleString("en")} out)`;
  const told = [duration(end.duration), waitWords(waits, " for approval"), end.stepCount > 1 && counted(end.stepCount, "step"), tokens, cost && money(cost.amount, cost.currency)];
  return h("p.turn-end.muted", {}, words && mark("plain", words), cut(end.modelFinishReason), h("span", {}, told.filter(Boolean).join(" · ")), end.traceId && h("a", { href: address("traces", end.traceId) }, "Trace"));
}

function errorCard(error, letter, whose, call) {
  const retries = call?.retries.length ?? 0;
  const again = () =>
    attempt(async () => {
      await post(`${placeOf(whose)}/retry`, { eventId: letter.event.id });
      await letters();
      notice("ok", "The input is sent again.");
    });
  // A group, because a conversation can have several, and landmarks need different names.
  return h(
    "div.panel.bad.turn-error",
    { role: "group", "aria-label": "The turn failed" },
    h("div.row", {}, mark("bad", error.code ?? "failed"), h("strong", {}, "The turn failed"), retries > 0 && h("span.muted", {}, `after ${counted(retries, "retry", "retries")}`), call && modelCallDetails(call)),
    h("p", {}, error.message),
    error.suggestion && h("p.muted", {}, error.suggestion),
    letter && h("div.actions", {}, button("Try again", again, { class: "primary" })),
  );
}
