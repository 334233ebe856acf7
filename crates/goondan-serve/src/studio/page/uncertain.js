// Uncertain calls: calls that were running when the process ended, so their effect is unknown. The user checks each call and
// reports the result to the agent.

import { post } from "./api.js";
import { button, fill, h } from "./dom.js";
import { timeOrDate } from "./format.js";
import { viewHref, withErrorNotice, conversationLink, data, badge, emptyMessage, notice } from "./parts.js";
import { on, state } from "./state.js";

/** Maximum number of listed calls, the latest. */
const MAX_LISTED = 100;
/** Prefix of the id of an input that resolves a call. The rest identifies the call, so that each call is resolved once. */
const RESOLUTION_ID_PREFIX = "evt-settled-";

const RESOLUTIONS = {
  true: "It happened: do not repeat it.",
  false: "It did not happen: repeat it if it is still needed.",
};

/** Ids of sent inputs whose turn has not begun yet. */
const sentResolutions = new Set();

const isUncertain = (event) => event.type === "tool.completed" && event.error?.code === "E_TOOL_INTERRUPTED";
const isResolution = (event) => event.type === "turn.started" && event.eventId.startsWith(RESOLUTION_ID_PREFIX);
const resolutionId = (event) => `${RESOLUTION_ID_PREFIX}${event.traceId}-${event.spanId}`;

/**
 * Shows the uncertain calls in a container. Returns a function that stops updates.
 * @param {Element} container
 */
export function uncertainCalls(container) {
  const draw = () => fill(container, cards());
  draw();
  // Other events must not redraw a card that the user is about to click. A call can be loaded after its result.
  const isRelevant = (event) => isUncertain(event) || isResolution(event) || withoutArguments.has(callKey(event));
  return on("events", (payload) => payload.some(isRelevant) && draw());
}

/** Keys of listed calls whose arguments are not loaded yet. */
const withoutArguments = new Set();

const callKey = (event) => `${event.stepId}/${event.toolCallId}`;

function cards() {
  const [calls, uncertain, resolved] = [new Map(), new Map(), new Set(sentResolutions)];
  for (const event of state.events) {
    if (event.type === "tool.called") calls.set(callKey(event), event.arguments);
    else if (isUncertain(event)) uncertain.set(resolutionId(event), event);
    else if (isResolution(event)) resolved.add(event.eventId);
  }
  const latest = [...uncertain].slice(-MAX_LISTED).reverse();
  if (!latest.length) return emptyMessage("No uncertain calls");
  withoutArguments.clear();
  for (const [, event] of latest) if (!calls.has(callKey(event))) withoutArguments.add(callKey(event));
  return latest.map(([id, event]) => card(event, calls.get(callKey(event)), resolved.has(id)));
}

function card(event, callArguments, isResolved) {
  const actions = h("div.actions", {}, button("It happened", () => report(true)), button("It did not", () => report(false)));
  const resolvedNote = () => h("p.settled", {}, badge("ok", "settled"), " The result was reported to the agent.");
  async function report(happened) {
    const text = `The user checked your call of ${event.toolName}, interrupted at ${event.timestamp}. ${RESOLUTIONS[happened]}`;
    const { agentName: agent, instanceKey } = event;
    const id = resolutionId(event);
    if (!(await withErrorNotice(() => post("/api/inputs", { text, agent, instanceKey, id })))) return;
    sentResolutions.add(id);
    actions.replaceWith(resolvedNote());
    notice("ok", `The result was reported to ${agent}:${instanceKey}.`);
  }
  return h(
    "article.panel.uncertain",
    { "aria-label": `Did ${event.toolName} happen?` },
    h("div.row", {}, badge("bad", event.error.code), h("code", {}, event.toolName), conversationLink(event), h("time.muted", {}, timeOrDate(event.timestamp))),
    callArguments !== undefined && [h("h3", {}, "Arguments"), data(callArguments, "Arguments")],
    h("p", {}, h("a", { href: viewHref("traces", event.traceId) }, "Trace")),
    isResolved ? resolvedNote() : actions,
  );
}
