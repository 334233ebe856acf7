// A conversation as one file that shows itself: no script and no other file.

import { h } from "./dom.js";
import { dateTime } from "./format.js";
import { keep } from "./keyed.js";
import { download } from "./parts.js";
import { conversationItems } from "./turn.js";

/** Elements that work only in the page. */
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

/** Returns the messages with the ends of their turns as elements. */
function items(whose, messages) {
  const place = h("div");
  keep(place, conversationItems(whose, messages, { does: {}, isFile: true }));
  for (const element of place.querySelectorAll(LIVE)) element.remove();
  // The file is read on another day.
  for (const time of place.querySelectorAll("time[datetime]")) time.textContent = dateTime(time.dateTime);
  return [...place.children];
}

/**
 * Gives the conversation to the person as a file.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {import("./message.js").Message[]} messages
 */
export function exportPage(whose, messages) {
  download(fileName(whose, "html"), "text/html", page(whose, messages));
}

/**
 * Returns a file name for a conversation.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {string} extension
 */
export function fileName(whose, extension) {
  const name = `${whose.agentName}:${whose.instanceKey}`;
  return `${name.replace(/[^A-Za-z0-9._-]+/g, "-")}.${extension}`;
}

/**
 * The text of that file. The browser that writes it escapes what stands in it, for all of it is text.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {import("./message.js").Message[]} messages
 */
export function page(whose, messages) {
  const name = `${whose.agentName}:${whose.instanceKey}`;
  const made = document.implementation.createHTMLDocument("");
  const policy = h("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:" });
  made.documentElement.lang = "en";
  made.head.replaceChildren(h("meta", { charset: "utf-8" }), policy, h("title", {}, name));
  const words = h("p.muted", {}, `gdn conversation, exported ${dateTime(Date.now())}.`);
  made.body.append(h("h1", {}, name), words, ...items(whose, messages));
  // The policy of this page forbids inline styles, also those of a document that nobody sees.
  const whole = made.documentElement.outerHTML.replace("</head>", () => `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${whole}\n`;
}
