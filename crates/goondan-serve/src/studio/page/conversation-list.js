// The list of conversations: first words, agent, age and cost of each, with a search.

import { get, place as placeOf } from "./api.js";
import { h } from "./dom.js";
import * as facts from "./facts.js";
import { age, excerpt, money } from "./format.js";
import { keep } from "./keyed.js";
import { address, mark } from "./parts.js";
import { nameOf, onFrame, state, tell } from "./state.js";

/** Maximum number of conversations in the list. The search finds the others. */
const LISTED = 200;
/** Maximum number of conversations whose first words a search reads, the latest. */
const SEARCHED = 500;
/** Maximum number of messages that are read to find the first input. */
const READ = 6;
/** Maximum number of simultaneous requests for first words. */
const TOGETHER = 4;
/** Longest title, in characters. */
const TITLE = 90;

/** @type {Map<string, string>} first words by conversation and time of creation; empty if there is no input yet */
const firstWords = new Map();
/** @type {Map<string, any>} conversations whose first words are wanted */
const wanted = new Map();
let reading = 0;

const wordsKey = (meta) => `${nameOf(meta)}/${meta.createdAt}`;

/** Reads the first words of a conversation soon. */
function readWords(meta) {
  const key = wordsKey(meta);
  if (firstWords.has(key) || wanted.has(key)) return;
  wanted.set(key, meta);
  readNext();
}

function readNext() {
  for (const [key, meta] of wanted) {
    if (reading >= TOGETHER) return;
    wanted.delete(key);
    reading += 1;
    get(`${placeOf(meta)}/messages?first=${READ}`)
      .then(({ messages }) => {
        const input = messages.find((message) => message.data.role === "user" && message.source?.type === "user");
        const text = input?.data.content.filter((part) => part.type === "text").map((part) => part.text).join(" ") ?? "";
        // A conversation without an input is read again with the next change of the list.
        if (input) firstWords.set(key, excerpt(text, TITLE));
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
    const found = all.filter((meta) => !words || `${nameOf(meta)} ${firstWords.get(wordsKey(meta)) ?? ""}`.toLowerCase().includes(words));
    found.sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    keep(list, found.slice(0, LISTED).map((meta) => item(meta, chosen, seen)));
    more.textContent = !found.length ? (words ? "No conversation matches." : "No conversations yet.") : found.length > LISTED ? `${found.length - LISTED} older conversations: use the search.` : "";
  }
  search.addEventListener("input", draw);
  const stopDrawing = onFrame(["instances"], draw);
  const ages = setInterval(draw, 30_000);
  draw();
  return {
    element: h("div.conversation-list", {}, h("a.button.new", { href: address("conversations", agentName ?? chosen?.agentName ?? state.swarm?.entryAgent ?? "") }, "New conversation"), search, list, more),
    stop: () => {
      stopDrawing();
      clearInterval(ages);
      seen.disconnect();
    },
  };
}

/** Returns the item of a conversation. */
function item(meta, chosen, seen) {
  const words = firstWords.get(wordsKey(meta));
  const isChosen = chosen !== null && nameOf(meta) === nameOf(chosen);
  const isRunning = state.running.has(nameOf(meta));
  const waits = [...state.questions.values()].some((question) => nameOf(question) === nameOf(meta));
  const cost = meta.spending?.cost ? money(meta.spending.cost, facts.currency) : "";
  const told = [nameOf(meta), age(meta.updatedAt), cost].filter(Boolean).join(" · ");
  const make = () => {
    const row = h(
      "li",
      {},
      h(
        "a.item",
        { href: address("conversations", meta.agentName, meta.instanceKey), "aria-current": isChosen ? "true" : undefined },
        h("strong.item-title", {}, words || nameOf(meta)),
        h("span.row", {}, waits ? mark("ask", "waiting") : isRunning && mark("busy", "running"), meta.status === "retired" && mark("plain", "retired"), h("span.muted", { title: meta.updatedAt }, told)),
      ),
    );
    if (words === undefined) seen.observe(Object.assign(row, { meta }));
    return row;
  };
  return { key: nameOf(meta), sign: JSON.stringify([words, isChosen, isRunning, waits, meta.status, told]), make };
}
