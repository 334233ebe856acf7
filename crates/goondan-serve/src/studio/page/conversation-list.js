// The list of conversations, with title or first words, agent, age, cost, and a search.

import { get, conversationPath } from "./api.js";
import { h } from "./dom.js";
import * as facts from "./facts.js";
import { age, excerpt, money } from "./format.js";
import { updateChildren } from "./keyed.js";
import { viewHref, badge } from "./parts.js";
import { openApproval } from "./requests.js";
import { isRunning, nameOf, onFrame, state, notify } from "./state.js";
import { turnIdOf } from "./turn.js";
import { queuedInputs } from "./waiting-inputs.js";

/** Maximum number of conversations in the list. The search finds the others. */
const MAX_LISTED = 200;
/** Maximum number of conversations for which a search reads the first words, the latest. */
const MAX_SEARCHED = 500;
/** Maximum number of messages to read to find the first input. */
const MAX_MESSAGES = 6;
/** Maximum number of simultaneous requests for first words. */
const MAX_REQUESTS = 4;
/** Pause before drawing changed states, in milliseconds. */
const REDRAW_DELAY = 150;
/** Maximum length of a title, in characters. */
const MAX_TITLE = 90;

/** @type {Map<string, string>} first words by conversation and time of creation; empty if there is no input yet */
const firstWords = new Map();
/** @type {Map<string, import("./message.js").Message>} first messages by conversation and time of creation */
const firstMessages = new Map();
/** @type {Map<string, any>} conversations whose first words are not read yet */
const unread = new Map();
/** @type {Map<string, string>} last change of conversations without an input, by conversation and time of creation */
const withoutInput = new Map();
let reading = 0;
/** Pending read of the opened conversation. First words are read after it. */
let precedingRead = Promise.resolve();

/**
 * Delays the reading of first words until another read has ended.
 * @param {Promise<any>} other
 */
export function readFirstWordsAfter(other) {
  precedingRead = other;
}

/**
 * Returns the first words of a conversation if they are loaded.
 * @param {any} meta
 */
const firstWordsOf = (meta) => firstWords.get(cacheKey(meta));

/**
 * Returns the title of a conversation, or its first words if they are loaded.
 * @param {any} meta
 */
export const titleOf = (meta) => meta.title ?? firstWordsOf(meta);

const cacheKey = (meta) => `${nameOf(meta)}/${meta.createdAt}`;

/**
 * Returns the original conversation of a fork, whose messages keep their turn ids. Returns `undefined` for other conversations,
 * and if the events of the original are not loaded.
 * @param {import("./message.js").Message|undefined} message the first message of the conversation
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function originalOf(message, conversation) {
  const name = message && facts.turns.get(turnIdOf(message))?.name;
  return name === undefined || name === nameOf(conversation) ? undefined : state.instances.find((meta) => nameOf(meta) === name);
}

/** Schedules reading the first words of a conversation. */
export function readFirstWords(meta) {
  const key = cacheKey(meta);
  if (firstWords.has(key) || unread.has(key) || withoutInput.get(key) === meta.updatedAt) return;
  unread.set(key, meta);
  precedingRead.then(readNext);
}

function readNext() {
  for (const [key, meta] of unread) {
    if (reading >= MAX_REQUESTS) return;
    unread.delete(key);
    reading += 1;
    get(`${conversationPath(meta)}/messages?first=${MAX_MESSAGES}`)
      .then(({ messages }) => {
        if (messages.length) firstMessages.set(key, messages[0]);
        const inputs = messages.filter((message) => message.data.role === "user");
        // Messages that a client sent as history are not from a user.
        const input = inputs.find((message) => message.source?.type === "user") ?? inputs[0];
        const text = input?.data.content.filter((part) => part.type === "text").map((part) => part.text).join(" ") ?? "";
        // A conversation without an input is read again after it changes.
        if (input) firstWords.set(key, excerpt(text, MAX_TITLE));
        else withoutInput.set(key, meta.updatedAt);
      })
      .catch(() => null)
      .finally(() => {
        reading -= 1;
        notify("instances");
        readNext();
      });
  }
}

/**
 * Creates the list.
 * @param {{agentName: string, instanceKey: string}|null} chosen the conversation that is shown
 * @param {string|undefined} agentName lists only conversations of this agent
 * @returns {{element: Element, stop: () => void}}
 */
export function conversationList(chosen, agentName) {
  const stateFilter = h("select", { "aria-label": "State of the conversations" }, Object.entries(STATES).map(([value, label]) => h("option", { value }, label)));
  const search = h("input.search", { type: "search", "aria-label": "Search conversations", placeholder: "Search" });
  const list = h("ul.list", { "aria-label": "Conversations" });
  const more = h("p.muted.list-more", { role: "status" });
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) readFirstWords(entry.target.meta);
  });
  /** Conversations that searches have read. */
  const searched = new Set();
  function draw() {
    const all = state.instances.filter((meta) => !agentName || meta.agentName === agentName);
    const searchText = search.value.trim().toLowerCase();
    // A search also needs the first words of conversations outside of the visible area.
    if (searchText) {
      for (const meta of all.slice(-MAX_SEARCHED)) {
        if (searched.has(cacheKey(meta))) continue;
        searched.add(cacheKey(meta));
        readFirstWords(meta);
      }
    }
    const isWanted = (meta) => !stateFilter.value || stateOf(meta) === stateFilter.value;
    const found = all.filter((meta) => isWanted(meta) && (!searchText || `${nameOf(meta)} ${meta.title ?? ""} ${firstWords.get(cacheKey(meta)) ?? ""}`.toLowerCase().includes(searchText)));
    const shown = belowCallers(found.sort((a, b) => b.updatedAt.localeCompare(a.updatedAt)).slice(0, MAX_LISTED));
    updateChildren(list, shown.map(({ meta, isCalled }) => item(meta, { isChosen: chosen !== null && nameOf(meta) === nameOf(chosen), isCalled, seen })));
    more.textContent = !found.length ? (searchText || stateFilter.value ? "No conversation matches." : "No conversations yet.") : found.length > MAX_LISTED ? `${found.length - MAX_LISTED} older conversations: use the search.` : "";
  }
  for (const field of [search, stateFilter]) field.addEventListener("input", draw);
  const isState = (event) => /^turn\./.test(event.type);
  // Drawing a long list is slow, and events can be frequent.
  let timer = 0;
  const soon = () => (timer ||= setTimeout(() => {
    timer = 0;
    draw();
  }, REDRAW_DELAY));
  const stops = [onFrame(["instances"], draw), onFrame(["approvals", "deadLetters", "inputs", "events", "connection"], soon, (topic, payload) => topic !== "events" || payload.some(isState))];
  const ages = setInterval(draw, 30_000);
  draw();
  const only = agentName && h("p.only.muted", {}, `Only conversations of ${agentName}. `, h("a", { href: viewHref("conversations") }, "Show all"));
  return {
    element: h("div.conversation-list", {}, h("h2.visually-hidden", {}, "All conversations"), h("a.button.new", { href: viewHref("conversations", agentName ?? chosen?.agentName ?? state.swarm?.entryAgent ?? "") }, "New conversation"), h("div.list-choice", {}, search, stateFilter), only, list, more),
    stop: () => {
      stops.forEach((stop) => stop());
      clearTimeout(timer);
      clearInterval(ages);
      seen.disconnect();
    },
  };
}

/** Options of the state filter. */
const STATES = { "": "all", waiting: "waiting", running: "running", failed: "failed" };

/**
 * Returns the state of a conversation; empty if its latest turn succeeded.
 * @param {any} meta
 * @returns {""|"waiting"|"running"|"failed"}
 */
function stateOf(meta) {
  const name = nameOf(meta);
  if (openApproval(name)) return "waiting";
  if (isRunning(meta)) return "running";
  const end = facts.latestEnds.get(name);
  if (end) return end.type === "turn.failed" && end.errorCode !== "E_TURN_CANCELLED" ? "failed" : "";
  // The end of the turn is older than the loaded events.
  return state.deadLetters.some(({ event }) => `${event.target.agentName ?? event.target.agent}:${event.target.instanceKey}` === name) ? "failed" : "";
}

const BADGES = { waiting: ["ask", "waiting"], running: ["busy", "running"], failed: ["bad", "failed"] };

/**
 * Sorts each conversation that a call created after the conversation of the caller.
 * @param {any[]} metas latest first
 * @returns {{meta: any, isCalled: boolean}[]}
 */
function belowCallers(metas) {
  const names = new Set(metas.map(nameOf));
  const ownerOf = (meta) => (meta.owner ? `${meta.owner.agent}:${meta.owner.instanceKey}` : "");
  const called = Map.groupBy(metas.filter((meta) => names.has(ownerOf(meta))), ownerOf);
  const listed = new Set();
  const rows = [];
  const add = (meta, isCalled) => {
    if (listed.has(meta)) return;
    listed.add(meta);
    rows.push({ meta, isCalled });
    for (const one of called.get(nameOf(meta)) ?? []) add(one, true);
  };
  for (const meta of metas) if (!names.has(ownerOf(meta))) add(meta, false);
  // Cycles of callers have no first conversation.
  for (const meta of metas) add(meta, false);
  return rows;
}

/** Returns the list item of a conversation. */
function item(meta, { isChosen, isCalled, seen }) {
  const title = titleOf(meta);
  const now = stateOf(meta);
  const queued = queuedInputs(meta).length;
  const cost = meta.spending?.cost ? money(meta.spending.cost, facts.currency) : "";
  const original = originalOf(firstMessages.get(cacheKey(meta)), meta);
  const details = [nameOf(meta), original && `fork of ${nameOf(original)}`, age(meta.updatedAt), cost].filter(Boolean).join(" · ");
  const make = () => {
    const row = h(
      "li",
      { class: isCalled ? "called" : "" },
      h(
        "a.item",
        { href: viewHref("conversations", meta.agentName, meta.instanceKey), "aria-current": isChosen ? "true" : undefined },
        h("strong.item-title", { title: title || nameOf(meta) }, title || nameOf(meta)),
        h("span.row", {}, now && badge(...BADGES[now]), queued > 0 && badge("plain", `${queued} queued`), meta.status === "retired" && badge("plain", "retired"), h("span.muted", { title: meta.updatedAt }, details)),
      ),
    );
    if (firstWordsOf(meta) === undefined) seen.observe(Object.assign(row, { meta }));
    return row;
  };
  return { key: nameOf(meta), signature: JSON.stringify([title, isChosen, isCalled, now, queued, meta.status, details]), make };
}
