// Events: everything that happens, by number. Only the rows that can be seen are there, however many events there are.

import { fill, h } from "../dom.js";
import { agentNames, eventTypes } from "../facts.js";
import { counted, excerpt, time } from "../format.js";
import { address, conversationLink, data, head, nothing } from "../parts.js";
import { nameOf, numberOf, on, state } from "../state.js";

/** The height of a row, in pixels; style.css says the same. */
const ROW = 30;
/** So many rows are there above and below those that are seen. */
const MORE = 12;

/** Fields that say where an event belongs, and not what happened. */
const PLACE = new Set(["type", "sequence", "timestamp", "agentName", "instanceKey", "traceId", "spanId", "parentSpanId", "turnId", "stepId", "toolCallId", "traceparent", "tracestate"]);

/** @type {import("../app.js").View} */
export function events(place) {
  const agent = h("select", { "aria-label": "Only events of this agent" });
  const type = h("select", { "aria-label": "Only events of this type" });
  const count = h("span.muted", { "aria-live": "off" });
  const follows = h("input", { type: "checkbox", checked: true, id: "follows" });
  const rows = h("ol.rows");
  const list = h("div.log", { tabindex: 0, role: "region", "aria-label": "Events" }, rows);
  const detail = h("div.event-detail", { "aria-live": "polite" });
  place.append(head("Events", agent, type, h("label.check", { for: "follows" }, follows, "Follow"), count), h("div.log-columns", {}, list, detail));
  /** @type {import("../state.js").RuntimeEvent[]} */
  let wanted = [];
  let chosen = 0;
  let planned = 0;
  let isStale = false;

  const fits = (event) => (!agent.value || (event.agentName === agent.value && !isOfSwarm(event))) && (!type.value || event.type === type.value || event.type.startsWith(`${type.value}.`));
  function filter() {
    wanted = state.events.filter(fits);
    draw();
  }
  function draw() {
    planned = 0;
    if (isStale) wanted = state.events.filter(fits);
    isStale = false;
    choices();
    rows.style.height = `${wanted.length * ROW}px`;
    if (follows.checked) list.scrollTop = list.scrollHeight;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - MORE);
    const last = Math.min(wanted.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + MORE);
    fill(rows, wanted.slice(first, last).map((event, nth) => row(event, first + nth, event.sequence === chosen, choose)));
    if (!state.isLoaded) fill(count, "Loading events…");
    else fill(count, wanted.length === state.events.length ? counted(wanted.length, "event") : `${wanted.length.toLocaleString("en")} of ${counted(state.events.length, "event")}`);
  }
  const soon = () => (planned ||= requestAnimationFrame(draw));
  function choose(event) {
    chosen = event.sequence;
    fill(detail, h("h2", {}, `${numberOf(event)} ${event.type}`), links(event), data(event, "The event"));
    draw();
  }
  list.addEventListener("scroll", () => {
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < ROW * 2;
    if (!isAtEnd) follows.checked = false;
    soon();
  });
  follows.addEventListener("change", draw);
  for (const select of [agent, type]) select.addEventListener("change", filter);
  const choices = () => {
    const types = [...eventTypes];
    offer(agent, "all agents", agentNames);
    offer(type, "all types", new Set([...types.map((one) => one.split(".")[0]), ...types]));
  };
  const resized = new ResizeObserver(soon);
  resized.observe(list);
  const stop = on("events", (news) => {
    const fresh = news.filter(fits);
    // The oldest events are gone. They are left out with the next frame.
    if (state.events.length < wanted.length + fresh.length) isStale = true;
    for (const event of fresh) wanted.push(event);
    soon();
  });
  const stopLoading = on("connection", soon);
  fill(detail, nothing("No event selected", "Select an event to see its details."));
  filter();
  return () => {
    resized.disconnect();
    cancelAnimationFrame(planned);
    stop();
    stopLoading();
  };
}

/**
 * Adds new choices. Nothing changes as long as there are none.
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
  if (isOfSwarm(event)) return h("p.event-links", {}, h("a", { href: address("reloads") }, "Reloads"));
  const isModelCall = event.type === "model.completed" || event.type === "model.failed";
  return h(
    "p.event-links",
    {},
    conversationLink(event),
    event.traceId && [" · ", h("a", { href: address("traces", event.traceId) }, "Trace")],
    isModelCall && [" · ", h("a", { href: address("traces", event.traceId, event.spanId) }, "Model call")],
  );
}

function row(event, nth, isChosen, choose) {
  const words = Object.entries(event).filter(([name]) => !PLACE.has(name));
  const told = words.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ");
  const button = h(
    "button.event-row",
    { type: "button", "aria-pressed": String(isChosen) },
    h("span.number", {}, numberOf(event)),
    h("time", {}, time(event.timestamp)),
    h(`span.type.${event.type.split(".")[0]}`, {}, event.type),
    h("span.whose", {}, isOfSwarm(event) ? "swarm" : nameOf(event)),
    h("span.told", {}, excerpt(told, 220)),
  );
  button.addEventListener("click", () => choose(event));
  const item = h("li", {}, button);
  item.style.transform = `translateY(${nth * ROW}px)`;
  return item;
}
