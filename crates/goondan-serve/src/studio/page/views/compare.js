// Two conversations side by side: equal messages are folded, differences are marked.

import { align } from "../alignment.js";
import { get, conversationPath } from "../api.js";
import { originalOf, readFirstWords, titleOf } from "../conversation-list.js";
import { fill, h } from "../dom.js";
import * as facts from "../facts.js";
import { loadConversations } from "../feed.js";
import { counted, duration, money } from "../format.js";
import { updateChildren } from "../keyed.js";
import { contextOf, messageItem } from "../message.js";
import { viewHref, withErrorNotice, conversationLink, viewHeading, badge, emptyMessage } from "../parts.js";
import { nameOf, onFrame, state } from "../state.js";

/** Maximum number of messages to compare per conversation, the latest. */
const MAX_MESSAGES = 1_000;
/** Maximum number of conversations in a list, the latest. */
const MAX_OPTIONS = 200;
/** Maximum number of listed conversations with first words, the latest. */
const MAX_TITLED = 40;

/** @type {import("../app.js").View} */
export function compare(container, [leftAgent, leftKey, rightAgent, rightKey]) {
  const chosen = [
    leftKey === undefined ? null : { agentName: leftAgent, instanceKey: leftKey },
    rightKey === undefined ? null : { agentName: rightAgent, instanceKey: rightKey },
  ];
  const chooser = h("div.compare-choice");
  const totals = h("div");
  const rows = h("div.compare-rows");
  container.append(viewHeading("Compare"), chooser, totals, rows);
  let isClosed = false;
  let counts = null;

  const choose = (side, name) => {
    const pair = chosen.map((conversation, number) => (number === side ? state.instances.find((meta) => nameOf(meta) === name) : conversation));
    location.hash = viewHref("compare", ...pair.flatMap((conversation) => (conversation ? [conversation.agentName, conversation.instanceKey] : [])));
  };
  function drawChoice() {
    const selects = chosen.map((conversation, side) => ({
      key: String(side),
      signature: optionsOf(conversation).map((option) => option.label).join("\n"),
      make: () => select(conversation, side, choose),
    }));
    updateChildren(chooser, selects);
  }
  function drawTotals() {
    if (counts) fill(totals, totalsTable(chosen, counts));
  }
  async function load() {
    await loadConversations().catch(() => null);
    drawChoice();
    const original = chosen[0] && !chosen[1] && (await readOriginal(chosen[0]).catch(() => null));
    if (isClosed) return;
    if (original) {
      // Compares a fork with its original. `replace` keeps the intermediate URL out of the browser history.
      location.replace(viewHref("compare", original.agentName, original.instanceKey, chosen[0].agentName, chosen[0].instanceKey));
      return;
    }
    if (!chosen[0] || !chosen[1]) return fill(rows, emptyMessage("Choose two conversations", "Their messages appear side by side."));
    const read = await withErrorNotice(() => Promise.all(chosen.map((conversation) => get(`${conversationPath(conversation)}/messages?last=${MAX_MESSAGES}`))));
    if (isClosed || !read) return;
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
    isClosed = true;
    stop();
  };
}

/** Returns the conversation that a fork was created from. */
async function readOriginal(conversation) {
  const { messages } = await get(`${conversationPath(conversation)}/messages?first=1`);
  return originalOf(messages[0], conversation);
}

/** Returns the conversations to choose from, the latest first. */
function optionsOf(conversation) {
  const latest = [...state.instances].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt)).slice(0, MAX_OPTIONS).map(nameOf);
  const names = conversation && !latest.includes(nameOf(conversation)) ? [nameOf(conversation), ...latest] : latest;
  const named = state.instances.filter((meta) => names.slice(0, MAX_TITLED).includes(nameOf(meta)) || (conversation && nameOf(meta) === nameOf(conversation)));
  named.forEach(readFirstWords);
  const titles = new Map(state.instances.map((meta) => [nameOf(meta), titleOf(meta)]));
  return names.map((name) => ({ value: name, label: titles.get(name) ? `${name} · ${titles.get(name)}` : name, isChosen: conversation !== null && name === nameOf(conversation) }));
}

function select(conversation, side, choose) {
  const options = optionsOf(conversation).map(({ value, label, isChosen }) => h("option", { value, selected: isChosen }, label));
  const list = h("select", { "aria-label": side ? "Second conversation" : "First conversation" }, !conversation && h("option", { value: "", selected: true }, "Choose…"), options);
  list.addEventListener("change", () => choose(side, list.value));
  return list;
}

/** Creates a table of messages, tokens, cost and time of both conversations. */
function totalsTable(chosen, counts) {
  const metas = chosen.map((conversation) => state.instances.find((meta) => nameOf(meta) === nameOf(conversation)));
  const ends = chosen.map((conversation) => [...facts.turns.values()].map((turn) => turn.end).filter((end) => end && nameOf(end) === nameOf(conversation)));
  const times = ends.map((all) => all.reduce((sum, end) => sum + end.duration, 0));
  const spent = metas.map((meta) => meta?.spending ?? {});
  const row = (name, values) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td.end", {}, value)));
  return h(
    "div.table",
    { tabindex: 0, role: "region", "aria-label": "Totals" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("td"), chosen.map((conversation) => h("th", { scope: "col" }, conversationLink(conversation))))),
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

const differenceLabels = ([left, right]) => ({ changed: "different", left: `only in ${nameOf(left)}`, right: `only in ${nameOf(right)}` });
const KINDS = { same: "plain", changed: "ask", left: "bad", right: "ok" };

/** Shows the aligned messages. Equal messages that follow each other are folded. */
function drawRows(container, chosen, [left, right]) {
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
  const summary = !rows.length ? "No messages" : differing ? counted(differing, "difference") : "No differences";
  fill(container, h("p.compare-count", { role: "status" }, summary), shown);
}

function rowElement({ kind, left, right }, chosen, contexts) {
  const cell = (message, side) =>
    message ? h("div.compare-cell", { "aria-label": nameOf(chosen[side]), role: "group" }, h("p.compare-name.muted", {}, nameOf(chosen[side])), messageElement(message, contexts[side])) : h("div.compare-cell.missing");
  if (kind === "same") return h("div.compare-row.same", {}, cell(left, 0));
  return h(`section.compare-row.${kind}`, {}, h("p.compare-mark", {}, badge(KINDS[kind], differenceLabels(chosen)[kind])), cell(left, 0), cell(right, 1));
}

function messageElement(message, context) {
  const container = h("div");
  updateChildren(container, [messageItem(message, context)]);
  return container;
}
