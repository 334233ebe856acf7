// An approval request with its answers, with the same texts as in the terminal.

import { post, segment } from "./api.js";
import { isDiff } from "./diff.js";
import { button, h } from "./dom.js";
import { withErrorNotice, conversationLink, data } from "./parts.js";

/** The scopes of a remembered answer. */
const SCOPES = {
  call: "also identical later calls",
  program: "also later commands that match these, in a sandbox",
  tool: "also all later calls of this tool",
};

/**
 * Creates the card of an approval request.
 * @param {any} approval
 * @param {{isInline?: boolean}} [options] `isInline` omits the link to the conversation, for a card inside of it
 */
export function approvalCard(approval, { isInline = false } = {}) {
  const { agentName, toolName, offers } = approval;
  const defaults = new Set(approval.defaultArguments ?? []);
  const stated = Object.fromEntries(Object.entries(approval.arguments ?? {}).filter(([name]) => !defaults.has(name)));
  const given = Object.keys(stated).length > 0;
  // A preview can be one of the arguments, such as a command after a prompt sign.
  const preview = approval.preview?.trim().replace(/^\$ /, "");
  const isRepeated = Object.values(stated).some((value) => typeof value === "string" && value.trim() === preview);
  const scope = h(
    "select",
    { "aria-label": "Scope of the remembered answer" },
    offers.map((offer) => h("option", { value: offer.covers }, scopeOf(offer))),
  );
  /** Answers with `once`, `conversation`, `always` or `deny`. Only a remembered answer has a scope. */
  const send = (answer) => post(`/api/approvals/${segment(approval.id)}`, { answer, ...(answer === "conversation" || answer === "always" ? { covers: scope.value } : {}) });
  const choice = (label, answer, properties) =>
    button(label, () => withErrorNotice(() => send(answer).then(() => close(card))), properties);
  const card = h(
    "article.panel.question",
    { data: { question: approval.id }, "aria-label": `Allow ${toolName}?` },
    h("p.request", {}, `Agent ${agentName} requests to call `, h("code", {}, toolName), given ? " with" : " without arguments"),
    given && argumentsOf(stated, approval.preview),
    approval.preview && !isRepeated && [h("p.field-name", {}, "Preview by the tool"), data(approval.preview, "Preview by the tool")],
    approval.reason && h("p.muted", {}, approval.reason),
    h("p.question-title", {}, "Allow this?"),
    h(
      "div.actions",
      {},
      choice("Yes", "once", { class: "primary" }),
      offers.length > 0 && [choice("For this conversation", "conversation"), choice("Always", "always")],
      choice("No", "deny", { class: "danger" }),
    ),
    offers.length > 0 ? h("label.scope", {}, h("span", {}, "“For this conversation” and “Always” cover "), offers.length > 1 ? scope : h("span", {}, `${scopeOf(offers[0])}.`)) : h("p.muted.scope", {}, "The answer can't be remembered for later calls."),
    !isInline && h("p.muted.scope", {}, "Conversation: ", conversationLink(approval)),
  );
  return card;
}

/** Disables the buttons of an answered card until it disappears. */
function close(card) {
  moveFocus(card);
  for (const choice of card.querySelectorAll("button")) choice.disabled = true;
}

/** Moves the focus from an answered card, which disappears, to the next card or to its container. */
function moveFocus(card) {
  if (!card.isConnected || (document.activeElement !== document.body && !card.contains(document.activeElement))) return;
  const others = [...document.querySelectorAll("article.question")].filter((one) => one !== card);
  const next = others.find((one) => card.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) ?? others.at(-1);
  const target = next?.querySelector("button") ?? card.closest(".scroll")?.querySelector(".messages") ?? document.getElementById("main");
  target.focus({ preventScroll: next === undefined });
}

/** Shows the arguments. A string is folded if the preview adds exactly its lines. */
function argumentsOf(given, preview) {
  const added = isDiff(preview) ? preview.split("\n").filter((line) => line.startsWith("+") && !line.startsWith("+++ ")) : [];
  const shown = `\n${added.map((line) => line.slice(1)).join("\n")}\n`;
  const isPreviewed = (value) => typeof value === "string" && value !== "" && shown.includes(`\n${value.replace(/\n$/, "")}\n`);
  const folded = Object.entries(given).filter(([, value]) => isPreviewed(value));
  const rest = Object.fromEntries(Object.entries(given).filter(([, value]) => !isPreviewed(value)));
  return [
    Object.keys(rest).length > 0 && data(rest, "Arguments"),
    folded.map(([name, text]) => h("details.folded", {}, h("summary", {}, h("code", {}, name), h("span.muted", {}, " as in the preview")), data(text, name))),
  ];
}

/** @param {{covers: string, commands?: string[]}} offer */
function scopeOf(offer) {
  const commands = offer.commands?.length ? `: ${offer.commands.join(", ")}` : "";
  return `${SCOPES[offer.covers] ?? offer.covers}${commands}`;
}
