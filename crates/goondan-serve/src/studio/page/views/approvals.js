// Approvals: the questions that wait for a person, with exactly what will run, and those that were answered.

import { post, segment } from "../api.js";
import { button, fill, h } from "../dom.js";
import { when } from "../format.js";
import { attempt, conversationLink, data, head, mark, nothing } from "../parts.js";
import { on, state } from "../state.js";

/** So many answers are listed. */
const LISTED = 100;

const COVERS = { call: "this call, with the same arguments", program: "command lines of the same programs", tool: "all calls of this tool" };
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
      const card = ask(question);
      drawn.set(id, card);
      open.append(card);
    }
    if (!drawn.size) fill(open, nothing("No open approval requests", "Tool calls that need approval appear here."));
  }
  function drawPast() {
    const asked = new Map();
    for (const event of state.events) if (event.type === "approval.resolved") asked.set(event.approvalId, event);
    const latest = [...asked.values()].slice(-LISTED).reverse();
    fill(past, latest.length ? latest.map(answered) : h("li.muted", {}, "No answers yet."));
  }
  const stops = [on("questions", draw), on("events", drawPast)];
  draw();
  drawPast();
  return () => stops.forEach((stop) => stop());
}

function answered(event) {
  const [kind, words] = ANSWERS[event.answer] ?? ["plain", event.answer];
  const scope = event.scope && event.scope !== "once" ? ` (${event.scope}${event.covers ? `, ${event.covers}` : ""})` : "";
  return h("li", {}, h("time.muted", {}, when(event.timestamp)), mark(kind, words + scope), h("code", {}, event.toolName), conversationLink(event));
}

function ask(question) {
  const tell = (answer, covers) => () => attempt(() => post(`/api/approvals/${segment(question.id)}`, { answer, ...(covers ? { covers } : {}) }));
  return h(
    "article.panel.question",
    { data: { question: question.id }, "aria-label": `Allow ${question.toolName}?` },
    h("h2", {}, "Allow ", h("code", {}, question.toolName), "?"),
    h("p.muted", {}, "Requested by ", conversationLink(question), question.reason ? ` · ${question.reason}` : ""),
    question.preview && [h("h3", {}, "Preview"), data(question.preview, "Preview")],
    h("h3", {}, "Arguments"),
    data(question.arguments, "Arguments"),
    h("div.actions", {}, button("Allow once", tell("once"), { class: "primary" }), button("Deny", tell("deny"), { class: "danger" })),
    question.offers.length > 0 && longer(question, tell),
  );
}

/** An answer that holds on. */
function longer(question, tell) {
  const covers = h(
    "select",
    { "aria-label": "Scope of the approval" },
    question.offers.map((offer) => h("option", { value: offer.covers }, `${COVERS[offer.covers] ?? offer.covers}${offer.commands?.length ? `: ${offer.commands.join(", ")}` : ""}`)),
  );
  return h(
    "details.longer",
    {},
    h("summary", {}, "Remember the approval"),
    h("label", {}, "Scope: ", covers),
    h(
      "div.actions",
      {},
      button("Allow in this conversation", () => tell("conversation", covers.value)()),
      button("Allow always", () => tell("always", covers.value)()),
    ),
  );
}
