// Conversations: the list of all, and one of them or the form for a new one.

import { place as placeOf, post, remove } from "../api.js";
import { callItem } from "../call.js";
import { composer, focusOn, inputEditor, newKey } from "../composer.js";
import { conversationList } from "../conversation-list.js";
import { button, fill, h } from "../dom.js";
import { exportPage } from "../export.js";
import * as facts from "../facts.js";
import { instances } from "../feed.js";
import { counted, money, retry } from "../format.js";
import { firstShown, history } from "../history.js";
import { keep } from "../keyed.js";
import { showMarkdown } from "../markdown.js";
import { reasoning } from "../message.js";
import { address, attempt, mark, nothing, notice } from "../parts.js";
import { recordCase } from "../record.js";
import { nameOf, onFrame, state } from "../state.js";
import { conversationItems, questionOf } from "../turn.js";

/** Shortest time between two requests for the messages of a running turn, in milliseconds. */
const AGAIN = 200;
/** Distance from the end, in pixels, up to which the page follows new content. */
const NEAR_END = 80;

/** @type {import("../app.js").View} */
export function conversations(place, [agentName, instanceKey]) {
  const chosen = instanceKey === undefined ? null : { agentName, instanceKey };
  const list = conversationList(chosen, chosen ? undefined : agentName);
  const side = h("aside.side", { "aria-label": "All conversations" }, h("h1.visually-hidden", {}, "Conversations"), list.element);
  const detail = h("section.detail", { "aria-label": chosen ? "The conversation" : "A new conversation" });
  place.classList.toggle("has-chosen", agentName !== undefined);
  place.append(side, detail);
  const opened = chosen ? open(detail, chosen) : begin(detail, agentName);
  instances().catch(() => null);
  return () => {
    list.stop();
    opened();
  };
}

/** The form for a new conversation: its first input creates it. */
function begin(detail, agentName) {
  const names = state.swarm?.agents ?? [];
  const wanted = agentName ?? state.swarm?.entryAgent;
  const agents = h("select", { "aria-label": "Agent" }, names.map((name) => h("option", { value: name, selected: name === wanted }, name)));
  const key = h("input", { "aria-label": "Conversation key", placeholder: "automatic", maxlength: 200 });
  const about = h("p.muted");
  const describe = () => fill(about, state.topology?.agents.find((agent) => agent.name === agents.value)?.description ?? "");
  agents.addEventListener("change", describe);
  describe();
  const target = () => ({ agentName: agents.value, instanceKey: key.value.trim() || newKey() });
  const form = composer(target, { label: "First input", sent: (whose) => (location.hash = address("conversations", whose.agentName, whose.instanceKey)) });
  fill(
    detail,
    h("div.head", {}, h("h2", {}, h("a.back", { href: address("conversations") }, "‹ all"), "New conversation")),
    h("div.scroll.begin", {}, h("label", {}, "Agent ", agents), h("label", {}, "Key ", key), about),
    form,
  );
  focusOn(form.words);
  return () => {};
}

/** One conversation, until the view is left. */
function open(detail, whose) {
  const title = h("div");
  const messages = h("div.messages", { tabindex: 0, role: "region", "aria-label": "Messages" });
  const live = h("div.live", { "aria-live": "polite" });
  const scroll = h("div.scroll", {}, messages, live);
  const form = composer(() => whose, { label: `Input for ${nameOf(whose)}` });
  const past = history(whose);
  const { loaded } = past;
  const shown = { failed: "", editing: "" };
  /** The latest running turn. It stays after its end until its last message is loaded. */
  let turn = null;
  let timer = 0;
  let isGone = false;
  fill(detail, title, scroll, form);

  const does = {
    fork: (message) => fork(whose, message.id),
    record: (message) => recordCase(whose, message.id),
    edit: (message) => edit(message.id),
  };
  function edit(id) {
    shown.editing = id;
    draw();
  }
  /** Returns the editor in place of the message that is edited. */
  function replace(message) {
    if (message.id !== shown.editing) return null;
    const before = loaded.list[loaded.list.indexOf(message) - 1];
    return { key: `${message.id}/editor`, make: () => inputEditor(whose, message, before, () => edit("")) };
  }

  async function load() {
    timer = 0;
    const wasRunning = state.running.has(nameOf(whose));
    shown.failed = "";
    try {
      // A conversation without a first input does not exist yet.
      const isKnown = () => state.instances.some((meta) => nameOf(meta) === nameOf(whose));
      if (!isKnown()) await instances();
      if (isKnown()) await past.latest();
    } catch (error) {
      shown.failed = error.message;
    }
    if (isGone) return;
    // Messages that were read during the turn may lack its last one.
    if (!wasRunning && !state.running.has(nameOf(whose))) turn = null;
    draw();
  }
  const soon = () => (timer ||= setTimeout(load, AGAIN));

  /** Draws, and follows the end if it was in sight. */
  function following(work) {
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
    work();
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  }
  function drawLive() {
    turn = state.running.get(nameOf(whose)) ?? turn;
    keep(live, [turn && liveItem(whose, turn, loaded.list)]);
  }
  function drawAll() {
    drawLive();
    keep(title, [headingItem(whose, past, load)]);
    const from = firstShown(loaded);
    const hidden = loaded.start + from;
    const items = conversationItems(whose, loaded.list, { does, from, isWhole: loaded.start === 0, replace });
    keep(messages, [
      shown.failed && { key: "failed", sign: shown.failed, make: () => h("p.bad", {}, shown.failed) },
      hidden > 0 && { key: "earlier", sign: String(hidden), make: () => h("p.earlier", {}, button(`Show earlier messages (${hidden.toLocaleString("en")})`, earlier)) },
      ...items,
      !items.length && !turn && { key: "empty", make: () => nothing("No messages yet", "Send a message to start the conversation.") },
    ]);
  }
  const draw = () => following(drawAll);
  /** Shows earlier messages, and keeps those in sight where they are. */
  async function earlier() {
    await attempt(past.earlier);
    if (isGone) return;
    const below = scroll.scrollHeight - scroll.scrollTop;
    drawAll();
    scroll.scrollTop = scroll.scrollHeight - below;
    messages.focus({ preventScroll: true });
  }
  const isMine = (body) => nameOf(body) === nameOf(whose);
  const stopText = onFrame(["text"], () => following(drawLive), () => state.running.has(nameOf(whose)));
  const stop = onFrame(["events", "questions", "letters", "instances"], draw, (topic, news) => {
    if (topic !== "events") return true;
    const mine = news.filter(isMine);
    if (mine.some((event) => /^(turn|step)\.|^tool\.c/.test(event.type))) soon();
    return mine.length > 0;
  });
  load().then(() => (scroll.scrollTop = scroll.scrollHeight));
  focusOn(form.words);
  return () => {
    isGone = true;
    clearTimeout(timer);
    stopText();
    stop();
  };
}

/**
 * The running turn: what is not part of a stored message yet. A stored message shows its own calls.
 * @returns {import("../keyed.js").Item}
 */
function liveItem(whose, turn, list) {
  const isStored = turn.stepId !== "" && list.some((message) => message.data.role === "assistant" && message.source?.stepId === turn.stepId);
  const fact = facts.turns.get(turn.turnId);
  const calls = isStored ? [] : [...(fact?.calls.values() ?? [])].filter((call) => call.stepId === turn.stepId);
  const waits = [...state.questions.values()].some((question) => nameOf(question) === nameOf(whose));
  const lines = (fact?.retries ?? []).map(retry);
  const update = (article) =>
    keep(article, [
      { key: "header", sign: String(waits), make: () => h("header", {}, h("span.speaker", {}, "Agent"), waits ? mark("ask", "waiting for approval") : mark("busy", "running")) },
      lines.length > 0 && { key: "retries", sign: lines.join("\n"), make: () => h("div", {}, lines.map((line) => h("p.muted", {}, line))) },
      !isStored && turn.reasoning && { key: `reasoning/${turn.stepId}`, make: () => reasoning(turn.reasoning, true), update: (details) => updateReasoning(details, turn) },
      !isStored && turn.text && { key: `text/${turn.stepId}`, make: () => h("div.words.markdown", { dir: "auto" }), update: (element) => showMarkdown(element, turn.text) },
      ...calls.map((call) => callItem(`${call.stepId}/${call.id}`, { name: call.name, input: call.arguments, fact: call, isRunning: true, question: questionOf(whose, call.id) })),
    ]);
  return { key: turn.turnId, make: () => h("article.message.assistant.running"), update };
}

/** Shows the reasoning so far. It is open until text begins, then as the user leaves it. */
function updateReasoning(details, turn) {
  const now = reasoning(turn.reasoning);
  if (turn.text && details.dataset.folded === undefined) {
    details.dataset.folded = "";
    details.open = false;
  }
  details.replaceChildren(...now.childNodes);
}

/** Returns the item of the heading. It is drawn again only if it changes, so that its buttons keep the focus. */
function headingItem(whose, { loaded, all }, load) {
  const isRunning = state.running.has(nameOf(whose));
  const meta = state.instances.find((known) => nameOf(known) === nameOf(whose));
  const { usage, cost } = meta?.spending ?? {};
  const has = loaded.total > 0;
  const told = [counted(loaded.total, "message"), usage?.totalTokens && counted(usage.totalTokens, "token"), cost && money(cost, facts.currency)].filter(Boolean).join(" · ");
  const actions = () => [
    isRunning && button("Cancel the turn", () => attempt(() => remove(`${placeOf(whose)}/turn`)).then(load), { class: "danger" }),
    has && button("Fork", () => fork(whose)),
    has && button("Compare", () => (location.hash = address("compare", whose.agentName, whose.instanceKey)), { title: "Compare with another conversation" }),
    has && button("Record test case", () => recordCase(whose), { title: "Record this conversation as a test case for gdn test" }),
    has && button("Save as HTML", () => attempt(async () => exportPage(whose, await all()))),
  ];
  const make = () => h("div.head", {}, h("h2", {}, h("a.back", { href: address("conversations") }, "‹ all"), nameOf(whose)), h("span.muted", {}, told), h("div.actions", {}, actions()));
  return { key: "heading", sign: `${isRunning}/${has}/${told}`, make };
}

/** Creates a new conversation from this one, and shows it. */
function fork(whose, messageId) {
  return attempt(async () => {
    const made = await post(`${placeOf(whose)}/fork`, messageId ? { messageId } : {});
    await instances();
    notice("ok", `Created ${made.agentName}:${made.instanceKey} with ${counted(made.messages, "message")}.`);
    location.hash = address("conversations", made.agentName, made.instanceKey);
  });
}
