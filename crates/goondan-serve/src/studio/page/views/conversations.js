// Conversations: which there are, what was said in one, what is being said, and what a person says next.

import { get, place as placeOf, post, remove } from "../api.js";
import { button, fill, h } from "../dom.js";
import { exportPage } from "../export.js";
import { instances } from "../feed.js";
import { counted, retry, when } from "../format.js";
import { call, conversation, reasoning } from "../message.js";
import { address, attempt, head, mark, nothing, notice } from "../parts.js";
import { recordCase } from "../record.js";
import { nameOf, on, state } from "../state.js";

/** So much of a running turn is looked at again, at most that often, in milliseconds. */
const AGAIN = 200;
/** So many lines of a running command are shown, the latest. */
const LINES = 20;

/** @type {import("../app.js").View} */
export function conversations(place, [agentName, instanceKey]) {
  const list = h("ul.list", { "aria-label": "Conversations" });
  const side = h("aside.side", { "aria-label": "All conversations" }, head("Conversations"), starter(), list);
  const chosen = instanceKey === undefined ? null : { agentName, instanceKey };
  const detail = h("section.detail", { "aria-label": "The conversation" });
  place.classList.toggle("has-chosen", chosen !== null);
  place.append(side, detail);
  const drawList = () => fill(list, items(chosen, agentName));
  const stops = [on("instances", drawList)];
  drawList();
  const opened = chosen ? open(detail, chosen) : () => {};
  if (!chosen) fill(detail, nothing("No conversation selected", "Select a conversation, or start a new one."));
  instances().catch(() => null);
  return () => {
    stops.forEach((stop) => stop());
    opened();
  };
}

function items(chosen, agentName) {
  const wanted = [...state.instances].filter((meta) => chosen || !agentName || meta.agentName === agentName).reverse();
  if (!wanted.length) return h("li.muted", {}, "No conversations yet.");
  wanted.sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
  return wanted.map((meta) => {
    const isChosen = chosen && nameOf(meta) === nameOf(chosen);
    const isRunning = state.running.has(nameOf(meta));
    return h(
      "li",
      {},
      h(
        "a.item",
        { href: address("conversations", meta.agentName, meta.instanceKey), "aria-current": isChosen ? "true" : undefined },
        h("span.item-title", {}, h("strong", {}, meta.agentName), ` ${meta.instanceKey}`),
        h("span.row", {}, isRunning && mark("busy", "running"), meta.status === "retired" && mark("plain", "retired"), h("span.muted", {}, when(meta.updatedAt))),
      ),
    );
  });
}

/** Begins a new conversation: its first input makes it. */
function starter() {
  const agents = h("select", { "aria-label": "Agent" });
  const key = h("input", { "aria-label": "Conversation key", placeholder: "key", value: "main", maxlength: 200 });
  const fillAgents = () => fill(agents, (state.swarm?.agents ?? []).map((name) => h("option", { value: name, selected: name === state.swarm.entryAgent }, name)));
  fillAgents();
  const form = h("form.starter", {}, agents, key, h("button", { type: "submit" }, "Open"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = address("conversations", agents.value, key.value || "main");
  });
  return form;
}

/** One conversation, until the view goes. */
function open(detail, whose) {
  const title = h("div");
  const messages = h("div.messages", { tabindex: 0, role: "region", "aria-label": "Messages" });
  const live = h("div.live", { "aria-live": "polite" });
  const scroll = h("div.scroll", {}, messages, live);
  const shown = { list: [], failed: "" };
  fill(detail, title, scroll, composer(whose));
  let timer = 0;
  let isGone = false;

  const drawHead = () => fill(title, heading(whose, shown, () => load()));
  async function load() {
    timer = 0;
    let found = { messages: [] };
    shown.failed = "";
    try {
      // One that its first input has yet to make is not asked for.
      const isKnown = () => state.instances.some((meta) => nameOf(meta) === nameOf(whose));
      if (!isKnown()) await instances();
      if (isKnown()) found = await get(`${placeOf(whose)}/messages`);
    } catch (error) {
      shown.failed = error.message;
    }
    if (isGone) return;
    shown.list = found.messages;
    const open = new Set([...messages.querySelectorAll("details[open]")].map((one) => place(one)));
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    fill(messages, shown.failed && h("p.bad", {}, shown.failed), conversation(shown.list, { fork: (message) => fork(whose, message.id), record: (message) => recordCase(whose, message.id), cuts: cuts(whose) }));
    for (const one of messages.querySelectorAll("details")) one.open = open.has(place(one));
    if (!shown.list.length) fill(messages, nothing("No messages yet", "Send a message to start the conversation."));
    drawHead();
    drawLive();
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  }
  const soon = () => (timer ||= setTimeout(load, AGAIN));
  function drawLive() {
    const turn = state.running.get(nameOf(whose));
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    const calls = turn ? openCalls(whose, turn) : [];
    fill(live, turn && h("article.message.assistant.running", {}, h("header", {}, h("span.speaker", {}, "Agent"), mark("busy", "running")), retries(whose, turn), liveReasoning(live, turn), turn.text && h("div.words", { dir: "auto" }, turn.text), calls));
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  }
  const isMine = (event) => nameOf(event) === nameOf(whose);
  const stops = [
    on("text", drawLive),
    on("questions", drawLive),
    on("events", (events) => {
      const mine = events.filter(isMine);
      if (!mine.length) return;
      drawHead();
      drawLive();
      if (mine.some((event) => /^(turn|step)\./.test(event.type) || event.type === "tool.completed")) soon();
    }),
  ];
  load().then(() => (scroll.scrollTop = scroll.scrollHeight));
  return () => {
    isGone = true;
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

/** Which of the calls it is, so that it stays open when all are drawn again. */
function place(details) {
  const message = details.closest("[data-message]");
  return `${message?.dataset.message}/${[...(message?.querySelectorAll("details") ?? [])].indexOf(details)}`;
}

/** The reasoning of the running step: open until text begins, then as the person leaves it. */
function liveReasoning(live, turn) {
  if (!turn.reasoning) return null;
  const before = live.querySelector("details.reasoning[data-folded]");
  const details = reasoning(turn.reasoning, turn.text ? (before?.open ?? false) : true);
  if (turn.text) details.dataset.folded = "";
  return details;
}

/** The finish reasons of incomplete answers, by step. */
function cuts(whose) {
  const found = new Map();
  for (const event of state.events) {
    if (event.type === "model.completed" && event.stepId && nameOf(event) === nameOf(whose)) found.set(event.stepId, event.finishReason);
  }
  return found;
}

/** The failed attempts of the model call that a running turn waits for. */
function retries(whose, turn) {
  const lines = [];
  for (let index = state.events.length - 1; index >= 0; index -= 1) {
    const event = state.events[index];
    if (event.turnId !== turn.turnId || nameOf(event) !== nameOf(whose)) continue;
    if (event.type !== "model.retrying") break;
    lines.unshift(h("p.muted", {}, retry(event)));
  }
  return lines;
}

/** The calls of a running turn that are not over. */
function openCalls(whose, turn) {
  const calls = new Map();
  /** @type {Map<string, string[]>} the output of running commands, latest lines first */
  const outputs = new Map();
  for (let index = state.events.length - 1; index >= 0; index -= 1) {
    const event = state.events[index];
    if (event.turnId !== turn.turnId || nameOf(event) !== nameOf(whose)) continue;
    if (event.type === "turn.started") break;
    if (event.type === "tool.completed") calls.set(event.toolCallId, null);
    if (event.type === "tool.progress") outputs.set(event.toolCallId, [...(outputs.get(event.toolCallId) ?? []), ...(event.metadata.lines ?? []).toReversed()].slice(0, LINES));
    if (event.type === "tool.called" && !calls.has(event.toolCallId)) calls.set(event.toolCallId, event);
  }
  const asked = new Set([...state.questions.values()].map((question) => question.toolCallId));
  const running = [...calls.values()].filter(Boolean).reverse();
  return running.map((event) => {
    const lines = outputs.get(event.toolCallId)?.toReversed() ?? [];
    const output = lines.length > 0 && h("pre.data", { tabindex: 0, role: "region", "aria-label": "Output so far" }, lines.join("\n"));
    return [call(event.toolName, event.arguments, undefined, asked.has(event.toolCallId) ? "asked" : "running"), output];
  });
}

function heading(whose, shown, load) {
  const isRunning = state.running.has(nameOf(whose));
  const meta = state.instances.find((known) => nameOf(known) === nameOf(whose));
  const tokens = meta?.spending?.usage?.totalTokens;
  const has = shown.list.length > 0;
  return h(
    "div.head",
    {},
    h("h2", {}, h("a.back", { href: address("conversations") }, "‹ all"), nameOf(whose)),
    h("span.muted", {}, counted(shown.list.length, "message"), tokens ? ` · ${counted(tokens, "token")}` : ""),
    h(
      "div.actions",
      {},
      isRunning && button("Cancel the turn", () => attempt(() => remove(`${placeOf(whose)}/turn`)).then(load), { class: "danger" }),
      has && button("Fork", () => fork(whose)),
      has && button("Record test case", () => recordCase(whose), { title: "Record this conversation as a test case for gdn test" }),
      has && button("Save as HTML", () => exportPage(whose, shown.list)),
    ),
  );
}

/** Makes a new conversation of this one, and shows it. */
function fork(whose, messageId) {
  return attempt(async () => {
    const made = await post(`${placeOf(whose)}/fork`, messageId ? { messageId } : {});
    await instances();
    notice("ok", `Created ${made.agentName}:${made.instanceKey} with ${counted(made.messages, "message")}.`);
    location.hash = address("conversations", made.agentName, made.instanceKey);
  });
}

/** Where a person writes. What could not be handed in stays there, and keeps its id: sent again, it is the same input. */
function composer(whose) {
  const words = h("textarea", { rows: 2, "aria-label": `Input for ${nameOf(whose)}`, placeholder: "Write to the agent. Enter sends, Shift+Enter adds a new line." });
  const send = h("button.primary", { type: "submit" }, "Send");
  const form = h("form.composer", {}, words, send);
  let id = "";
  form.addEventListener("input", () => (id = ""));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = words.value;
    if (!text.trim() || send.disabled) return;
    id ||= `evt-studio-${crypto.randomUUID()}`;
    send.disabled = true;
    const { agentName: agent, instanceKey } = whose;
    const taken = await attempt(() => post("/api/inputs", { text, agent, instanceKey, id }));
    send.disabled = false;
    if (taken && words.value === text) words.value = "";
    if (taken) id = "";
    words.focus();
  });
  words.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return form;
}

