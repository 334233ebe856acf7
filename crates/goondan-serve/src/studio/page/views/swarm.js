// The swarm: its agents, the models they ask and the tools they are offered, and what each does now.

import { fill, h, svg } from "../dom.js";
import { totals } from "../facts.js";
import { counted, duration } from "../format.js";
import { address, diagnostic, head, mark, nothing } from "../parts.js";
import { onFrame, state } from "../state.js";

/** @type {import("../app.js").View} */
export function swarm(place) {
  const top = h("div.head-place");
  const graph = h("div.graph");
  const lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  place.append(top, h("div.graph-scroll", {}, graph));
  let focused = "";

  function draw() {
    const { topology } = state;
    if (!topology) return fill(graph, nothing("Loading…"));
    fill(top, heading(topology));
    const focus = (id) => () => {
      focused = id;
      wires(graph, lines, topology, focused);
    };
    const watch = (card, id) => {
      for (const event of ["mouseenter", "focusin"]) card.addEventListener(event, focus(id));
      for (const event of ["mouseleave", "focusout"]) card.addEventListener(event, focus(""));
      return card;
    };
    fill(
      graph,
      lines,
      column("Models", topology.models.map((model) => watch(modelCard(model), `model/${model.name}`))),
      column("Agents", topology.agents.map((agent) => watch(agentCard(agent), `agent/${agent.name}`))),
      column("Tools", topology.tools.map((tool) => watch(toolCard(tool), `tool/${tool.name}`))),
    );
    requestAnimationFrame(() => wires(graph, lines, topology, focused));
  }

  const redraw = () => wires(graph, lines, state.topology, focused);
  const sized = new ResizeObserver(redraw);
  sized.observe(graph);
  const stops = [onFrame(["topology", "reloads"], draw), onFrame(["events"], () => counts(graph))];
  draw();
  return () => {
    sized.disconnect();
    stops.forEach((stop) => stop());
  };
}

function heading(topology) {
  const last = state.reloads.at(-1);
  const failed = last && !last.ok;
  return [
    head(
      state.swarm?.name ?? "Swarm",
      mark("plain", `generation ${topology.generation}`),
      h("span.muted", {}, `${counted(topology.agents.length, "agent")}, ${counted(topology.tools.length, "tool")}, ${counted(topology.models.length, "model")}`),
    ),
    failed &&
      h(
        "section.panel.bad",
        { "aria-label": "The last reload failed" },
        h("h2", {}, `The last reload failed: generation ${topology.generation} stays active`),
        h("ul.diagnostics", {}, last.diagnostics.map(diagnostic)),
        h("p", {}, h("a", { href: address("reloads") }, "All reloads")),
      ),
    topology.warnings.length > 0 &&
      h("details.panel", {}, h("summary", {}, counted(topology.warnings.length, "warning")), h("ul.diagnostics", {}, topology.warnings.map(diagnostic))),
  ];
}

function column(title, cards) {
  const none = cards.length === 0 && h("p.muted", {}, "None");
  return h("section.column", { "aria-label": title }, h("h2", {}, title), none, h("ul.cards", {}, cards.map((card) => h("li", {}, card))));
}

function modelCard(model) {
  return h("div.card", { data: { id: `model/${model.name}` } }, h("h3", {}, model.name), h("p.muted", {}, `${model.provider} · ${model.model}`));
}

function agentCard(agent) {
  const isEntry = state.swarm?.entryAgent === agent.name;
  return h(
    "div.card.agent",
    { data: { id: `agent/${agent.name}` } },
    h("h3", {}, h("a", { href: address("conversations", agent.name) }, agent.name), isEntry && mark("plain", "entry")),
    agent.description && h("p", {}, agent.description),
    h("p.muted", {}, `${agent.models.join(" → ")} · ${counted(agent.exports.length, "function")}`),
    permissions(agent),
    agent.extensions.length > 0 && h("p.muted", {}, `Extensions: ${agent.extensions.join(", ")}`),
    h("p.counts", { data: { agent: agent.name } }, tally(agent.name)),
  );
}

const ACTIONS = { allow: "allowed", ask: "need approval", deny: "denied" };

/** The permissions of an agent as they apply: the default, then its own rules. */
function permissions({ permissions: stated, permissionRules }) {
  const own = permissionRules.filter((rule) => !rule.implied);
  const words = stated
    ? `Calls without a matching rule: ${ACTIONS[stated]}.`
    : "Reading and writing: allowed. Programs and network: need approval.";
  return [
    h("p.muted.permissions", {}, words),
    own.length > 0 && h("details", {}, h("summary", {}, counted(own.length, "permission rule")), h("p.muted", {}, "The last matching rule decides."), h("ol.rules", {}, own.map((rule) => h("li", {}, ruleWords(rule))))),
  ];
}

function ruleWords({ tool, permission, args, action }) {
  const patterns = Object.entries(args ?? {}).map(([name, pattern]) => h("code", {}, `${name}: ${pattern}`));
  const mine = [permission && `calls that ${{ read: "read", write: "write", execute: "run programs", network: "use the network" }[permission]}`, tool && h("code", {}, tool), ...patterns].filter(Boolean);
  return [mine.map((part, number) => [number > 0 && " with ", part]), `: ${ACTIONS[action]}`];
}

function toolCard(tool) {
  const exports = tool.exports.map((one) => h("li", {}, h("code", {}, one.name), h("p.muted", {}, one.description)));
  return h(
    "div.card",
    { data: { id: `tool/${tool.name}` } },
    h("h3", {}, tool.name, mark("plain", tool.entry)),
    h("details", {}, h("summary", {}, counted(tool.exports.length, "function")), h("ul.exports", {}, exports)),
  );
}

/** The running turns of an agent, and its totals among the loaded events. */
function tally(name) {
  const { turns, failed, duration: took } = totals.get(name) ?? { turns: 0, failed: 0, duration: 0 };
  const running = [...state.running.keys()].filter((instance) => instance.startsWith(`${name}:`)).length;
  return [
    running > 0 ? mark("busy", `${running} running`) : mark("plain", "idle"),
    h("span.muted", {}, turns ? `${counted(turns, "turn")}, ${duration(took / turns)} each` : "no turns yet"),
    failed > 0 && mark("bad", `${failed} failed`),
  ];
}

function counts(graph) {
  for (const place of graph.querySelectorAll(".counts")) fill(place, tally(place.dataset.agent));
}

/** Draws who uses what; what is looked at stands out. */
function wires(graph, lines, topology, focused) {
  if (!topology) return;
  const box = graph.getBoundingClientRect();
  const at = new Map([...graph.querySelectorAll("[data-id]")].map((card) => [card.dataset.id, card.getBoundingClientRect()]));
  const wanted = [];
  for (const agent of topology.agents) {
    for (const model of agent.models) wanted.push([`model/${model}`, `agent/${agent.name}`]);
    const tools = new Set(topology.tools.filter((tool) => tool.exports.some((one) => agent.exports.includes(one.name))).map((tool) => tool.name));
    for (const tool of tools) wanted.push([`agent/${agent.name}`, `tool/${tool}`]);
  }
  lines.setAttribute("width", String(graph.scrollWidth));
  lines.setAttribute("height", String(graph.scrollHeight));
  const paths = wanted.map(([from, to]) => {
    const [left, right] = [at.get(from), at.get(to)];
    if (!left || !right) return null;
    const begin = [left.right - box.left, left.top - box.top + Math.min(24, left.height / 2)];
    const end = [right.left - box.left, right.top - box.top + Math.min(24, right.height / 2)];
    const middle = (begin[0] + end[0]) / 2;
    const isLit = focused && (from === focused || to === focused);
    return svg("path", { d: `M${begin} C${middle},${begin[1]} ${middle},${end[1]} ${end}`, class: isLit ? "lit" : focused ? "dim" : "" });
  });
  lines.replaceChildren(...paths.filter(Boolean));
}
