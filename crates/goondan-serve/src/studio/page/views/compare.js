// Two conversations side by side: equal messages are folded, differences are marked.

import { align } from "../alignment.js";
import { get, place as placeOf } from "../api.js";
import { originalOf, readWords, titleOf } from "../conversation-list.js";
import { fill, h } from "../dom.js";
import * as facts from "../facts.js";
import { instances } from "../feed.js";
import { counted, duration, money } from "../format.js";
import { keep } from "../keyed.js";
import { contextOf, messageItem } from "../message.js";
import { address, attempt, conversationLink, head, mark, nothing } from "../parts.js";
import { nameOf, onFrame, state } from "../state.js";

/** Maximum number of messages of each conversation that are compared, the latest. */
const COMPARED = 1_000;
/** Maximum number of conversations that a list offers, the latest. */
const OFFERED = 200;
/** Maximum number of offered conversations whose first words are read, the latest. */
const NAMED = 40;

/** @type {import("../app.js").View} */
export function compare(place, [leftAgent, leftKey, rightAgent, rightKey]) {
  const chosen = [
    leftKey === undefined ? null : { agentName: leftAgent, instanceKey: leftKey },
    rightKey === undefined ? null : { agentName: rightAgent, instanceKey: rightKey },
  ];
  const chooser = h("div.compare-choice");
  const totals = h("div");
  const rows = h("div.compare-rows");
  place.append(head("Compare"), chooser, totals, rows);
  let isGone = false;
  let counts = null;

  const choose = (side, name) => {
    const pair = chosen.map((whose, number) => (number === side ? state.instances.find((meta) => nameOf(meta) === name) : whose));
    location.hash = address("compare", ...pair.flatMap((whose) => (whose ? [whose.agentName, whose.instanceKey] : [])));
  };
  function drawChoice() {
    const selects = chosen.map((whose, side) => ({
      key: String(side),
      sign: optionsOf(whose).map((option) => option.words).join("\n"),
      make: () => select(whose, side, choose),
    }));
    keep(chooser, selects);
  }
  function drawTotals() {
    if (counts) fill(totals, totalsTable(chosen, counts));
  }
  async function load() {
    await instances().catch(() => null);
    drawChoice();
    const original = chosen[0] && !chosen[1] && (await readOriginal(chosen[0]).catch(() => null));
    if (isGone) return;
    if (original) {
      // A fork is shown next to its original, without a step of the history that leads back here.
      location.replace(address("compare", original.agentName, original.instanceKey, chosen[0].agentName, chosen[0].instanceKey));
      return;
    }
    if (!chosen[0] || !chosen[1]) return fill(rows, nothing("Choose two conversations", "Their messages appear side by side."));
    const read = await attempt(() => Promise.all(chosen.map((whose) => get(`${placeOf(whose)}/messages?last=${COMPARED}`))));
    if (isGone || !read) return;
    counts = read.map((one) => one.total);
    drawTotals();
    drawRows(rows, chosen, read.map((one) => one.messages));
  }
  load();
  const stop = onFrame(["instances", "events"], () => {
    drawChoice();
    drawTotals();
  });
  return () => {
    isGone = true;
    stop();
  };
}

/** Returns the conversation that a fork was created from. */
async function readOriginal(whose) {
  const { messages } = await get(`${placeOf(whose)}/messages?first=1`);
  return originalOf(messages[0], whose);
}

/** Returns the conversations to choose from, the latest first. */
function optionsOf(whose) {
  const latest = [...state.instances].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt)).slice(0, OFFERED).map(nameOf);
  const names = whose && !latest.includes(nameOf(whose)) ? [nameOf(whose), ...latest] : latest;
  const named = state.instances.filter((meta) => names.slice(0, NAMED).includes(nameOf(meta)) || (whose && nameOf(meta) === nameOf(whose)));
  named.forEach(readWords);
  const titles = new Map(state.instances.map((meta) => [nameOf(meta), titleOf(meta)]));
  return names.map((name) => ({ value: name, words: titles.get(name) ? `${name} · ${titles.get(name)}` : name, isChosen: whose !== null && name === nameOf(whose) }));
}

function select(whose, side, choose) {
  const options = optionsOf(whose).map(({ value, words, isChosen }) => h("option", { value, selected: isChosen }, words));
  const list = h("select", { "aria-label": side ? "Second conversation" : "First conversation" }, !whose && h("option", { value: "", selected: true }, "Choose…"), options);
  list.addEventListener("change", () => choose(side, list.value));
  return list;
}

/** Shows messages, tokens, cost and time of both conversations. */
function totalsTable(chosen, counts) {
  const metas = chosen.map((whose) => state.instances.find((meta) => nameOf(meta) === nameOf(whose)));
  const ends = chosen.map((whose) => [...facts.turns.values()].map((turn) => turn.end).filter((end) => end && nameOf(end) === nameOf(whose)));
  const times = ends.map((all) => all.reduce((sum, end) => sum + end.duration, 0));
  const spent = metas.map((meta) => meta?.spending ?? {});
  const row = (name, values) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td.end", {}, value)));
  return h(
    "div.table",
    { tabindex: 0, role: "region", "aria-label": "Totals" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("td"), chosen.map((whose) => h("th", { scope: "col" }, conversationLink(whose))))),
      h(
        "tbody",
        {},
        row("Messages", counts.map((count) => count.toLocaleString("en"))),
        row("Turns", ends.map((all) => (all.length ? all.length.toLocaleString("en") : "none"))),
        row("Tokens", spent.map(({ usage }) => (usage?.totalTokens ?? 0).toLocaleString("en"))),
        row("Cost", spent.map(({ cost }) => (cost ? money(cost, facts.currency) : "none"))),
        row("Time of turns", times.map(duration)),
      ),
    ),
  );
}

const words = ([left, right]) => ({ changed: "different", left: `only in ${nameOf(left)}`, right: `only in ${nameOf(right)}` });
const KINDS = { same: "plain", changed: "ask", left: "bad", right: "ok" };

/** Shows the aligned messages. Equal messages that follow each other are folded. */
function drawRows(place, chosen, [left, right]) {
  const rows = align(left, right);
  const contexts = [left, right].map((messages, side) => contextOf(messages, { agentName: chosen[side].agentName }));
  const runs = [];
  for (const row of rows) {
    if (row.kind === "same" && runs.at(-1)?.kind === "same") runs.at(-1).rows.push(row);
    else runs.push({ kind: row.kind, rows: [row] });
  }
  const differing = rows.filter((row) => row.kind !== "same").length;
  const shown = runs.map((run) => {
    const drawn = run.rows.map((row) => rowElement(row, chosen, contexts));
    if (run.kind !== "same") return drawn;
    return h("details.compare-same", {}, h("summary.muted", {}, `${counted(run.rows.length, "equal message")}`), drawn);
  });
  const told = !rows.length ? "No messages" : differing ? counted(differing, "difference") : "No differences";
  fill(place, h("p.compare-count", { role: "status" }, told), shown);
}

function rowElement({ kind, left, right }, chosen, contexts) {
  const cell = (message, side) =>
    message ? h("div.compare-cell", { "aria-label": nameOf(chosen[side]), role: "group" }, h("p.compare-name.muted", {}, nameOf(chosen[side])), messageElement(message, contexts[side])) : h("div.compare-cell.missing");
  if (kind === "same") return h("div.compare-row.same", {}, cell(left, 0));
  return h(`section.compare-row.${kind}`, {}, h("p.compare-mark", {}, mark(KINDS[kind], words(chosen)[kind])), cell(left, 0), cell(right, 1));
}

function messageElement(message, context) {
  const place = h("div");
  keep(place, [messageItem(message, context)]);
  return place;
}
