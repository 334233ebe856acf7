// Traces: everything that one input has caused, through all agents, over time.

import { fill, h } from "../dom.js";
import { lengthOf } from "../facts.js";
import { counted, duration, money, waitWords, when } from "../format.js";
import { inputWords, readInputWords } from "../input-words.js";
import { keep } from "../keyed.js";
import { modelCall } from "../model-call.js";
import { address, cut, data, mark, nothing, withHeading } from "../parts.js";
import { chains, flat, spans, waitedIn } from "../spans.js";
import { nameOf, onFrame, state } from "../state.js";

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
  place.append(...withHeading("Traces", h("aside.side", { "aria-label": "All traces" }, list)), detail);
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
  // Only the inputs of traces in sight are read.
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) readInputWords(target.first, target.first.turnId).then((isNew) => isNew && soon());
    }
  });
  function draw() {
    timer = 0;
    const found = chains();
    const current = chosen ?? found[0]?.id;
    keep(list, found.slice(0, LISTED).map((chain) => item(chain, chain.id === current, seen)));
    if (!found.length) return fill(detail, state.isLoaded ? nothing("No traces yet", "Send an input to see its trace.") : nothing("Loading events…"));
    openWanted();
    fill(detail, waterfall(current, found.find((chain) => chain.id === current), { open, calls, redraw: draw }));
  }
  // All events are read for a drawing, so there are at most four in a second, and none in a hidden page.
  const soon = () => (timer ||= setTimeout(draw, 250));
  const stop = onFrame(["events", "questions", "connection"], soon);
  draw();
  return () => {
    clearTimeout(timer);
    seen.disconnect();
    stop();
  };
}

/** Returns the state of a trace as a badge. */
function stateOf(chain) {
  if (chain.isWaiting) return ["ask", "waiting"];
  if (chain.isRunning) return ["busy", "running"];
  if (chain.isCancelled) return ["plain", "cancelled"];
  return chain.failed ? ["bad", "failed"] : ["ok", "ok"];
}

function item(chain, isChosen, seen) {
  const { first } = chain;
  const words = inputWords(first.turnId);
  const [kind, now] = stateOf(chain);
  const waits = lengthOf([...chain.waits.values()].filter((wait) => wait.end !== null));
  const incomplete = chain.isRunning ? undefined : cut(chain.modelFinishReason);
  const told = [words && nameOf(first), when(chain.begin), !chain.isRunning && duration(chain.end - chain.begin - waits), !chain.isRunning && waitWords(waits)].filter(Boolean).join(" · ");
  const make = () => {
    const link = h(
      "a.item",
      { href: address("traces", chain.id), "aria-current": isChosen ? "true" : undefined },
      h("strong.item-title", { title: words ?? nameOf(first) }, words ?? nameOf(first)),
      h("span.row", {}, incomplete && now === "ok" ? incomplete : [mark(kind, now), incomplete], h("span.muted", {}, told)),
    );
    const row = Object.assign(h("li", {}, link), { first });
    if (words === undefined && first.turnId) seen.observe(row);
    return row;
  };
  return { key: chain.id, sign: JSON.stringify([words, now, told, isChosen, chain.modelFinishReason]), make };
}

/** Returns the totals of a trace in words: its time with the waits in it, and tokens, cost and calls of all agents. */
function totals(all, begin, end, chain) {
  const waits = lengthOf(all.filter((span) => span.kind === "wait").map((span) => ({ begin: span.begin, end: span.end ?? end })));
  const models = all.filter((span) => span.kind === "model").map((span) => span.details.at(-1));
  const tokens = models.reduce((sum, event) => sum + (event.tokenUsage?.totalTokens ?? 0), 0);
  const costs = models.map((event) => event.cost).filter(Boolean);
  const cost = costs.length > 0 && money(costs.reduce((sum, one) => sum + one.amount, 0), costs[0].currency);
  return [duration(end - begin - waits), waitWords(waits, " for approval"), tokens && counted(tokens, "token"), cost, counted(models.length, "model call"), counted(chain.calls, "tool call"), [...chain.agents].join(", ")].filter(Boolean).join(" · ");
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
      h("h2", {}, h("a.back", { href: address("traces") }, "‹ all"), inputWords(chain.first.turnId) ?? "Trace", " ", h("code", {}, id.slice(0, 12))),
      h("span.muted", {}, totals(all, begin, end, chain)),
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
  const name = h("span.span-name", {}, h(`i.bar-key.${span.kind}`, { "aria-hidden": "true" }), span.name, span.failed && mark("bad", "failed"), span.isDenied && mark("plain", "denied"), span.isCancelled && mark("plain", "cancelled"), cut(span.finishReason), h("span.muted", {}, moreOf(span)));
  name.style.paddingInlineStart = `${span.depth * 14}px`;
  const took = span.end === null ? (isWaiting(span) ? "waiting" : "running") : duration(span.took ?? span.end - span.begin);
  const waits = waitWords(waitedIn(span));
  const isOpen = open.has(span.key);
  const line = h("button.span-row", { type: "button", "aria-expanded": String(isOpen) }, name, h("span.track", {}, bar), h("span.took", {}, took, waits && h("span.took-wait", {}, waits)));
  line.addEventListener("click", () => {
    if (!open.delete(span.key)) open.add(span.key);
    redraw();
    document.querySelector(`[data-span="${CSS.escape(span.key)}"] button`)?.focus();
  });
  return h("li", { data: { span: span.key } }, line, isOpen && h("div.span-details", {}, details(span, calls)));
}

/** Returns more about a row: the agent that is called, or the tokens of a model call. */
function moreOf({ kind, details }) {
  const { arguments: given, tokenUsage } = { ...details[0], ...details.at(-1) };
  if (kind === "tool" && typeof given?.target === "string") return ` → ${given.target}`;
  return kind === "model" && tokenUsage?.totalTokens ? ` · ${counted(tokenUsage.totalTokens, "token")}` : "";
}

/** Returns true for a wait that has not ended, and for the spans around it. */
function isWaiting(span) {
  return span.end === null && (span.kind === "wait" || span.children.some(isWaiting));
}

/** Returns what a span contains: the request and the response of a model call, arguments and result of a tool call, and the events. */
function details(span, calls) {
  const events = h("details", {}, h("summary", {}, counted(span.details.length, "event")), span.details.map((event) => data(event, event.type)));
  if (span.kind === "tool") return [toolCall(span), events];
  if (span.kind !== "model") return events;
  const { traceId, spanId, startedAt } = span.details.at(-1);
  if (!calls.has(span.key)) calls.set(span.key, modelCall({ traceId, spanId, startedAt, retries: span.details.slice(0, -1) }));
  return [calls.get(span.key), events];
}

function toolCall({ details: [called, completed] }) {
  const part = (title, value) => value !== undefined && [h("h3", {}, title), data(value, title)];
  return h("div.tool-call", {}, part("Arguments", called.arguments), part("Result", completed?.output), part("Error", completed?.error));
}
