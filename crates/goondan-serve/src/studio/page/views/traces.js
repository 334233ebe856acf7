// Traces: the turns and calls that an input caused in all agents, over time.

import { fill, h } from "../dom.js";
import { lengthOf } from "../facts.js";
import { counted, duration, money, waitText, timeOrDate } from "../format.js";
import { inputExcerpt, readInputExcerpt } from "../input-words.js";
import { updateChildren } from "../keyed.js";
import { modelCall } from "../model-call.js";
import { viewHref, incompleteBadge, data, badge, emptyMessage, withHeading } from "../parts.js";
import { chains, flat, spans, waitedIn } from "../spans.js";
import { nameOf, onFrame, state } from "../state.js";

/** Maximum number of listed traces. */
const MAX_LISTED = 300;
/** Number of intervals of the time scale. */
const SCALE_MARKS = 4;

const KINDS = { turn: "turn", model: "model", tool: "tool", wait: "wait" };

/** @type {import("../app.js").View} */
export function traces(container, [chosen, chosenCall]) {
  const list = h("ul.list", { "aria-label": "Traces" });
  const detail = h("section.detail", { "aria-label": "The trace" });
  container.classList.toggle("has-chosen", chosen !== undefined);
  container.append(...withHeading("Traces", h("aside.side", { "aria-label": "All traces" }, list)), detail);
  const open = new Set();
  /** Views of model calls by span. They are reused, so that open sections stay open. */
  const calls = new Map();
  let callToOpen = chosenCall;
  /** Opens the model call in the URL, once. */
  function openRequestedCall() {
    const span = callToOpen && flat(spans(chosen)).find((one) => one.kind === "model" && one.details.at(-1).spanId === callToOpen);
    if (!span) return;
    open.add(span.key);
    callToOpen = "";
  }
  let timer = 0;
  // Reads only the inputs of visible traces.
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) readInputExcerpt(target.first, target.first.turnId).then((isNew) => isNew && soon());
    }
  });
  function draw() {
    timer = 0;
    const found = chains();
    const current = chosen ?? found[0]?.id;
    updateChildren(list, found.slice(0, MAX_LISTED).map((chain) => item(chain, chain.id === current, seen)));
    if (!found.length) return fill(detail, state.isLoaded ? emptyMessage("No traces yet", "Send an input to see its trace.") : emptyMessage("Loading events…"));
    openRequestedCall();
    fill(detail, waterfall(current, found.find((chain) => chain.id === current), { open, calls, redraw: draw }));
  }
  // Each drawing reads all events, so it runs at most four times per second, and never in a hidden page.
  const soon = () => (timer ||= setTimeout(draw, 250));
  const stop = onFrame(["events", "approvals", "connection"], soon);
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
  const title = inputExcerpt(first.turnId);
  const [kind, now] = stateOf(chain);
  const waits = lengthOf([...chain.waits.values()].filter((wait) => wait.end !== null));
  const incomplete = chain.isRunning ? undefined : incompleteBadge(chain.modelFinishReason);
  const details = [title && nameOf(first), timeOrDate(chain.begin), !chain.isRunning && duration(chain.end - chain.begin - waits), !chain.isRunning && waitText(waits)].filter(Boolean).join(" · ");
  const make = () => {
    const link = h(
      "a.item",
      { href: viewHref("traces", chain.id), "aria-current": isChosen ? "true" : undefined },
      h("strong.item-title", { title: title ?? nameOf(first) }, title ?? nameOf(first)),
      h("span.row", {}, incomplete && now === "ok" ? incomplete : [badge(kind, now), incomplete], h("span.muted", {}, details)),
    );
    const row = Object.assign(h("li", {}, link), { first });
    if (title === undefined && first.turnId) seen.observe(row);
    return row;
  };
  return { key: chain.id, signature: JSON.stringify([title, now, details, isChosen, chain.modelFinishReason]), make };
}

/** Returns the totals of a trace as text: its time and waits, and tokens, cost and calls of all agents. */
function totals(all, begin, end, chain) {
  const waits = lengthOf(all.filter((span) => span.kind === "wait").map((span) => ({ begin: span.begin, end: span.end ?? end })));
  const models = all.filter((span) => span.kind === "model").map((span) => span.details.at(-1));
  const tokens = models.reduce((sum, event) => sum + (event.tokenUsage?.totalTokens ?? 0), 0);
  const costs = models.map((event) => event.cost).filter(Boolean);
  const cost = costs.length > 0 && money(costs.reduce((sum, one) => sum + one.amount, 0), costs[0].currency);
  return [duration(end - begin - waits), waitText(waits, " for approval"), tokens && counted(tokens, "token"), cost, counted(models.length, "model call"), counted(chain.calls, "tool call"), [...chain.agents].join(", ")].filter(Boolean).join(" · ");
}

function waterfall(id, chain, view) {
  if (!chain) return emptyMessage("Unknown trace", "The trace is older than the loaded events.");
  const all = flat(spans(id));
  const begin = Math.min(chain.begin, ...all.map((span) => span.begin));
  const end = Math.max(chain.isRunning ? Date.now() : chain.end, begin + 1, ...all.map((span) => span.end ?? 0));
  const scale = Array.from({ length: SCALE_MARKS + 1 }, (_, nth) => h("span", {}, duration(((end - begin) * nth) / SCALE_MARKS)));
  return [
    h(
      "div.head",
      {},
      h("h2", {}, h("a.back", { href: viewHref("traces") }, "‹ all"), inputExcerpt(chain.first.turnId) ?? "Trace", " ", h("code", {}, id.slice(0, 12))),
      h("span.muted", {}, totals(all, begin, end, chain)),
    ),
    h("div.legend", {}, Object.entries(KINDS).map(([kind, label]) => h("span", {}, h(`i.bar-key.${kind}`), label))),
    h("div.scale", { "aria-hidden": "true" }, h("span.scale-label"), h("div.scale-marks", {}, scale)),
    h("ol.waterfall", {}, all.map((span) => row(span, begin, end, view))),
  ];
}

function row(span, begin, end, { open, calls, redraw }) {
  const bar = h(`i.bar-fill.${span.kind}${span.failed ? ".failed" : ""}${span.end === null ? ".running" : ""}`);
  const whole = end - begin;
  bar.style.left = `${(100 * (span.begin - begin)) / whole}%`;
  bar.style.width = `max(3px, ${(100 * ((span.end ?? end) - span.begin)) / whole}%)`;
  const name = h("span.span-name", {}, h(`i.bar-key.${span.kind}`, { "aria-hidden": "true" }), span.name, span.failed && badge("bad", "failed"), span.isDenied && badge("plain", "denied"), span.isCancelled && badge("plain", "cancelled"), incompleteBadge(span.finishReason), h("span.muted", {}, rowSuffix(span)));
  name.style.paddingInlineStart = `${span.depth * 14}px`;
  const took = span.end === null ? (isWaiting(span) ? "waiting" : "running") : duration(span.took ?? span.end - span.begin);
  const waits = waitText(waitedIn(span));
  const isOpen = open.has(span.key);
  const line = h("button.span-row", { type: "button", "aria-expanded": String(isOpen) }, name, h("span.track", {}, bar), h("span.took", {}, took, waits && h("span.took-wait", {}, waits)));
  line.addEventListener("click", () => {
    if (!open.delete(span.key)) open.add(span.key);
    redraw();
    document.querySelector(`[data-span="${CSS.escape(span.key)}"] button`)?.focus();
  });
  return h("li", { data: { span: span.key } }, line, isOpen && h("div.span-details", {}, details(span, calls)));
}

/** Returns the text after the name of a row: the called agent, or the tokens of a model call. */
function rowSuffix({ kind, details }) {
  const { arguments: given, tokenUsage } = { ...details[0], ...details.at(-1) };
  if (kind === "tool" && typeof given?.target === "string") return ` → ${given.target}`;
  return kind === "model" && tokenUsage?.totalTokens ? ` · ${counted(tokenUsage.totalTokens, "token")}` : "";
}

/** Returns true for an open wait, and for spans that contain one. */
function isWaiting(span) {
  return span.end === null && (span.kind === "wait" || span.children.some(isWaiting));
}

/** Creates the details of a span: request and response, or arguments and result, and its events. */
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
