// The list of conversations: first words, agent, age and cost of each, with a search.

import { get, place as placeOf } from "./api.js";
import { h } from "./dom.js";
import * as facts from "./facts.js";
import { age, excerpt, money } from "./format.js";
import { keep } from "./keyed.js";
import { address, mark } from "./parts.js";
import { openQuestion } from "./requests.js";
import { isRunning, nameOf, onFrame, state, tell } from "./state.js";
import { turnIdOf } from "./turn.js";
import { queuedInputs } from "./waiting-inputs.js";

/** Maximum number of conversations in the list. The search finds the others. */
const LISTED = 200;
/** Maximum number of conversations whose first words a search reads, the latest. */
const SEARCHED = 500;
/** Maximum number of messages that are read to find the first input. */
const READ = 6;
/** Maximum number of simultaneous requests for first words. */
const TOGETHER = 4;
/** Pause before the list is drawn again because states change, in milliseconds. */
const PAUSE = 150;
/** Longest title, in characters. */
const TITLE = 90;

/** @type {Map<string, string>} first words by conversation and time of creation; empty if there is no input yet */
const firstWords = new Map();
/** @type {Map<string, import("./message.js").Message>} first messages by conversation and time of creation */
const firstMessages = new Map();
/** @type {Map<string, any>} conversations whose first words are wanted */
const wanted = new Map();
/** @type {Map<string, string>} time of the last change of conversations that had no input when they were read */
const withoutInput = new Map();
let reading = 0;
/** First words are read after this: the messages of the opened conversation come first. */
let before = Promise.resolve();

/**
 * Reads first words only after something else has ended.
 * @param {Promise<any>} other
 */
export function readWordsAfter(other) {
  before = other;
}

/**
 * Returns the first words of a conversation if they are known.
 * @param {any} meta
 */
const wordsOf = (meta) => firstWords.get(wordsKey(meta));

/**
 * Returns the title of a conversation, or its first words if they are known.
 * @param {any} meta
 */
export const titleOf = (meta) => meta.title ?? wordsOf(meta);

const wordsKey = (meta) => `${nameOf(meta)}/${meta.createdAt}`;

/**
 * Returns the conversation that a fork was created from: the first messages of a fork keep the ids of their turns. Returns nothing
 * for other conversations, and for forks of turns whose events are not loaded.
 * @param {import("./message.js").Message|undefined} message the first message of the conversation
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function originalOf(message, whose) {
  const name = message && facts.turns.get(turnIdOf(message))?.name;
  return name === undefined || name === nameOf(whose) ? undefined : state.instances.find((meta) => nameOf(meta) === name);
}

/** Reads the first words of a conversation soon. */
export function readWords(meta) {
  const key = wordsKey(meta);
  if (firstWords.has(key) || wanted.has(key) || withoutInput.get(key) === meta.updatedAt) return;
  wanted.set(key, meta);
  before.then(readNext);
}

function readNext() {
  for (const [key, meta] of wanted) {
    if (reading >= TOGETHER) return;
    wanted.delete(key);
    reading += 1;
    get(`${placeOf(meta)}/messages?first=${READ}`)
      .then(({ messages }) => {
        if (messages.length) firstMessages.set(key, messages[0]);
        const inputs = messages.filter((message) => message.data.role === "user");
        // Messages that a client has sent as history come from no user.
        const input = inputs.find((message) => message.source?.type === "user") ?? inputs[0];
        const text = input?.data.content.filter((part) => part.type === "text").map((part) => part.text).join(" ") ?? "";
        // A conversation without an input is read again when it has changed.
        if (input) firstWords.set(key, excerpt(text, TITLE));
        else withoutInput.set(key, meta.updatedAt);
      })
      .catch(() => null)
      .finally(() => {
        reading -= 1;
        tell("instances");
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
  const wantedState = h("select", { "aria-label": "State of the conversations" }, Object.entries(STATES).map(([value, words]) => h("option", { value }, words)));
  const search = h("input.search", { type: "search", "aria-label": "Search conversations", placeholder: "Search" });
  const list = h("ul.list", { "aria-label": "Conversations" });
  const more = h("p.muted.list-more", { role: "status" });
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) readWords(entry.target.meta);
  });
  /** Conversations that a search has read. */
  const tried = new Set();
  function draw() {
    const all = state.instances.filter((meta) => !agentName || meta.agentName === agentName);
    const words = search.value.trim().toLowerCase();
    // A search also needs the words of conversations that were not in sight.
    if (words) {
      for (const meta of all.slice(-SEARCHED)) {
        if (tried.has(wordsKey(meta))) continue;
        tried.add(wordsKey(meta));
        readWords(meta);
      }
    }
    const isWanted = (meta) => !wantedState.value || stateOf(meta) === wantedState.value;
    const found = all.filter((meta) => isWanted(meta) && (!words || `${nameOf(meta)} ${meta.title ?? ""} ${firstWords.get(wordsKey(meta)) ?? ""}`.toLowerCase().includes(words)));
    const shown = belowCallers(found.sort((a, b) => b.updatedAt.localeCompare(a.updatedAt)).slice(0, LISTED));
    keep(list, shown.map(({ meta, isCalled }) => item(meta, { isChosen: chosen !== null && nameOf(meta) === nameOf(chosen), isCalled, seen })));
    more.textContent = !found.length ? (words || wantedState.value ? "No conversation matches." : "No conversations yet.") : found.length > LISTED ? `${found.length - LISTED} older conversations: use the search.` : "";
  }
  for (const field of [search, wantedState]) field.addEventListener("input", draw);
  const isState = (event) => /^turn\./.test(event.type);
  // A long list takes a while to draw, and there may be many events.
  let timer = 0;
  const soon = () => (timer ||= setTimeout(() => {
    timer = 0;
    draw();
  }, PAUSE));
  const stops = [onFrame(["instances"], draw), onFrame(["questions", "letters", "inputs", "events", "connection"], soon, (topic, news) => topic !== "events" || news.some(isState))];
  const ages = setInterval(draw, 30_000);
  draw();
  const only = agentName && h("p.only.muted", {}, `Only conversations of ${agentName}. `, h("a", { href: address("conversations") }, "Show all"));
  return {
    element: h("div.conversation-list", {}, h("h2.visually-hidden", {}, "All conversations"), h("a.button.new", { href: address("conversations", agentName ?? chosen?.agentName ?? state.swarm?.entryAgent ?? "") }, "New conversation"), h("div.list-choice", {}, search, wantedState), only, list, more),
    stop: () => {
      stops.forEach((stop) => stop());
      clearTimeout(timer);
      clearInterval(ages);
      seen.disconnect();
    },
  };
}

/** The states to choose from. */
const STATES = { "": "all", waiting: "waiting", running: "running", failed: "failed" };

/**
 * Returns the state of a conversation; empty if its latest turn has ended as it should.
 * @param {any} meta
 * @returns {""|"waiting"|"running"|"failed"}
 */
function stateOf(meta) {
  const name = nameOf(meta);
  if (openQuestion(name)) return "waiting";
  if (isRunning(meta)) return "running";
  const end = facts.latestEnds.get(name);
  if (end) return end.type === "turn.failed" && end.errorCode !== "E_TURN_CANCELLED" ? "failed" : "";
  // The end of the turn is older than the loaded events.
  return state.letters.some(({ event }) => `${event.target.agentName ?? event.target.agent}:${event.target.instanceKey}` === name) ? "failed" : "";
}

const BADGES = { waiting: ["ask", "waiting"], running: ["busy", "running"], failed: ["bad", "failed"] };

/**
 * Puts each conversation that another one has created after it.
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
  // Conversations that have created each other have no beginning.
  for (const meta of metas) add(meta, false);
  return rows;
}

/** Returns the item of a conversation. */
function item(meta, { isChosen, isCalled, seen }) {
  const title = titleOf(meta);
  const now = stateOf(meta);
  const queued = queuedInputs(meta).length;
  const cost = meta.spending?.cost ? money(meta.spending.cost, facts.currency) : "";
  const original = originalOf(firstMessages.get(wordsKey(meta)), meta);
  const told = [nameOf(meta), original && `fork of ${nameOf(original)}`, age(meta.updatedAt), cost].filter(Boolean).join(" · ");
  const make = () => {
    const row = h(
      "li",
      { class: isCalled ? "called" : "" },
      h(
        "a.item",
        { href: address("conversations", meta.agentName, meta.instanceKey), "aria-current": isChosen ? "true" : undefined },
        h("strong.item-title", { title: title || nameOf(meta) }, title || nameOf(meta)),
        h("span.row", {}, now && mark(...BADGES[now]), queued > 0 && mark("plain", `${queued} queued`), meta.status === "retired" && mark("plain", "retired"), h("span.muted", { title: meta.updatedAt }, told)),
      ),
    );
    if (wordsOf(meta) === undefined) seen.observe(Object.assign(row, { meta }));
    return row;
  };
  return { key: nameOf(meta), sign: JSON.stringify([title, isChosen, isCalled, now, queued, meta.status, told]), make };
}
