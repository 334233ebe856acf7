// Exports a conversation as a single HTML file, without scripts.

import { h } from "./dom.js";
import { dateTime } from "./format.js";
import { updateChildren } from "./keyed.js";
import { download } from "./parts.js";
import { conversationItems } from "./turn.js";

/** Selector of elements that work only in the studio. */
const LIVE = "button, .call-link, .code-head [role=status], a[href^='#']";

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.55 system-ui, sans-serif; }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid #8886; padding: .8rem 0; }
header, summary { display: flex; gap: .6rem; align-items: baseline; }
summary { cursor: pointer; flex-wrap: wrap; }
summary::before { content: "▸"; }
details[open] > summary::before { content: "▾"; }
summary code { overflow-wrap: anywhere; } .outcome { flex-basis: 100%; }
.speaker { font-weight: 600; } .muted { opacity: .7; }
.words { white-space: pre-wrap; overflow-wrap: break-word; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8882; padding: .6rem; border-radius: 6px; }
.mark { border: 1px solid #8888; border-radius: 4px; padding: 0 .35rem; font-size: .85em; }
.escape { border: 1px dashed #c60; font-family: monospace; font-size: .85em; }
img { max-width: 100%; }
h2 { font-size: 1em; margin: 0; }
h3 { font-size: 1em; margin: .6rem 0 .2rem; }
.markdown { white-space: normal; }
.markdown p { white-space: pre-wrap; }
table { border-collapse: collapse; } th, td { border: 1px solid #8886; padding: .2rem .6rem; text-align: start; overflow-wrap: normal; }
.end { text-align: end; font-variant-numeric: tabular-nums; } .center { text-align: center; }
.visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.markdown, article, .table { position: relative; } .table { overflow-x: auto; }
blockquote { margin-inline: 0; padding-inline-start: .8rem; border-inline-start: 3px solid #8886; }
.turn-end { display: flex; flex-wrap: wrap; gap: .2rem .6rem; font-size: .85em; } .turn-error { border: 1px solid #c33; border-radius: 6px; padding: .2rem .8rem; }`;

/** Returns the elements of messages and turn summaries. */
function items(conversation, messages) {
  const container = h("div");
  updateChildren(container, conversationItems(conversation, messages, { messageActions: {}, isFile: true }));
  for (const element of container.querySelectorAll(LIVE)) element.remove();
  // Times need a date, because the file is read later.
  for (const time of container.querySelectorAll("time[datetime]")) time.textContent = dateTime(time.dateTime);
  return [...container.children];
}

/**
 * Downloads the conversation as an HTML file.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {import("./message.js").Message[]} messages
 */
export function exportPage(conversation, messages) {
  download(fileName(conversation, "html"), "text/html", page(conversation, messages));
}

/**
 * Returns a file name for a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {string} extension
 */
export function fileName(conversation, extension) {
  const name = `${conversation.agentName}:${conversation.instanceKey}`;
  return `${name.replace(/[^A-Za-z0-9._-]+/g, "-")}.${extension}`;
}

/**
 * Returns the HTML of the file. All content is text nodes, which the browser escapes.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {import("./message.js").Message[]} messages
 */
export function page(conversation, messages) {
  const name = `${conversation.agentName}:${conversation.instanceKey}`;
  const exported = document.implementation.createHTMLDocument("");
  const policy = h("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:" });
  exported.documentElement.lang = "en";
  exported.head.replaceChildren(h("meta", { charset: "utf-8" }), policy, h("title", {}, name));
  const description = h("p.muted", {}, `gdn conversation, exported ${dateTime(Date.now())}.`);
  exported.body.append(h("h1", {}, name), description, ...items(conversation, messages));
  // The policy of this page forbids inline styles, including in a hidden document, so the style is added to the string.
  const whole = exported.documentElement.outerHTML.replace("</head>", () => `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${whole}\n`;
}
