// Events: the list of all loaded events. The page contains only the visible rows.

import { fill, h } from "../dom.js";
import { agentNames, eventTypes } from "../facts.js";
import { counted, excerpt, time } from "../format.js";
import { viewHref, conversationLink, data, viewHeading, emptyMessage } from "../parts.js";
import { nameOf, numberOf, on, state } from "../state.js";

/** Height of a row, in pixels, as in style.css. */
const ROW_HEIGHT = 30;
/** Number of extra rows above and below the visible rows. */
const EXTRA_ROWS = 12;

/** Fields that identify the context of an event. The rows omit them. */
const CONTEXT_FIELDS = new Set(["type", "sequence", "timestamp", "agentName", "instanceKey", "traceId", "spanId", "parentSpanId", "turnId", "stepId", "toolCallId", "traceparent", "tracestate"]);

/** @type {import("../app.js").View} */
export function events(container) {
  const agent = h("select", { "aria-label": "Only events of this agent" });
  const type = h("select", { "aria-label": "Only events of this type" });
  const count = h("span.muted", { "aria-live": "off" });
  const followCheckbox = h("input", { type: "checkbox", checked: true, id: "follows" });
  const rows = h("ol.rows");
  const list = h("div.log", { tabindex: 0, role: "region", "aria-label": "Events" }, rows);
  const detail = h("div.event-detail", { "aria-live": "polite" });
  container.append(viewHeading("Events", agent, type, h("label.check", { for: "follows" }, followCheckbox, "Follow"), count), h("div.log-columns", {}, list, detail));
  /** @type {import("../state.js").RuntimeEvent[]} */
  let filtered = [];
  let chosen = 0;
  let planned = 0;
  let isStale = false;

  const isWanted = (event) => (!agent.value || (event.agentName === agent.value && !isOfSwarm(event))) && (!type.value || event.type === type.value || event.type.startsWith(`${type.value}.`));
  function filter() {
    filtered = state.events.filter(isWanted);
    draw();
  }
  function draw() {
    planned = 0;
    if (isStale) filtered = state.events.filter(isWanted);
    isStale = false;
    choices();
    rows.style.height = `${filtered.length * ROW_HEIGHT}px`;
    if (followCheckbox.checked) list.scrollTop = list.scrollHeight;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - EXTRA_ROWS);
    const last = Math.min(filtered.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW_HEIGHT) + EXTRA_ROWS);
    fill(rows, filtered.slice(first, last).map((event, nth) => row(event, first + nth, event.sequence === chosen, choose)));
    if (!state.isLoaded) fill(count, "Loading events…");
    else fill(count, filtered.length === state.events.length ? counted(filtered.length, "event") : `${filtered.length.toLocaleString("en")} of ${counted(state.events.length, "event")}`);
  }
  const soon = () => (planned ||= requestAnimationFrame(draw));
  function choose(event) {
    chosen = event.sequence;
    fill(detail, h("h2", {}, `${numberOf(event)} ${event.type}`), links(event), data(event, "The event"));
    draw();
  }
  list.addEventListener("scroll", () => {
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < ROW_HEIGHT * 2;
    if (!isAtEnd) followCheckbox.checked = false;
    soon();
  });
  followCheckbox.addEventListener("change", draw);
  for (const select of [agent, type]) select.addEventListener("change", filter);
  const choices = () => {
    const types = [...eventTypes];
    offer(agent, "all agents", agentNames);
    offer(type, "all types", new Set([...types.map((one) => one.split(".")[0]), ...types]));
  };
  const resized = new ResizeObserver(soon);
  resized.observe(list);
  const stop = on("events", (payload) => {
    const fresh = payload.filter(isWanted);
    // The oldest events were removed. The next frame filters again.
    if (state.events.length < filtered.length + fresh.length) isStale = true;
    for (const event of fresh) filtered.push(event);
    soon();
  });
  const stopLoading = on("connection", soon);
  fill(detail, emptyMessage("No event selected", "Select an event to see its details."));
  filter();
  return () => {
    resized.disconnect();
    cancelAnimationFrame(planned);
    stop();
    stopLoading();
  };
}

/**
 * Adds new options. Does nothing if there are none.
 * @param {HTMLSelectElement} select
 * @param {string} all
 * @param {Set<string>} values
 */
function offer(select, all, values) {
  const had = select.value;
  if (select.options.length === values.size + 1) return;
  fill(select, h("option", { value: "" }, all), [...values].sort().map((value) => h("option", { value, selected: value === had }, value)));
}

/** Returns true for an event of the whole swarm, such as a reload. */
const isOfSwarm = (event) => event.instanceKey === "*";

/** Returns links to the conversation, the trace and the model call of an event. */
function links(event) {
  if (isOfSwarm(event)) return h("p.event-links", {}, h("a", { href: viewHref("reloads") }, "Reloads"));
  const isModelCall = event.type === "model.completed" || event.type === "model.failed";
  return h(
    "p.event-links",
    {},
    conversationLink(event),
    event.traceId && [" · ", h("a", { href: viewHref("traces", event.traceId) }, "Trace")],
    isModelCall && [" · ", h("a", { href: viewHref("traces", event.traceId, event.spanId) }, "Model call")],
  );
}

function row(event, nth, isChosen, choose) {
  const fields = Object.entries(event).filter(([name]) => !CONTEXT_FIELDS.has(name));
  const text = fields.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ");
  const button = h(
    "button.event-row",
    { type: "button", "aria-pressed": String(isChosen) },
    h("span.number", {}, numberOf(event)),
    h("time", {}, time(event.timestamp)),
    h(`span.type.${event.type.split(".")[0]}`, {}, event.type),
    h("span.whose", {}, isOfSwarm(event) ? "swarm" : nameOf(event)),
    h("span.told", {}, excerpt(text, 220)),
  );
  button.addEventListener("click", () => choose(event));
  const item = h("li", {}, button);
  item.style.transform = `translateY(${nth * ROW_HEIGHT}px)`;
  return item;
}
