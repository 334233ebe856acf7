// Reloads: what each generation has changed, and why a project was not taken.

import { post } from "../api.js";
import { button, fill, h } from "../dom.js";
import { reloads } from "../feed.js";
import { counted, duration, when } from "../format.js";
import { attempt, diagnostic, head, mark, nothing, notice } from "../parts.js";
import { on, state } from "../state.js";

const EFFECTS = { added: "takes inputs from now on", draining: "takes nothing more; its running turns may finish", changed: "differs" };

/** @type {import("../app.js").View} */
export function reloadsView(place) {
  const list = h("ol.timeline");
  const now = button("Reload now", () => attempt(reload), { class: "primary" });
  place.append(head("Reloads", now), h("p.muted", {}, "What has changed since this process began. A turn that runs goes on with what it began with."), list);
  const draw = () => fill(list, state.reloads.length ? [...state.reloads].reverse().map(entry) : h("li", {}, nothing("The swarm was not reloaded yet", "It reloads when a file of the project changes.")), first());
  const stop = on("reloads", draw);
  draw();
  return stop;
}

async function reload() {
  const told = await post("/api/reload");
  await reloads();
  if (told.ok) notice("ok", `Generation ${told.generation} serves.`);
  else notice("bad", `The project was not taken: ${counted(told.diagnostics.length, "problem")}. Generation ${told.generation} still serves.`);
}

function first() {
  return h("li.entry", {}, h("div.row", {}, h("strong", {}, "Generation 1"), h("span.muted", {}, "the process began with it")));
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
      h("strong", {}, record.ok ? `Generation ${record.generation}` : "Not taken"),
      fate(record),
      h("span.muted", {}, `${when(record.at)} · ${duration(record.durationMs)}`),
    ),
    h("div.changes", {}, change("added", "+", plan.added), change("changed", "~", plan.changed), change("removed", "−", plan.removed)),
    plan.agents.length > 0 && h("ul.effects", {}, plan.agents.map(effect)),
    plan.limits && h("p", {}, "The limits of the swarm differ."),
    record.ok && isEmpty && h("p.muted", {}, "Nothing was different."),
    record.diagnostics.length > 0 && h("ul.diagnostics", {}, record.diagnostics.map(diagnostic)),
  );
}

/** What has become of it. */
function fate(record) {
  if (!record.ok) return mark("bad", `generation ${record.generation} went on`);
  const serves = record.generation === state.swarm?.generation;
  return serves ? mark("ok", "serves") : mark("plain", "has served");
}

function change(kind, sign, names) {
  return names.map((name) => h(`span.change.${kind}`, {}, h("span.visually-hidden", {}, `${kind} `), h("span", { "aria-hidden": "true" }, sign), ` ${name}`));
}

function effect(agent) {
  const parts = (names, when) => (names?.length ? `${names.join(", ")} with the next ${when}` : "");
  const how = [parts(agent.nextStep, "step"), parts(agent.nextTurn, "turn")].filter(Boolean).join("; ");
  return h("li", {}, h("code", {}, agent.name), ` ${how || EFFECTS[agent.effect] || agent.effect}`);
}
