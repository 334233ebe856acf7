// Traces: everything that one input has caused, through all agents, over time.

import { fill, h } from "../dom.js";
import { counted, duration, when } from "../format.js";
import { modelCall } from "../model-call.js";
import { address, cut, data, head, mark, nothing } from "../parts.js";
import { chains, flat, spans } from "../spans.js";
import { onFrame } from "../state.js";

/** So many chains are listed. */
const LISTED = 300;
/** So many marks has the scale. */
const MARKS = 4;

const KINDS = { turn: "turn", model: "model", tool: "tool", wait: "wait" };

/** @type {import("../app.js").View} */
export function traces(place, [chosen, chosenCall]) {
  const list = h("ul.list", { "aria-label": "Traces" });
  const detail = h("section.detail", { "aria-label": "The trace" });
  place.classList.toggle("has-chosen", chosen !== undefined);
  place.append(h("aside.side", { "aria-label": "All traces" }, head("Traces"), list), detail);
  const open = new Set();
  /** The views of model calls by span. They stay, so that their open parts do. */
  const calls = new Map();
  let wanted = chosenCall;
  /** Opens the call that the address names, once. */
  function openWanted() {
    const span = wanted && flat(spans(chosen)).find((one) => one.kind === "model" && one.details.at(-1).spanId === wanted);
    if (!span) return;
    open.add(span.key);
    wanted = "";
  }
  let timer = 0;
  function draw() {
    timer = 0;
    const found = chains();
    const current = chosen ?? found[0]?.id;
    fill(list, found.slice(0, LISTED).map((chain) => item(chain, chain.id === current)));
    if (!found.length) return fill(detail, nothing("No traces yet", "Send an input to see its trace."));
    openWanted();
    fill(detail, waterfall(current, found.find((chain) => chain.id === current), { open, calls, redraw: draw }));
  }
  // All events are read for a drawing, so there are at most four in a second, and none in a hidden page.
  const stop = onFrame(["events"], () => (timer ||= setTimeout(draw, 250)));
  draw();
  return () => {
    clearTimeout(timer);
    stop();
  };
}

function item(chain, isChosen) {
  const status = chain.isRunning ? mark("busy", "running") : chain.failed ? mark("bad", "failed") : mark("ok", "ok");
  return h(
    "li",
    {},
    h(
      "a.item",
      { href: address("traces", chain.id), "aria-current": isChosen ? "true" : undefined },
      h("span.item-title", {}, h("strong", {}, chain.first.agentName), ` ${chain.first.instanceKey}`),
      h("span.row", {}, status, h("span.muted", {}, `${when(chain.begin)} · ${duration(chain.end - chain.begin)} · ${counted(chain.agents.size, "agent")}`)),
    ),
  );
}

function waterfall(id, chain, view) {
  if (!chain) return nothing("Unknown trace", "The trace is older than the loaded events.");
  const all = flat(spans(id));
  const begin = Math.min(chain.begin, ...all.map((span) => span.begin));
  const end = Math.max(chain.isRunning ? Date.now() : chain.end, begin + 1, ...all.map((span) => span.end ?? 0));
  const scale = Array.from({ length: MARKS + 1 }, (_, nth) => h("span", {}, duration(((end - begin) * nth) / MARKS)));
  return [
    h(
      "div.head",
      {},
      h("h2", {}, h("a.back", { href: address("traces") }, "‹ all"), "Trace ", h("code", {}, id.slice(0, 12))),
      h("span.muted", {}, `${duration(end - begin)} · ${counted(chain.calls, "tool call")} · ${[...chain.agents].join(", ")}`),
    ),
    h("div.legend", {}, Object.entries(KINDS).map(([kind, words]) => h("span", {}, h(`i.bar-key.${kind}`), words))),
    h("div.scale", { "aria-hidden": "true" }, h("span.scale-label"), h("div.scale-marks", {}, scale)),
    h("ol.waterfall", {}, all.map((span) => row(span, begin, end, view))),
  ];
}

function row(span, begin, end, { open, calls, redraw }) {
  const bar = h(`i.bar-fill.${span.kind}${span.failed ? ".failed" : ""}${span.end === null ? ".running" : ""}`);
  const whole = end - begin;
  bar.style.left = `${(100 * (span.begin - begin)) / whole}%`;
  bar.style.width = `max(3px, ${(100 * ((span.end ?? end) - span.begin)) / whole}%)`;
  const name = h("span.span-name", {}, h(`i.bar-key.${span.kind}`, { "aria-hidden": "true" }), span.name, span.failed && mark("bad", "failed"), cut(span.finishReason));
  name.style.paddingInlineStart = `${span.depth * 14}px`;
  const took = span.end === null ? "running" : duration(span.end - span.begin);
  const isOpen = open.has(span.key);
  const line = h("button.span-row", { type: "button", "aria-expanded": String(isOpen) }, name, h("span.track", {}, bar), h("span.took", {}, took));
  line.addEventListener("click", () => {
    if (!open.delete(span.key)) open.add(span.key);
    redraw();
    document.querySelector(`[data-span="${CSS.escape(span.key)}"] button`)?.focus();
  });
  return h("li", { data: { span: span.key } }, line, isOpen && h("div.span-details", {}, details(span, calls)));
}

/** Returns what a span contains: the request and the response of a model call, and the events. */
function details(span, calls) {
  const events = span.details.map((event) => data(event, event.type));
  if (span.kind !== "model") return events;
  if (!calls.has(span.key)) calls.set(span.key, modelCall(span.details.at(-1).spanId, span.details.slice(0, -1)));
  return [calls.get(span.key), h("details", {}, h("summary", {}, counted(events.length, "event")), events)];
}
