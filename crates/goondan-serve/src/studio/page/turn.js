// Turns of a conversation, each with its duration, cost and error. An error is shown below the input that caused it.

import { conversationPath, post } from "./api.js";
import { button, h } from "./dom.js";
import { finishReasons, modelCalls, turns, waited, waitedInCall } from "./facts.js";
import { loadDeadLetters } from "./feed.js";
import { counted, duration, money, waitText } from "./format.js";
import { contextOf, messageItem } from "./message.js";
import { modelCallDetails } from "./model-call.js";
import { viewHref, withErrorNotice, incompleteBadge, badge, notice } from "./parts.js";
import { calleeApproval, approvalOf } from "./requests.js";
import { nameOf, state } from "./state.js";

/** @typedef {import("./message.js").Message} Message */

/**
 * Returns the turn id of a message; `null` for a message that is not from a turn.
 * @param {Message} message
 */
export function turnIdOf(message) {
  return /^(.+)-m\d+$/.exec(message.id)?.[1] ?? null;
}

/**
 * Returns the list items of a conversation: messages, and a summary after each turn.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {Message[]} messages
 * @param {{messageActions: any, from?: number, isWhole?: boolean, isFile?: boolean, replace?: (message: Message) => import("./keyed.js").Item|null}} options `from` is the number of
 *   the first message to show; `isWhole` is false if earlier messages are not loaded; `isFile` omits live states; `replace` returns another item for a message
 * @returns {(import("./keyed.js").Item|null)[]}
 */
export function conversationItems(conversation, messages, { messageActions, from = 0, isWhole = true, isFile = false, replace }) {
  const live = { call: (message, part) => liveCall(conversation, message, part), reason: (message) => finishReasons.get(message.source?.stepId), modelCall: (message) => modelCalls.get(message.source?.stepId) };
  const context = contextOf(messages, { agentName: conversation.agentName, messageActions, isFile, live: isFile ? { reason: live.reason } : live });
  const failed = deadLettersOf(conversation, messages, isWhole);
  const items = [];
  messages.slice(from).forEach((message, index) => {
    const number = from + index;
    items.push(replace?.(message) ?? messageItem(message, context));
    const turnId = turnIdOf(message);
    const next = messages[number + 1];
    if (turnId && (!next || (turnIdOf(next) ?? turnId) !== turnId)) items.push(...endItems(turnId, failed.get(turnId), conversation));
  });
  // Inputs that failed before they became messages.
  for (const deadLetter of failed.get(null) ?? []) items.push({ key: `input/${deadLetter.event.id}`, make: () => failedInput(deadLetter) }, ...endItems(`input/${deadLetter.event.id}`, deadLetter, conversation));
  return items;
}

/** Returns the live state of a call. */
function liveCall(conversation, message, part) {
  const name = nameOf(conversation);
  const turnId = turnIdOf(message);
  const isRunning = state.running.get(name)?.turnId === turnId;
  const turn = turns.get(turnId);
  const fact = turn?.calls.get(`${message.source?.stepId}/${part.toolCallId}`);
  const waits = fact?.status ? waitedInCall(turn, fact) : 0;
  return { isRunning, fact, waits, approval: isRunning ? approvalOf(conversation, part.toolCallId) : undefined, called: isRunning ? calleeApproval(fact) : undefined };
}

/** Returns the failed inputs of a conversation by turn id. Failed inputs without a loaded message are under `null`. */
function deadLettersOf(conversation, messages, isWhole) {
  const found = new Map();
  const begin = isWhole ? 0 : Date.parse(messages[0].createdAt);
  const known = new Set(messages.map(turnIdOf));
  for (const deadLetter of state.deadLetters) {
    const { event } = deadLetter;
    const target = { agentName: event.target.agentName ?? event.target.agent, instanceKey: event.target.instanceKey };
    if (nameOf(target) !== nameOf(conversation)) continue;
    // A turn is named after the event that started it.
    const turnId = `turn-${event.id.replace(/^evt-/, "")}`;
    if (known.has(turnId)) found.set(turnId, deadLetter);
    else if (Date.parse(event.createdAt) >= begin) found.set(null, [...(found.get(null) ?? []), deadLetter]);
  }
  return found;
}

function failedInput({ event }) {
  return h("article.message.user", {}, h("header", {}, h("h2.speaker", {}, "Input")), h("div.words", { dir: "auto" }, event.input));
}

/** Returns the items after the last message of a turn. */
function endItems(turnId, deadLetter, conversation) {
  // Messages of a fork keep their ids, but their turns belong to the original conversation.
  const own = turns.get(turnId);
  const turn = own?.name === nameOf(conversation) ? own : undefined;
  const end = turn?.end;
  const failure = end?.type === "turn.failed" ? { code: end.errorCode, message: end.errorMessage, ...deadLetter?.error } : deadLetter?.error;
  const isCancelled = failure?.code === "E_TURN_CANCELLED";
  const waits = end ? waited(turn) : 0;
  const signature = `${end?.sequence ?? ""}/${deadLetter ? deadLetter.event.id : ""}/${waits}`;
  return [
    failure && !isCancelled && { key: `${turnId}/error`, signature, make: () => errorCard(failure, deadLetter, conversation, turn?.failedCall) },
    end && { key: `${turnId}/end`, signature, make: () => endLine(end, isCancelled, waits) },
  ];
}

/** Labels of finish reasons. A complete answer has no label. */
const ENDS = { max_steps: "stopped at the step limit", cancelled: "cancelled" };

function endLine(end, isCancelled, waits) {
  const { tokenUsage: usage, cost } = end;
  const endText = isCancelled ? ENDS.cancelled : ENDS[end.finishReason];
  const tokens = usage?.totalTokens && `${counted(usage.totalTokens, "token")} (${usage.promptTokens.toLocaleString("en")} in, ${usage.completionTokens.toLocaleString("en")} out)`;
  const details = [duration(end.duration), waitText(waits, " for approval"), end.stepCount > 1 && counted(end.stepCount, "step"), tokens, cost && money(cost.amount, cost.currency)];
  return h("p.turn-end.muted", {}, endText && badge("plain", endText), incompleteBadge(end.modelFinishReason), h("span", {}, details.filter(Boolean).join(" · ")), end.traceId && h("a", { href: viewHref("traces", end.traceId) }, "Trace"));
}

function errorCard(error, deadLetter, conversation, call) {
  const retries = call?.retries.length ?? 0;
  const retryInput = () =>
    withErrorNotice(async () => {
      await post(`${conversationPath(conversation)}/retry`, { eventId: deadLetter.event.id });
      await loadDeadLetters();
      notice("ok", "The input is sent again.");
    });
  // A group instead of a landmark: landmarks need unique names, and a conversation can have several errors.
  return h(
    "div.panel.bad.turn-error",
    { role: "group", "aria-label": "The turn failed" },
    h("div.row", {}, badge("bad", error.code ?? "failed"), h("strong", {}, "The turn failed"), retries > 0 && h("span.muted", {}, `after ${counted(retries, "retry", "retries")}`), call && modelCallDetails(call)),
    h("p", {}, error.message),
    error.suggestion && h("p.muted", {}, error.suggestion),
    deadLetter && h("div.actions", {}, button("Try again", retryInput, { class: "primary" })),
  );
}
