// Checks the messages of the connectors with published parsers: `telegram` (GramJS) and `discord-markdown-parser`.
// Usage: node ci/platform-markup.mjs write FOLDER SEED writes FOLDER/markdown.json; a test writes FOLDER/messages.json;
// node ci/platform-markup.mjs check FOLDER reads it. FOLDER contains node_modules.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [mode, path, seed] = process.argv.slice(2);
const folder = resolve(path);
const SAMPLES = 500;

/** Every kind of formatting once. */
const ANSWER = `# A *long* answer

Some **bold**, ~~old~~ and \`code\` & <tags>, see [the page](https://example.com/?a=1&b=2).

- one
  - two
1. first

> quoted

\`\`\`rust
let a = 1 < 2;
\`\`\`

| name | count |
|---|---|
| bees | **20** |
`;
const PARTS = [
  "word ", "**bold** ", "*stressed* ", "~~old~~ ", "`code` ", "snake_case ", "2 * 3 ", "a<b ", "& ", "**open ", "_x_ ", "\n", "\n\n", "\n- item ",
  "\n1. first ", "\n## Title\n", "\n> quote ", "\n```js\nlet a = b * c; // **no**\n```\n", "[page](https://example.com/a) ", "https://example.com/b_c ",
  "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n", "<!channel> ", "@everyone ", "\\*escaped\\* ", "# not a title ", "é🙂 ",
];
/** Nodes and entities that the parsers must find in ANSWER. */
const WANTED = {
  discord: ["heading", "strong", "em", "strikethrough", "inlineCode", "codeBlock", "blockQuote"],
  telegram: ["Bold", "Italic", "Strike", "Code", "TextUrl", "Blockquote", "Pre"].map((name) => `MessageEntity${name}`),
};

/** Returns a function that returns an integer from 0 to below its argument. */
function random(state) {
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

function write() {
  const pick = random(Number(seed));
  const sample = () => Array.from({ length: 1 + pick(40) }, () => PARTS[pick(PARTS.length)]).join("");
  writeFileSync(join(folder, "markdown.json"), JSON.stringify([ANSWER, ...Array.from({ length: SAMPLES }, sample)]));
}

function check() {
  const require = createRequire(join(folder, "package.json"));
  const { HTMLParser } = require("telegram/extensions/html");
  const { parse } = require("discord-markdown-parser");
  const words = { br: "\n", autolink: "", url: "", everyone: "@everyone", here: "@here" };
  const text = (node) => {
    if (Array.isArray(node)) return node.map(text).join("");
    return typeof node === "string" ? node : (words[node.type] ?? text(node.content ?? ""));
  };
  const kinds = (node) => (Array.isArray(node) ? node.flatMap(kinds) : typeof node === "object" && node ? [node.type, ...kinds(node.content)] : []);
  // Bullets and the URLs of links differ between the platforms.
  const letters = (shown) => shown.replace(/https?:\/\/[\w.\/?=&]+/g, "").replace(/[^\p{L}\p{N}&<>_@!*]/gu, "");
  const samples = JSON.parse(readFileSync(join(folder, "messages.json"), "utf8"));
  samples.forEach(({ markdown, messages }, number) => {
    const telegram = messages.telegram.map((message) => HTMLParser.parse(message));
    const discord = messages.discord.map((message) => parse(message, "normal"));
    const shown = [telegram.map(([shown]) => shown).join("\n"), discord.map(text).join("\n")].map(letters);
    if (shown[0] !== shown[1]) fail("the platforms show different text", markdown, shown);
    if (number > 0) return;
    const found = { discord: kinds(discord), telegram: telegram.flatMap(([, entities]) => entities.map((entity) => entity.className)) };
    for (const [platform, names] of Object.entries(WANTED)) {
      const missing = names.filter((name) => !found[platform].includes(name));
      if (missing.length > 0) fail(`${platform} shows no ${missing}`, markdown, messages[platform]);
    }
  });
  console.log(`${samples.length} answers: Telegram and Discord show the same text`);
}

function fail(...words) {
  console.error(...words);
  process.exit(1);
}

mode === "write" ? write() : check();
