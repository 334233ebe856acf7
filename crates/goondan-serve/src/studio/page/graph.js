// The graph of the swarm: its edges as lines between cards, and as a table.

import { fill, h, svg } from "./dom.js";
import { nameOfEdge } from "./edges.js";

/** @typedef {import("./edges.js").Edge} Edge */

/** Distance between the cards and the lines between agents, in pixels. */
const BULGE = 56;

/**
 * Draws the edges. Edges of the focused card are highlighted.
 * @param {HTMLElement} graph
 * @param {Element} lines
 * @param {Edge[]} edges
 * @param {Set<string>} active
 * @param {string} focused
 */
export function drawLines(graph, lines, edges, active, focused) {
  const box = graph.getBoundingClientRect();
  const at = new Map([...graph.querySelectorAll("[data-id]")].map((card) => [/** @type {HTMLElement} */ (card).dataset.id, card.getBoundingClientRect()]));
  lines.setAttribute("width", String(graph.scrollWidth));
  lines.setAttribute("height", String(graph.scrollHeight));
  const drawn = edges.map((edge) => {
    const [from, to] = [at.get(edge.from), at.get(edge.to)];
    if (!from || !to) return [];
    const isFocused = edge.from === focused || edge.to === focused;
    const tone = [active.has(nameOfEdge(edge)) && "active", isFocused ? "lit" : focused && "dim"].filter(Boolean).join(" ");
    const isBetweenAgents = edge.from.startsWith("agent/") && edge.to.startsWith("agent/");
    return isBetweenAgents ? arrow(box, from, to, tone) : [svg("path", { d: curve(box, from, to), class: tone })];
  });
  lines.replaceChildren(...drawn.flat());
}

/** Returns a line from the right side of a card to the left side of another. */
function curve(box, left, right) {
  const begin = [left.right - box.left, left.top - box.top + Math.min(24, left.height / 2)];
  const end = [right.left - box.left, right.top - box.top + Math.min(24, right.height / 2)];
  const middle = (begin[0] + end[0]) / 2;
  return `M${begin} C${middle},${begin[1]} ${middle},${end[1]} ${end}`;
}

/** Returns a line with an arrowhead between the right sides of two cards. */
function arrow(box, from, to, tone) {
  const begin = [from.right - box.left, from.top - box.top + Math.min(52, from.height / 2)];
  const end = [to.right - box.left, to.top - box.top + Math.min(72, to.height / 2)];
  const line = `M${begin} C${begin[0] + BULGE},${begin[1]} ${end[0] + BULGE},${end[1]} ${end[0] + 6},${end[1]}`;
  const arrowhead = `M${end} l8,-4.5 v9 z`;
  return [svg("path", { d: line, class: `call ${tone}` }), svg("path", { d: arrowhead, class: `tip ${tone}` })];
}

const endLabel = (end) => {
  const [kind, ...name] = end.split("/");
  return `${kind} ${name.join("/")}`;
};

/**
 * Shows the edges as a table.
 * @param {Element} container
 * @param {Edge[]} edges
 */
export function drawTable(container, edges) {
  const cell = (end) => h("td", {}, endLabel(end));
  const rows = edges.map((edge) => h("tr", {}, cell(edge.from), h("td", {}, edge.relation), cell(edge.to), h("td", { data: { edge: nameOfEdge(edge) } })));
  const titles = ["From", "Relation", "To", "Now"].map((title) => h("th", { scope: "col" }, title));
  fill(container, h("div.table", { tabindex: 0, role: "region", "aria-label": "Edges of the graph" }, h("table", {}, h("thead", {}, h("tr", {}, titles)), h("tbody", {}, rows))));
}

/**
 * Marks the active edges in the table.
 * @param {Element} container
 * @param {Set<string>} active
 */
export function markActive(container, active) {
  for (const cell of container.querySelectorAll("[data-edge]")) {
    const stateText = active.has(/** @type {HTMLElement} */ (cell).dataset.edge ?? "") ? "active" : "";
    if (cell.textContent !== stateText) cell.textContent = stateText;
  }
}
