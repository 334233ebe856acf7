// The swarm as a graph: agents with their models, tools, connections and schedules, and the active edges.

import { get } from "../api.js";
import { fill, h, svg } from "../dom.js";
import { trackActivity, edgesOf } from "../edges.js";
import { totals } from "../facts.js";
import { counted, duration, timeOrDate } from "../format.js";
import { drawLines, drawTable, markActive } from "../graph.js";
import { viewHref, diagnostic, viewHeading, badge, emptyMessage } from "../parts.js";
import { openApproval } from "../requests.js";
import { on, onFrame, state } from "../state.js";

/** Pause before the schedules are read again, in milliseconds. */
const REREAD_DELAY = 1_000;

/** @type {import("../app.js").View} */
export function swarm(container) {
  const top = h("div.head-place");
  const graph = h("div.graph");
  const lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  const table = h("div");
  const isNarrow = matchMedia("(max-width: 900px)").matches;
  container.append(top, h("div.graph-scroll", {}, graph), h("details.panel.edges", { open: isNarrow }, h("summary", {}, "The graph as a table"), table));
  const { recordCalls, active, isEnding } = trackActivity();
  let [focused, edges, schedules, timer, reading, isClosed] = ["", [], [], 0, 0, false];

  function redraw() {
    const now = active();
    drawLines(graph, lines, edges, now, focused);
    markActive(table, now);
    clearTimeout(timer);
    if (isEnding()) timer = setTimeout(redraw, 250);
  }
  const watch = (card, id) => {
    const focus = (name) => () => {
      focused = name;
      redraw();
    };
    for (const event of ["mouseenter", "focusin"]) card.addEventListener(event, focus(id));
    for (const event of ["mouseleave", "focusout"]) card.addEventListener(event, focus(""));
    return card;
  };
  function draw() {
    const { topology } = state;
    if (!topology) return fill(graph, emptyMessage("Loading…"));
    fill(top, heading(topology));
    edges = edgesOf(topology, schedules);
    const watched = (card) => watch(card, card.dataset.id);
    const cards = (title, all, make) => all.length > 0 && column(title, all.map((one) => watched(make(one))));
    const ofConnection = (connection) => connectionCard(connection, schedules.filter((one) => one.connection === connection.name));
    const scheduled = [...new Set(schedules.map((one) => one.agentName).filter(Boolean))];
    const ofAgent = (name) => scheduleCard(name, schedules.filter((one) => one.agentName === name));
    fill(
      graph,
      lines,
      h("div.sources", {}, cards("Connections", topology.connections ?? [], ofConnection), cards("Schedules", scheduled, ofAgent), cards("Models", topology.models, modelCard)),
      cards("Agents", topology.agents, agentCard),
      cards("Tools", topology.tools, toolCard) || h("section.column"),
    );
    drawTable(table, edges);
    requestAnimationFrame(redraw);
  }
  async function readSchedules() {
    reading = 0;
    const before = JSON.stringify(schedules);
    schedules = (await get("/api/schedules").catch(() => ({ schedules }))).schedules;
    if (!isClosed && JSON.stringify(schedules) !== before) draw();
  }
  const soon = () => (reading ||= setTimeout(readSchedules, REREAD_DELAY));

  const sized = new ResizeObserver(redraw);
  sized.observe(graph);
  const progress = () => {
    counts(graph);
    redraw();
  };
  const stops = [
    on("events", (events) => {
      recordCalls(events);
      if (events.some((event) => event.type.startsWith("turn."))) soon();
    }),
    on("topology", soon),
    onFrame(["topology", "reloads"], draw),
    onFrame(["events", "approvals"], progress),
  ];
  draw();
  readSchedules();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    clearTimeout(reading);
    sized.disconnect();
    stops.forEach((stop) => stop());
  };
}

function heading(topology) {
  const last = state.reloads.at(-1);
  const failed = last && !last.ok;
  return [
    viewHeading(
      state.swarm?.name ?? "Swarm",
      badge("plain", `generation ${topology.generation}`),
      h("span.muted", {}, `${counted(topology.agents.length, "agent")}, ${counted(topology.tools.length, "tool")}, ${counted(topology.models.length, "model")}`),
    ),
    failed &&
      h(
        "section.panel.bad",
        { "aria-label": "The last reload failed" },
        h("h2", {}, `The last reload failed: generation ${topology.generation} stays active`),
        h("ul.diagnostics", {}, last.diagnostics.map(diagnostic)),
        h("p", {}, h("a", { href: viewHref("reloads") }, "All reloads")),
      ),
    topology.warnings.length > 0 &&
      h("details.panel", {}, h("summary", {}, counted(topology.warnings.length, "warning")), h("ul.diagnostics", {}, topology.warnings.map(diagnostic))),
  ];
}

function column(title, cards) {
  return h("section.column", { "aria-label": title }, h("h2", {}, title), h("ul.cards", {}, cards.map((card) => h("li", {}, card))));
}

/** Returns the attributes of a card that the keyboard reaches, so that its edges stand out. */
const reachable = (id, name) => ({ data: { id }, tabindex: 0, role: "group", "aria-label": name });

function connectionCard({ name, connector }, schedules) {
  return h("div.card", reachable(`connection/${name}`, `Connection ${name}`), h("h3", {}, name, badge("plain", connector)), schedules.map(scheduleDetails));
}

function scheduleCard(agentName, schedules) {
  const conversation = ({ instanceKey }) => h("a", { href: viewHref("conversations", agentName, instanceKey) }, `${agentName}:${instanceKey}`);
  return h("div.card", { data: { id: `schedule/${agentName}` } }, schedules.map((one) => [h("h3", {}, conversation(one)), scheduleDetails(one)]));
}

function scheduleDetails({ schedule, timezone, nextRun }) {
  const scheduleText = schedule ? h("code", {}, schedule) : "from the environment";
  return [h("p.muted", {}, scheduleText, timezone && ` · ${timezone}`), nextRun && h("p", {}, "Next run: ", h("time", { datetime: nextRun }, timeOrDate(nextRun)))];
}

function modelCard(model) {
  return h("div.card", reachable(`model/${model.name}`, `Model ${model.name}`), h("h3", {}, model.name), h("p.muted", {}, `${model.provider} · ${model.model}`));
}

function agentCard(agent) {
  const isEntry = state.swarm?.entryAgent === agent.name;
  return h(
    "div.card.agent",
    { data: { id: `agent/${agent.name}` } },
    h("h3", {}, h("a", { href: viewHref("conversations", agent.name) }, agent.name), isEntry && badge("plain", "entry")),
    agent.description && h("p", {}, agent.description),
    h("p.muted", {}, `${agent.models.join(" → ")} · ${counted(agent.exports.length, "function")}`),
    prompt(agent),
    permissions(agent),
    agent.extensions.length > 0 && h("p.muted", {}, `Extensions: ${agent.extensions.join(", ")}`),
    h("p.counts", { data: { agent: agent.name } }, agentCounts(agent.name)),
  );
}

/** Names of agents with an open prompt. Prompts stay open when the cards are drawn again. */
const openPrompts = new Set();

/** Shows the system prompt of the project and its files. */
function prompt({ name, prompt }) {
  if (!prompt) return h("p.muted", {}, "No system prompt");
  const { text, file, line, instructions = [] } = prompt;
  const location = `${file}${line ? `:${line}` : ""}`;
  const source = file && (state.features.edit ? h("a", { href: viewHref("files", file) }, location) : h("code", {}, location));
  const sources = [source, ...instructions.map((name) => h("code", {}, name))].filter(Boolean);
  const toggle = (event) => openPrompts[event.currentTarget.open ? "add" : "delete"](name);
  return h(
    "details",
    { open: openPrompts.has(name), on: { toggle } },
    h("summary", {}, "System prompt"),
    sources.length > 0 && h("p.muted", {}, "From ", sources.map((one, number) => [number > 0 && ", ", one])),
    h("pre.data", { tabindex: 0, role: "group", "aria-label": `System prompt of ${name}` }, text),
  );
}

/** Effects of a permission rule, in the plural for calls and in the singular for a tool. */
const ACTIONS = { allow: "allowed", ask: "need approval", deny: "denied" };
const ACTIONS_OF_TOOL = { ...ACTIONS, ask: "needs approval" };

/** Shows the permissions of an agent: the default, then its own rules. */
function permissions({ permissions: stated, permissionRules }) {
  const own = permissionRules.filter((rule) => !rule.implied);
  const defaultText = stated
    ? `Calls without a matching rule: ${ACTIONS[stated]}.`
    : "Reading and writing: allowed. Programs and network: need approval.";
  return [
    h("p.muted.permissions", {}, defaultText),
    own.length > 0 && h("details", {}, h("summary", {}, counted(own.length, "permission rule")), h("p.muted", {}, "The last matching rule decides."), h("ol.rules", {}, own.map((rule) => h("li", {}, ruleText(rule))))),
  ];
}

function ruleText({ tool, permission, args, action }) {
  const patterns = Object.entries(args ?? {}).map(([name, pattern]) => h("code", {}, `${name}: ${pattern}`));
  const conditions = [permission && `calls that ${{ read: "read", write: "write", execute: "run programs", network: "use the network" }[permission]}`, tool && h("code", {}, tool), ...patterns].filter(Boolean);
  return [conditions.map((part, number) => [number > 0 && " with ", part]), `: ${(permission ? ACTIONS : ACTIONS_OF_TOOL)[action]}`];
}

function toolCard(tool) {
  const exports = tool.exports.map((one) => h("li", {}, h("code", {}, one.name), h("p.muted", {}, one.description)));
  return h(
    "div.card",
    { data: { id: `tool/${tool.name}` } },
    h("h3", {}, tool.name, badge("plain", tool.entry)),
    h("details", {}, h("summary", {}, counted(tool.exports.length, "function")), h("ul.exports", {}, exports)),
  );
}

/** Shows the running turns of an agent, and its totals in the loaded events. */
function agentCounts(name) {
  const { turns, failed, duration: took } = totals.get(name) ?? { turns: 0, failed: 0, duration: 0 };
  const turnsOf = [...state.running.keys()].filter((instance) => instance.startsWith(`${name}:`));
  const waiting = turnsOf.filter((instance) => openApproval(instance)).length;
  const running = turnsOf.length - waiting;
  return [
    waiting > 0 && badge("ask", `${waiting} waiting`),
    running > 0 ? badge("busy", `${running} running`) : !waiting && badge("plain", "idle"),
    h("span.muted", {}, turns ? `${counted(turns, "turn")}, ${duration(took / turns)} each` : "no turns yet"),
    failed > 0 && badge("bad", `${failed} failed`),
  ];
}

function counts(graph) {
  for (const container of graph.querySelectorAll(".counts")) fill(container, agentCounts(container.dataset.agent));
}
