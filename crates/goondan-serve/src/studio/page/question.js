// An approval request with its answers, in the words of the terminal.

import { post, segment } from "./api.js";
import { button, h } from "./dom.js";
import { attempt, conversationLink, data } from "./parts.js";

/** The scopes of a remembered answer. */
const SCOPES = {
  call: "also identical later calls",
  program: "also later commands that match these, in a sandbox",
  tool: "also all later calls of this tool",
};

/**
 * Creates the card of an approval request.
 * @param {any} question
 * @param {{isInline?: boolean}} [options] inline: the card is part of its conversation and needs no link to it
 */
export function questionCard(question, { isInline = false } = {}) {
  const { agentName, toolName, offers } = question;
  const given = Object.keys(question.arguments ?? {}).length > 0;
  const scope = h(
    "select",
    { "aria-label": "Scope of the remembered answer" },
    offers.map((offer) => h("option", { value: offer.covers }, scopeOf(offer))),
  );
  /** Answers with `once`, `conversation`, `always` or `deny`. Only a remembered answer has a scope. */
  const send = (answer) => post(`/api/approvals/${segment(question.id)}`, { answer, ...(answer === "conversation" || answer === "always" ? { covers: scope.value } : {}) });
  const choice = (words, answer, properties) => button(words, () => attempt(() => send(answer)), properties);
  return h(
    "article.panel.question",
    { data: { question: question.id }, "aria-label": `Allow ${toolName}?` },
    question.preview && [h("h3", {}, "Preview by the tool"), data(question.preview, "Preview by the tool")],
    question.reason && h("p.muted", {}, `Reason: ${question.reason}`),
    h("p.request", {}, `Agent ${agentName} requests to call `, h("code", {}, toolName), given ? " with" : " without arguments"),
    given && data(question.arguments, "Arguments"),
    h("h2", {}, "Allow this?"),
    h(
      "div.actions",
      {},
      choice("Yes", "once", { class: "primary" }),
      offers.length > 0 && [choice("For this conversation", "conversation"), choice("Always", "always")],
      choice("No", "deny", { class: "danger" }),
    ),
    offers.length > 0 ? h("label.scope", {}, h("span", {}, "“For this conversation” and “Always” cover "), offers.length > 1 ? scope : h("span", {}, `${scopeOf(offers[0])}.`)) : h("p.muted.scope", {}, "The answer can't be remembered for later calls."),
    !isInline && h("p.muted.scope", {}, "Conversation: ", conversationLink(question)),
  );
}

/** @param {{covers: string, commands?: string[]}} offer */
function scopeOf(offer) {
  const commands = offer.commands?.length ? `: ${offer.commands.join(", ")}` : "";
  return `${SCOPES[offer.covers] ?? offer.covers}${commands}`;
}
