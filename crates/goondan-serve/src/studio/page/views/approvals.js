// Approvals: open requests with their exact arguments, and the latest answers.

import { fill, h } from "../dom.js";
import { answers } from "../facts.js";
import { timeOrDate } from "../format.js";
import { conversationLink, viewHeading, badge, emptyMessage } from "../parts.js";
import { approvalCard } from "../question.js";
import { onFrame, state } from "../state.js";

const ANSWERS = { allow: ["ok", "allowed"], deny: ["bad", "denied"], nobody: ["plain", "no user available"], withdrawn: ["plain", "withdrawn"] };

/** @type {import("../app.js").View} */
export function approvals(container) {
  const open = h("div.cards-list", { "aria-live": "polite" });
  const past = h("ul.lines-list");
  container.append(viewHeading("Approvals"), open, h("h2", {}, "Answered"), past);
  const drawn = new Map();
  function draw() {
    // An open card stays unchanged while other cards are added and removed.
    for (const [id, card] of drawn) {
      if (state.approvals.has(id)) continue;
      card.remove();
      drawn.delete(id);
    }
    open.querySelector(".empty")?.remove();
    for (const [id, approval] of state.approvals) {
      if (drawn.has(id)) continue;
      const card = approvalCard(approval);
      drawn.set(id, card);
      open.append(card);
    }
    if (!drawn.size) fill(open, emptyMessage("No open approval requests", "Tool calls that need approval appear here."));
  }
  function drawPast() {
    const latest = [...answers].reverse();
    fill(past, latest.length ? latest.map(answered) : h("li.muted", {}, "No answers yet."));
  }
  const stops = [onFrame(["approvals"], draw), onFrame(["events"], drawPast, (_, payload) => payload.some((event) => event.type === "approval.resolved"))];
  draw();
  drawPast();
  return () => stops.forEach((stop) => stop());
}

function answered(event) {
  const [kind, label] = ANSWERS[event.answer] ?? ["plain", event.answer];
  const scope = event.scope && event.scope !== "once" ? ` (${event.scope}${event.covers ? `, ${event.covers}` : ""})` : "";
  return h("li", {}, h("time.muted", {}, timeOrDate(event.timestamp)), badge(kind, label + scope), h("code", {}, event.toolName), conversationLink(event));
}
