// A conversation as one file that shows itself: no script, no other file, nothing but text.

import { h } from "./dom.js";
import { when } from "./format.js";
import { conversation } from "./message.js";
import { download } from "./parts.js";

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.55 system-ui, sans-serif; }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid #8886; padding: .8rem 0; }
header, summary { display: flex; gap: .6rem; align-items: baseline; }
summary { cursor: pointer; }
.speaker { font-weight: 600; } .muted { opacity: .7; }
.words { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8882; padding: .6rem; border-radius: 6px; }
.mark { border: 1px solid #8888; border-radius: 4px; padding: 0 .35rem; font-size: .85em; }
.escape { border: 1px dashed #c60; font-family: monospace; font-size: .85em; }
img { max-width: 100%; }
h4 { margin: .6rem 0 .2rem; }`;

/**
 * Gives the conversation to the person as a file.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {import("./message.js").Message[]} messages
 */
export function exportPage(whose, messages) {
  const name = `${whose.agentName}:${whose.instanceKey}`;
  download(`${name.replace(/[^A-Za-z0-9._-]+/g, "-")}.html`, "text/html", page(name, messages));
}

/**
 * The text of that file. The browser that writes it escapes what stands in it, for all of it is text.
 * @param {string} name
 * @param {import("./message.js").Message[]} messages
 */
export function page(name, messages) {
  const made = document.implementation.createHTMLDocument("");
  const policy = h("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:" });
  made.documentElement.lang = "en";
  made.head.replaceChildren(h("meta", { charset: "utf-8" }), policy, h("title", {}, name));
  const words = h("p.muted", {}, `gdn conversation, exported ${when(Date.now())}.`);
  made.body.append(h("h1", {}, name), words, ...conversation(messages));
  // The policy of this page forbids inline styles, also those of a document that nobody sees.
  const whole = made.documentElement.outerHTML.replace("</head>", () => `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${whole}\n`;
}
