// Reloads: the changes of each generation, and the errors of failed reloads.

import { post } from "../api.js";
import { button, fill, h } from "../dom.js";
import { loadReloads } from "../feed.js";
import { counted, duration, timeOrDate } from "../format.js";
import { withErrorNotice, diagnostic, viewHeading, badge, emptyMessage, notice } from "../parts.js";
import { on, state } from "../state.js";

const EFFECTS = { added: "now accepts inputs", draining: "accepts no more inputs; its running turns may finish", changed: "changed" };

/** @type {import("../app.js").View} */
export function reloadsView(container) {
  const none = h("div");
  const list = h("ol.timeline");
  const now = button("Reload now", () => withErrorNotice(reload), { class: "primary" });
  container.append(viewHeading("Reloads", now), h("p.muted", {}, "Changes since this process started. A running step keeps the version it started with."), none, list);
  const draw = () => {
    fill(none, state.reloads.length ? null : emptyMessage("No reloads yet", "The swarm reloads when a project file changes."));
    fill(list, [...state.reloads].reverse().map(entry), first());
  };
  const stop = on("reloads", draw);
  draw();
  return stop;
}

async function reload() {
  const result = await post("/api/reload");
  await loadReloads();
  if (result.ok) notice("ok", `Running generation ${result.generation}.`);
  else notice("bad", `The reload failed: ${counted(result.diagnostics.length, "problem")}. Generation ${result.generation} stays active.`);
}

function first() {
  return h("li.entry", {}, h("div.row", {}, h("strong", {}, "Generation 1"), h("span.muted", {}, "loaded when the process started")));
}

function entry(record) {
  const { plan } = record;
  const isEmpty = !plan.added.length && !plan.changed.length && !plan.removed.length && !plan.agents.length && !plan.limits;
  return h(
    "li.entry",
    { class: record.ok ? "" : "failed" },
    h(
      "div.row",
      {},
      h("strong", {}, record.ok ? `Generation ${record.generation}` : "Failed"),
      generationBadge(record),
      h("span.muted", {}, `${timeOrDate(record.at)} · ${duration(record.durationMs)}`),
    ),
    h("div.changes", {}, change("added", "+", plan.added), change("changed", "~", plan.changed), change("removed", "−", plan.removed)),
    plan.agents.length > 0 && h("ul.effects", {}, plan.agents.map(effect)),
    plan.limits && h("p", {}, "The swarm limits changed."),
    record.ok && isEmpty && h("p.muted", {}, "No changes."),
    record.diagnostics.length > 0 && h("ul.diagnostics", {}, record.diagnostics.map(diagnostic)),
  );
}

/** Creates a badge with the state of the generation. */
function generationBadge(record) {
  if (!record.ok) return badge("bad", `generation ${record.generation} stayed active`);
  const isActive = record.generation === state.swarm?.generation;
  return isActive ? badge("ok", "active") : badge("plain", "replaced");
}

function change(kind, symbol, names) {
  return names.map((name) => h(`span.change.${kind}`, {}, h("span.visually-hidden", {}, `${kind} `), h("span", { "aria-hidden": "true" }, symbol), ` ${name}`));
}

function effect(agent) {
  const parts = (names, when) => (names?.length ? `uses the new ${names.join(", ")} from the next ${when}` : "");
  const how = [parts(agent.nextStep, "step"), parts(agent.nextTurn, "turn")].filter(Boolean).join(", and ");
  return h("li", {}, h("code", {}, agent.name), ` ${how || EFFECTS[agent.effect] || agent.effect}`);
}
