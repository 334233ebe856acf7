// Conversations: the list, and the selected conversation or the form for a new one.

import { conversationPath, post, remove } from "../api.js";
import { callItem } from "../call.js";
import { composer, focusOn, inputEditor, newKey } from "../composer.js";
import { confirmDeletion, exportLines, rename, showStates } from "../conversation-actions.js";
import { conversationList, originalOf, readFirstWordsAfter } from "../conversation-list.js";
import { button, fill, h } from "../dom.js";
import { exportPage } from "../export.js";
import * as facts from "../facts.js";
import { loadConversations } from "../feed.js";
import { counted, money, retry } from "../format.js";
import { firstShown, history } from "../history.js";
import { updateChildren } from "../keyed.js";
import { showMarkdown } from "../markdown.js";
import { menu } from "../menu.js";
import { viewHref, withErrorNotice, conversationLink, badge, emptyMessage, notice } from "../parts.js";
import { reasoning } from "../reasoning.js";
import { recordCase } from "../record.js";
import { calleeApproval, openApproval, approvalOf } from "../requests.js";
import { isRunning as isConversationRunning, nameOf, onFrame, state } from "../state.js";
import { conversationItems, turnIdOf } from "../turn.js";
import { forgetEnded, waitingItems } from "../waiting-inputs.js";

/** Minimum time between requests for the messages of a running turn, in milliseconds. */
const MIN_LOAD_INTERVAL = 200;
/** Maximum distance from the end at which the page follows new content, in pixels. */
const NEAR_END = 80;

/** @type {import("../app.js").View} */
export function conversations(container, [agentName, instanceKey]) {
  const chosen = instanceKey === undefined ? null : { agentName, instanceKey };
  const list = conversationList(chosen, chosen ? undefined : agentName);
  const side = h("aside.side", { "aria-label": "All conversations" }, list.element);
  const detail = h("section.detail", { "aria-label": chosen ? "The conversation" : "A new conversation" });
  container.classList.toggle("has-chosen", agentName !== undefined);
  container.append(side, detail);
  const listed = loadConversations().catch(() => null);
  const show = () => (isUnknown(agentName, chosen) ? unknownAgent(detail, agentName) : chosen ? openConversation(detail, chosen, listed) : newConversation(detail, agentName));
  const wasUnknown = isUnknown(agentName, chosen);
  let [closeDetail, isClosed] = [show(), false];
  // The list may contain a conversation of a removed agent.
  if (wasUnknown) listed.then(() => !isClosed && (closeDetail = show()));
  return () => {
    isClosed = true;
    list.stop();
    closeDetail();
  };
}

/** Returns true if the agent does not exist. Existing conversations of removed agents can still be read. */
function isUnknown(agentName, chosen) {
  if (agentName === undefined || state.swarm.agents.includes(agentName)) return false;
  return chosen === null || !state.instances.some((meta) => nameOf(meta) === nameOf(chosen));
}

/** Shows an error with the names of the agents. */
function unknownAgent(detail, agentName) {
  const links = state.swarm.agents.map((name, number) => [number > 0 && ", ", h("a", { href: viewHref("conversations", name) }, name)]);
  fill(detail, h("div.scroll", {}, h("div.empty", {}, h("h1", {}, `The swarm has no agent ${agentName}`), h("p", {}, "Its agents: ", links))));
  return () => {};
}

/** Shows the form for a new conversation, which the first input creates. */
function newConversation(detail, agentName) {
  const names = state.swarm?.agents ?? [];
  const preselected = agentName ?? state.swarm?.entryAgent;
  const agents = h("select", { "aria-label": "Agent" }, names.map((name) => h("option", { value: name, selected: name === preselected }, name)));
  const key = h("input", { "aria-label": "Conversation key", placeholder: "automatic", maxlength: 200 });
  const about = h("p.muted");
  const describe = () => fill(about, state.topology?.agents.find((agent) => agent.name === agents.value)?.description ?? "");
  agents.addEventListener("change", describe);
  describe();
  const target = () => ({ agentName: agents.value, instanceKey: key.value.trim() || newKey() });
  const form = composer(target, { label: "First input", sent: (conversation) => (location.hash = viewHref("conversations", conversation.agentName, conversation.instanceKey)) });
  fill(
    detail,
    h("div.head", {}, h("h1", {}, h("a.back", { href: viewHref("conversations") }, "‹ all"), "New conversation")),
    h("div.scroll.begin", {}, h("label", {}, "Agent ", agents), h("label", {}, "Key ", key), about),
    form,
  );
  focusOn(form.textField);
  return () => {};
}

/** Shows a conversation until the view closes. `listed` resolves when the conversations are loaded. */
function openConversation(detail, conversation, listed) {
  const title = h("div");
  const messages = h("div.messages", { tabindex: 0, role: "region", "aria-label": "Messages" });
  const live = h("div.live", { "aria-live": "polite" });
  const queue = h("div.live", { "aria-live": "polite" });
  const jump = button("Jump to latest", () => (toEnd(), messages.focus({ preventScroll: true })), { class: "jump", hidden: true });
  const scroll = h("div.scroll", {}, messages, live, queue, jump);
  const form = composer(() => conversation, { label: `Input for ${nameOf(conversation)}`, sent: () => toEnd() });
  const past = history(conversation);
  const { loaded } = past;
  const shown = { failed: "", editing: "" };
  const moreMenu = { isOpen: false };
  /** The latest running turn. It stays after its end until its last message is loaded. */
  let turn = null;
  let timer = 0;
  let isClosed = false;
  fill(detail, title, scroll, form);

  const messageActions = {
    fork: (message) => fork(conversation, message.id),
    record: (message) => recordCase(conversation, message.id),
    edit: (message) => edit(message.id),
  };
  function edit(id) {
    shown.editing = id;
    draw();
  }
  /** Returns the editor for the edited message, which replaces the message. */
  function replace(message) {
    if (message.id !== shown.editing) return null;
    const before = loaded.list[loaded.list.indexOf(message) - 1];
    return { key: `${message.id}/editor`, make: () => inputEditor(conversation, message, before, () => edit("")) };
  }

  async function load(read = past.latest) {
    timer = 0;
    const wasRunning = state.running.has(nameOf(conversation));
    shown.failed = "";
    try {
      // A new conversation does not exist before its first input.
      const isKnown = () => state.instances.some((meta) => nameOf(meta) === nameOf(conversation));
      if (!isKnown()) await listed;
      if (!isKnown()) await loadConversations();
      if (isKnown()) await read();
    } catch (error) {
      shown.failed = error.message;
    }
    if (isClosed) return;
    // Messages that were read during the turn may lack its last message.
    if (!wasRunning && !state.running.has(nameOf(conversation))) turn = null;
    if (!shown.failed) forgetEnded(conversation);
    draw();
  }
  const soon = () => (timer ||= setTimeout(() => load(), MIN_LOAD_INTERVAL));

  const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
  scroll.addEventListener("scroll", () => isAtEnd() && (jump.hidden = true));
  let followsNext = false;
  /** Runs a drawing function, and scrolls to the end if the end was visible. */
  function following(work) {
    const [wasAtEnd, before] = [isAtEnd(), scroll.scrollHeight];
    work();
    if (wasAtEnd || followsNext) scroll.scrollTop = scroll.scrollHeight;
    else if (scroll.scrollHeight > before) jump.hidden = false;
    followsNext = false;
  }
  /** Scrolls to the end now and after the next drawing. */
  function toEnd() {
    jump.hidden = true;
    scroll.scrollTop = scroll.scrollHeight;
    followsNext = true;
    draw();
  }
  function drawLive() {
    turn = state.running.get(nameOf(conversation)) ?? turn;
    updateChildren(live, [turn && liveItem(conversation, turn, loaded.list)]);
  }
  function drawAll() {
    drawLive();
    updateChildren(title, [headingItem(conversation, past, moreMenu, load)]);
    const from = firstShown(loaded);
    const hidden = loaded.start + from;
    const items = conversationItems(conversation, loaded.list, { messageActions, from, isWhole: loaded.start === 0, replace });
    const sent = waitingItems(conversation, new Set(loaded.list.map(turnIdOf)));
    updateChildren(queue, sent.queued);
    updateChildren(messages, [
      shown.failed && { key: "failed", signature: shown.failed, make: () => h("p.bad", {}, shown.failed) },
      hidden > 0 && { key: "earlier", signature: String(hidden), make: () => h("p.earlier", {}, button(`Show earlier messages (${hidden.toLocaleString("en")})`, earlier)) },
      ...items,
      ...sent.begun,
      !items.length && !sent.begun.length && !turn && { key: "empty", make: () => emptyMessage("No messages yet", "Send a message to start the conversation.") },
    ]);
  }
  const draw = () => following(drawAll);
  /** Reads earlier messages without moving the visible ones. */
  async function before(read) {
    await withErrorNotice(read);
    if (isClosed) return false;
    const below = scroll.scrollHeight - scroll.scrollTop;
    drawAll();
    scroll.scrollTop = scroll.scrollHeight - below;
    return true;
  }
  const earlier = async () => (await before(past.earlier)) && messages.focus({ preventScroll: true });
  const isMine = (body) => nameOf(body) === nameOf(conversation);
  const stopText = onFrame(["text"], () => following(drawLive), () => state.running.has(nameOf(conversation)));
  const stop = onFrame(["events", "approvals", "deadLetters", "instances", "inputs", "connection"], draw, (topic, payload) => {
    if (topic !== "events") return true;
    const ownEvents = payload.filter(isMine);
    if (ownEvents.some((event) => /^(turn|step)\.|^tool\.c/.test(event.type))) soon();
    // A called turn can wait for an approval, which this conversation shows.
    return ownEvents.length > 0 || payload.some((event) => event.type === "turn.started" && event.parentSpanId);
  });
  const first = load(past.first);
  readFirstWordsAfter(first);
  first.then(() => {
    scroll.scrollTop = scroll.scrollHeight;
    if (loaded.start > 0 && !isClosed) whenIdle(() => isClosed || before(past.latest));
  });
  focusOn(form.textField);
  return () => {
    isClosed = true;
    clearTimeout(timer);
    stopText();
    stop();
  };
}

/** Calls a function when the page has drawn and is idle. */
function whenIdle(work) {
  requestAnimationFrame(() => (globalThis.requestIdleCallback ?? setTimeout)(work));
}

/**
 * Returns the item of the running turn: the content that is not part of a stored message yet.
 * @returns {import("../keyed.js").Item}
 */
function liveItem(conversation, turn, list) {
  const isStored = turn.stepId !== "" && list.some((message) => message.data.role === "assistant" && message.source?.stepId === turn.stepId);
  const fact = facts.turns.get(turn.turnId);
  const calls = isStored ? [] : [...(fact?.calls.values() ?? [])].filter((call) => call.stepId === turn.stepId);
  const approval = openApproval(nameOf(conversation));
  const waits = approval && (nameOf(approval) === nameOf(conversation) ? "waiting for approval" : `waits for approval in ${nameOf(approval)}`);
  const lines = (fact?.retries ?? []).map(retry);
  const update = (article) =>
    updateChildren(article, [
      { key: "header", signature: waits ?? "", make: () => h("header", {}, h("h2.speaker", {}, conversation.agentName), waits ? badge("ask", waits) : badge("busy", "running")) },
      lines.length > 0 && { key: "retries", signature: lines.join("\n"), make: () => h("div", {}, lines.map((line) => h("p.muted", {}, line))) },
      !isStored && turn.reasoning && { key: `reasoning/${turn.stepId}`, make: () => reasoning(turn.reasoning, true), update: (details) => updateReasoning(details, turn) },
      !isStored && turn.text && { key: `text/${turn.stepId}`, make: () => h("div.words.markdown", { dir: "auto" }), update: (element) => showMarkdown(element, turn.text) },
      ...calls.map((call) => callItem(`${call.stepId}/${call.id}`, { name: call.name, input: call.arguments, fact: call, isRunning: true, approval: approvalOf(conversation, call.id), called: calleeApproval(call) })),
    ]);
  return { key: turn.turnId, make: () => h("article.message.assistant.running"), update };
}

/** Updates the reasoning. The section closes once when text begins. */
function updateReasoning(details, turn) {
  const now = reasoning(turn.reasoning);
  if (turn.text && details.dataset.folded === undefined) {
    details.dataset.folded = "";
    details.open = false;
  }
  details.replaceChildren(...now.childNodes);
}

/** Returns the item of the heading. Only changes redraw it, so that its buttons keep the focus. */
function headingItem(conversation, { loaded, all }, moreMenu, load) {
  const meta = state.instances.find((known) => nameOf(known) === nameOf(conversation));
  const isRunning = isConversationRunning(meta ?? conversation);
  const waits = openApproval(nameOf(conversation)) !== undefined;
  const original = originalOf(loaded.list[0], conversation);
  const { usage, cost } = meta?.spending ?? {};
  const hasMessages = loaded.total > 0;
  const title = meta?.title;
  const details = [title && nameOf(conversation), counted(loaded.total, "message"), usage?.totalTokens && counted(usage.totalTokens, "token"), cost && money(cost, facts.currency)].filter(Boolean).join(" · ");
  const actions = () => [
    isRunning && button("Cancel the turn", () => withErrorNotice(() => remove(`${conversationPath(conversation)}/turn`)).then(() => load()), { class: "danger" }),
    hasMessages && button("Fork", () => fork(conversation)),
    hasMessages && button("Compare", () => (location.hash = viewHref("compare", conversation.agentName, conversation.instanceKey)), { title: "Compare with another conversation" }),
    meta && menu("More", moreMenu, moreActions()),
  ];
  const moreActions = () => [
    button("Rename", () => rename(conversation, title)),
    button("States", () => showStates(conversation), { title: "Show the states that extensions and tools have stored" }),
    hasMessages && button("Record test case", () => recordCase(conversation), { title: "Record this conversation as a test case for gdn test" }),
    hasMessages && button("Save as HTML", () => withErrorNotice(async () => exportPage(conversation, await all()))),
    hasMessages && button("Save as JSON", () => exportLines(conversation), { title: "Save as JSON Lines, like gdn conversation export" }),
    !isRunning && button("Delete", () => confirmDeletion(conversation, loaded.total), { class: "danger" }),
  ];
  const make = () => h("div.head", {}, h("h1", {}, h("a.back", { href: viewHref("conversations") }, "‹ all"), title ?? nameOf(conversation)), waits && badge("ask", "waiting"), original && h("span.muted", {}, "Fork of ", conversationLink(original)), h("span.muted", {}, details), h("div.actions", {}, actions()));
  return { key: "heading", signature: `${isRunning}/${waits}/${hasMessages}/${meta !== undefined}/${title}/${details}/${original && nameOf(original)}`, make };
}

/** Forks a conversation, and shows the fork. */
function fork(conversation, messageId) {
  return withErrorNotice(async () => {
    const created = await post(`${conversationPath(conversation)}/fork`, messageId ? { messageId } : {});
    await loadConversations();
    // A change of the page removes notices.
    addEventListener("hashchange", () => notice("ok", `Created ${created.agentName}:${created.instanceKey} with ${counted(created.messages, "message")}.`), { once: true });
    location.hash = viewHref("conversations", created.agentName, created.instanceKey);
  });
}
