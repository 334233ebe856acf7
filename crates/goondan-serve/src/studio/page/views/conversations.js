// Conversations: the list of all, and one of them or the form for a new one.

import { place as placeOf, post, remove } from "../api.js";
import { callItem } from "../call.js";
import { composer, focusOn, inputEditor, newKey } from "../composer.js";
import { confirmDeletion, exportLines, rename, showStates } from "../conversation-actions.js";
import { conversationList, originalOf, readWordsAfter } from "../conversation-list.js";
import { button, fill, h } from "../dom.js";
import { exportPage } from "../export.js";
import * as facts from "../facts.js";
import { instances } from "../feed.js";
import { counted, money, retry } from "../format.js";
import { firstShown, history } from "../history.js";
import { keep } from "../keyed.js";
import { showMarkdown } from "../markdown.js";
import { menu } from "../menu.js";
import { address, attempt, conversationLink, mark, nothing, notice } from "../parts.js";
import { reasoning } from "../reasoning.js";
import { recordCase } from "../record.js";
import { calledQuestion, openQuestion, questionOf } from "../requests.js";
import { isRunning as runs, nameOf, onFrame, state } from "../state.js";
import { conversationItems, turnIdOf } from "../turn.js";
import { forgetEnded, waitingItems } from "../waiting-inputs.js";

/** Shortest time between two requests for the messages of a running turn, in milliseconds. */
const AGAIN = 200;
/** Distance from the end, in pixels, up to which the page follows new content. */
const NEAR_END = 80;

/** @type {import("../app.js").View} */
export function conversations(place, [agentName, instanceKey]) {
  const chosen = instanceKey === undefined ? null : { agentName, instanceKey };
  const list = conversationList(chosen, chosen ? undefined : agentName);
  const side = h("aside.side", { "aria-label": "All conversations" }, list.element);
  const detail = h("section.detail", { "aria-label": chosen ? "The conversation" : "A new conversation" });
  place.classList.toggle("has-chosen", agentName !== undefined);
  place.append(side, detail);
  const listed = instances().catch(() => null);
  const show = () => (isUnknown(agentName, chosen) ? unknownAgent(detail, agentName) : chosen ? open(detail, chosen, listed) : begin(detail, agentName));
  const wasUnknown = isUnknown(agentName, chosen);
  let [opened, isGone] = [show(), false];
  // The list of conversations may name the agent.
  if (wasUnknown) listed.then(() => !isGone && (opened = show()));
  return () => {
    isGone = true;
    list.stop();
    opened();
  };
}

/** Returns true for an agent that does not exist. A conversation of a removed agent can still be read. */
function isUnknown(agentName, chosen) {
  if (agentName === undefined || state.swarm.agents.includes(agentName)) return false;
  return chosen === null || !state.instances.some((meta) => nameOf(meta) === nameOf(chosen));
}

/** Shows the agents that exist. */
function unknownAgent(detail, agentName) {
  const links = state.swarm.agents.map((name, number) => [number > 0 && ", ", h("a", { href: address("conversations", name) }, name)]);
  fill(detail, h("div.scroll", {}, h("div.empty", {}, h("h1", {}, `The swarm has no agent ${agentName}`), h("p", {}, "Its agents: ", links))));
  return () => {};
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
    h("div.head", {}, h("h1", {}, h("a.back", { href: address("conversations") }, "‹ all"), "New conversation")),
    h("div.scroll.begin", {}, h("label", {}, "Agent ", agents), h("label", {}, "Key ", key), about),
    form,
  );
  focusOn(form.words);
  return () => {};
}

/** One conversation, until the view is left. `listed` ends when the list of conversations is read. */
function open(detail, whose, listed) {
  const title = h("div");
  const messages = h("div.messages", { tabindex: 0, role: "region", "aria-label": "Messages" });
  const live = h("div.live", { "aria-live": "polite" });
  const queue = h("div.live", { "aria-live": "polite" });
  const jump = button("Jump to latest", () => (toEnd(), messages.focus({ preventScroll: true })), { class: "jump", hidden: true });
  const scroll = h("div.scroll", {}, messages, live, queue, jump);
  const form = composer(() => whose, { label: `Input for ${nameOf(whose)}`, sent: () => toEnd() });
  const past = history(whose);
  const { loaded } = past;
  const shown = { failed: "", editing: "" };
  const moreMenu = { isOpen: false };
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

  async function load(read = past.latest) {
    timer = 0;
    const wasRunning = state.running.has(nameOf(whose));
    shown.failed = "";
    try {
      // A conversation without a first input does not exist yet.
      const isKnown = () => state.instances.some((meta) => nameOf(meta) === nameOf(whose));
      if (!isKnown()) await listed;
      if (!isKnown()) await instances();
      if (isKnown()) await read();
    } catch (error) {
      shown.failed = error.message;
    }
    if (isGone) return;
    // Messages that were read during the turn may lack its last one.
    if (!wasRunning && !state.running.has(nameOf(whose))) turn = null;
    if (!shown.failed) forgetEnded(whose);
    draw();
  }
  const soon = () => (timer ||= setTimeout(() => load(), AGAIN));

  const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
  scroll.addEventListener("scroll", () => isAtEnd() && (jump.hidden = true));
  let followsNext = false;
  /** Draws, and follows the end if it was in sight. */
  function following(work) {
    const [wasAtEnd, before] = [isAtEnd(), scroll.scrollHeight];
    work();
    if (wasAtEnd || followsNext) scroll.scrollTop = scroll.scrollHeight;
    else if (scroll.scrollHeight > before) jump.hidden = false;
    followsNext = false;
  }
  /** Shows the end, and follows the next change. */
  function toEnd() {
    jump.hidden = true;
    scroll.scrollTop = scroll.scrollHeight;
    followsNext = true;
    draw();
  }
  function drawLive() {
    turn = state.running.get(nameOf(whose)) ?? turn;
    keep(live, [turn && liveItem(whose, turn, loaded.list)]);
  }
  function drawAll() {
    drawLive();
    keep(title, [headingItem(whose, past, moreMenu, load)]);
    const from = firstShown(loaded);
    const hidden = loaded.start + from;
    const items = conversationItems(whose, loaded.list, { does, from, isWhole: loaded.start === 0, replace });
    const sent = waitingItems(whose, new Set(loaded.list.map(turnIdOf)));
    keep(queue, sent.queued);
    keep(messages, [
      shown.failed && { key: "failed", sign: shown.failed, make: () => h("p.bad", {}, shown.failed) },
      hidden > 0 && { key: "earlier", sign: String(hidden), make: () => h("p.earlier", {}, button(`Show earlier messages (${hidden.toLocaleString("en")})`, earlier)) },
      ...items,
      ...sent.begun,
      !items.length && !sent.begun.length && !turn && { key: "empty", make: () => nothing("No messages yet", "Send a message to start the conversation.") },
    ]);
  }
  const draw = () => following(drawAll);
  /** Reads earlier messages, and keeps those in sight where they are. */
  async function before(read) {
    await attempt(read);
    if (isGone) return false;
    const below = scroll.scrollHeight - scroll.scrollTop;
    drawAll();
    scroll.scrollTop = scroll.scrollHeight - below;
    return true;
  }
  const earlier = async () => (await before(past.earlier)) && messages.focus({ preventScroll: true });
  const isMine = (body) => nameOf(body) === nameOf(whose);
  const stopText = onFrame(["text"], () => following(drawLive), () => state.running.has(nameOf(whose)));
  const stop = onFrame(["events", "questions", "letters", "instances", "inputs", "connection"], draw, (topic, news) => {
    if (topic !== "events") return true;
    const mine = news.filter(isMine);
    if (mine.some((event) => /^(turn|step)\.|^tool\.c/.test(event.type))) soon();
    // A turn that a call started can wait for an approval.
    return mine.length > 0 || news.some((event) => event.type === "turn.started" && event.parentSpanId);
  });
  const first = load(past.first);
  readWordsAfter(first);
  first.then(() => {
    scroll.scrollTop = scroll.scrollHeight;
    if (loaded.start > 0 && !isGone) whenIdle(() => isGone || before(past.latest));
  });
  focusOn(form.words);
  return () => {
    isGone = true;
    clearTimeout(timer);
    stopText();
    stop();
  };
}

/** Calls a function when the page has drawn and has nothing else to do. */
function whenIdle(work) {
  requestAnimationFrame(() => (globalThis.requestIdleCallback ?? setTimeout)(work));
}

/**
 * The running turn: what is not part of a stored message yet. A stored message shows its own calls.
 * @returns {import("../keyed.js").Item}
 */
function liveItem(whose, turn, list) {
  const isStored = turn.stepId !== "" && list.some((message) => message.data.role === "assistant" && message.source?.stepId === turn.stepId);
  const fact = facts.turns.get(turn.turnId);
  const calls = isStored ? [] : [...(fact?.calls.values() ?? [])].filter((call) => call.stepId === turn.stepId);
  const question = openQuestion(nameOf(whose));
  const waits = question && (nameOf(question) === nameOf(whose) ? "waiting for approval" : `waits for approval in ${nameOf(question)}`);
  const lines = (fact?.retries ?? []).map(retry);
  const update = (article) =>
    keep(article, [
      { key: "header", sign: waits ?? "", make: () => h("header", {}, h("h2.speaker", {}, whose.agentName), waits ? mark("ask", waits) : mark("busy", "running")) },
      lines.length > 0 && { key: "retries", sign: lines.join("\n"), make: () => h("div", {}, lines.map((line) => h("p.muted", {}, line))) },
      !isStored && turn.reasoning && { key: `reasoning/${turn.stepId}`, make: () => reasoning(turn.reasoning, true), update: (details) => updateReasoning(details, turn) },
      !isStored && turn.text && { key: `text/${turn.stepId}`, make: () => h("div.words.markdown", { dir: "auto" }), update: (element) => showMarkdown(element, turn.text) },
      ...calls.map((call) => callItem(`${call.stepId}/${call.id}`, { name: call.name, input: call.arguments, fact: call, isRunning: true, question: questionOf(whose, call.id), called: calledQuestion(call) })),
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
function headingItem(whose, { loaded, all }, moreMenu, load) {
  const meta = state.instances.find((known) => nameOf(known) === nameOf(whose));
  const isRunning = runs(meta ?? whose);
  const waits = openQuestion(nameOf(whose)) !== undefined;
  const original = originalOf(loaded.list[0], whose);
  const { usage, cost } = meta?.spending ?? {};
  const has = loaded.total > 0;
  const title = meta?.title;
  const told = [title && nameOf(whose), counted(loaded.total, "message"), usage?.totalTokens && counted(usage.totalTokens, "token"), cost && money(cost, facts.currency)].filter(Boolean).join(" · ");
  const actions = () => [
    isRunning && button("Cancel the turn", () => attempt(() => remove(`${placeOf(whose)}/turn`)).then(() => load()), { class: "danger" }),
    has && button("Fork", () => fork(whose)),
    has && button("Compare", () => (location.hash = address("compare", whose.agentName, whose.instanceKey)), { title: "Compare with another conversation" }),
    meta && menu("More", moreMenu, moreActions()),
  ];
  const moreActions = () => [
    button("Rename", () => rename(whose, title)),
    button("States", () => showStates(whose), { title: "Show the states that extensions and tools have stored" }),
    has && button("Record test case", () => recordCase(whose), { title: "Record this conversation as a test case for gdn test" }),
    has && button("Save as HTML", () => attempt(async () => exportPage(whose, await all()))),
    has && button("Save as JSON", () => exportLines(whose), { title: "Save as JSON Lines, like gdn conversation export" }),
    !isRunning && button("Delete", () => confirmDeletion(whose, loaded.total), { class: "danger" }),
  ];
  const make = () => h("div.head", {}, h("h1", {}, h("a.back", { href: address("conversations") }, "‹ all"), title ?? nameOf(whose)), waits && mark("ask", "waiting"), original && h("span.muted", {}, "Fork of ", conversationLink(original)), h("span.muted", {}, told), h("div.actions", {}, actions()));
  return { key: "heading", sign: `${isRunning}/${waits}/${has}/${meta !== undefined}/${title}/${told}/${original && nameOf(original)}`, make };
}

/** Creates a new conversation from this one, and shows it. */
function fork(whose, messageId) {
  return attempt(async () => {
    const made = await post(`${placeOf(whose)}/fork`, messageId ? { messageId } : {});
    await instances();
    // A change of the page removes notices.
    addEventListener("hashchange", () => notice("ok", `Created ${made.agentName}:${made.instanceKey} with ${counted(made.messages, "message")}.`), { once: true });
    location.hash = address("conversations", made.agentName, made.instanceKey);
  });
}
