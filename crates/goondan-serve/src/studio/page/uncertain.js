// Uncertain calls: they had begun when the process ended, and nobody knows whether they happened. A person finds out and tells
// the agent.

import { post } from "./api.js";
import { button, fill, h } from "./dom.js";
import { when } from "./format.js";
import { address, attempt, conversationLink, data, mark, nothing, notice } from "./parts.js";
import { on, state } from "./state.js";

/** So many are listed. */
const LISTED = 100;
/** What the id of an input begins with that settles a call. The rest names the call, so each is settled once. */
const SETTLES = "evt-settled-";

const WORDS = {
  true: "It happened: do not repeat it.",
  false: "It did not happen: repeat it if it is still needed.",
};

/** Inputs of this page that no turn has begun with yet. */
const sent = new Set();

const isUncertain = (event) => event.type === "tool.completed" && event.error?.code === "E_TOOL_INTERRUPTED";
const settles = (event) => event.type === "turn.started" && event.eventId.startsWith(SETTLES);
const inputOf = (event) => `${SETTLES}${event.traceId}-${event.spanId}`;

/**
 * Lists them in a place, as long as it is shown.
 * @param {Element} place
 */
export function uncertainCalls(place) {
  const draw = () => fill(place, cards());
  draw();
  // Other events must not redraw a card under the pointer. A call can be loaded after its result.
  const concerns = (event) => isUncertain(event) || settles(event) || withoutArguments.has(callKey(event));
  return on("events", (news) => news.some(concerns) && draw());
}

/** Keys of listed calls whose arguments are not loaded yet. */
const withoutArguments = new Set();

const callKey = (event) => `${event.stepId}/${event.toolCallId}`;

function cards() {
  const [calls, uncertain, settled] = [new Map(), new Map(), new Set(sent)];
  for (const event of state.events) {
    if (event.type === "tool.called") calls.set(callKey(event), event.arguments);
    else if (isUncertain(event)) uncertain.set(inputOf(event), event);
    else if (settles(event)) settled.add(event.eventId);
  }
  const latest = [...uncertain].slice(-LISTED).reverse();
  if (!latest.length) return nothing("No uncertain calls");
  withoutArguments.clear();
  for (const [, event] of latest) if (!calls.has(callKey(event))) withoutArguments.add(callKey(event));
  return latest.map(([id, event]) => card(event, calls.get(callKey(event)), settled.has(id)));
}

function card(event, given, isSettled) {
  const actions = h("div.actions", {}, button("It happened", () => settle(true)), button("It did not", () => settle(false)));
  const settled = () => h("p.settled", {}, mark("ok", "settled"), " The result was reported to the agent.");
  async function settle(happened) {
    const text = `The user checked your call of ${event.toolName}, interrupted at ${event.timestamp}. ${WORDS[happened]}`;
    const { agentName: agent, instanceKey } = event;
    const id = inputOf(event);
    if (!(await attempt(() => post("/api/inputs", { text, agent, instanceKey, id })))) return;
    sent.add(id);
    actions.replaceWith(settled());
    notice("ok", `The result was reported to ${agent}:${instanceKey}.`);
  }
  return h(
    "article.panel.uncertain",
    { "aria-label": `Did ${event.toolName} happen?` },
    h("div.row", {}, mark("bad", event.error.code), h("code", {}, event.toolName), conversationLink(event), h("time.muted", {}, when(event.timestamp))),
    given !== undefined && [h("h3", {}, "Arguments"), data(given, "Arguments")],
    h("p", {}, h("a", { href: address("traces", event.traceId) }, "Trace")),
    isSettled ? settled() : actions,
  );
}
