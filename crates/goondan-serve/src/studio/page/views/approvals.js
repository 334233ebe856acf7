// Approvals: the open requests, with exactly what will run, and the latest answers.

import { fill, h } from "../dom.js";
import { answers } from "../facts.js";
import { when } from "../format.js";
import { conversationLink, head, mark, nothing } from "../parts.js";
import { questionCard } from "../question.js";
import { onFrame, state } from "../state.js";

const ANSWERS = { allow: ["ok", "allowed"], deny: ["bad", "denied"], nobody: ["plain", "no user available"], withdrawn: ["plain", "withdrawn"] };

/** @type {import("../app.js").View} */
export function approvals(place) {
  const open = h("div.cards-list", { "aria-live": "polite" });
  const past = h("ul.lines-list");
  place.append(head("Approvals"), open, h("h2", {}, "Answered"), past);
  const drawn = new Map();
  function draw() {
    // A card that somebody looks at stays as it is while others come and go.
    for (const [id, card] of drawn) {
      if (state.questions.has(id)) continue;
      card.remove();
      drawn.delete(id);
    }
    open.querySelector(".empty")?.remove();
    for (const [id, question] of state.questions) {
      if (drawn.has(id)) continue;
      const card = questionCard(question);
      drawn.set(id, card);
      open.append(card);
    }
    if (!drawn.size) fill(open, nothing("No open approval requests", "Tool calls that need approval appear here."));
  }
  function drawPast() {
    const latest = [...answers].reverse();
    fill(past, latest.length ? latest.map(answered) : h("li.muted", {}, "No answers yet."));
  }
  const stops = [onFrame(["questions"], draw), onFrame(["events"], drawPast, (_, news) => news.some((event) => event.type === "approval.resolved"))];
  draw();
  drawPast();
  return () => stops.forEach((stop) => stop());
}

function answered(event) {
  const [kind, words] = ANSWERS[event.answer] ?? ["plain", event.answer];
  const scope = event.scope && event.scope !== "once" ? ` (${event.scope}${event.covers ? `, ${event.covers}` : ""})` : "";
  return h("li", {}, h("time.muted", {}, when(event.timestamp)), mark(kind, words + scope), h("code", {}, event.toolName), conversationLink(event));
}
