// Shows Markdown of answers. HTML stays text, images become links, and links have only web and mail URLs.

import { append, fill, h } from "./dom.js";
import { diff, isDiff } from "./diff.js";
import { updateChildren } from "./keyed.js";
import { escapeHidden } from "./shown.js";

/** Maximum length of a text to format, in characters. Longer texts are shown unformatted. */
const MAX_LENGTH = 200_000;
/** Maximum nesting of lists, quotes and emphasis. Deeper marks are text. */
const MAX_DEPTH = 8;
/** Maximum length of a link URL, in characters. */
const MAX_LINK = 2_000;
/** Maximum length of a link text, in characters. */
const MAX_LINK_TEXT = 400;

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;
const TABLE_LINE = /^\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*\|?\s*$/;

/**
 * A block of a text.
 * @typedef {{type: "code"|"heading"|"rule"|"quote"|"list"|"table"|"paragraph", source: string, lines: string[]} & Record<string, any>} Block
 */

/**
 * Shows Markdown in an element. Unchanged blocks keep their elements, so that streamed text stays fast and selectable.
 * @param {Element} element
 * @param {string} text
 */
export function showMarkdown(element, text) {
  if (text.length > MAX_LENGTH) return fill(element, h("p", {}, text));
  updateChildren(
    element,
    nested(blocks(text.split(/\r?\n/))).map((block, number) => ({ key: String(number), signature: `${block.shownLevel ?? ""}/${block.source}`, make: () => blockElement(block, 0) })),
  );
}

/** Sets the page level of each heading: below the message heading, and at most one level below the previous heading. */
function nested(all) {
  let last = 2;
  for (const block of all) if (block.type === "heading") last = block.shownLevel = Math.min(6, block.level + 2, last + 1);
  return all;
}

/**
 * Creates an element with Markdown.
 * @param {string} text
 */
export function markdown(text) {
  const element = h("div.words.markdown", { dir: "auto" });
  showMarkdown(element, text);
  return element;
}

/**
 * Splits lines into blocks.
 * @param {string[]} lines
 * @returns {Block[]}
 */
export function blocks(lines) {
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at);
    found.push({ ...block, source: lines.slice(at, next).join("\n") });
    at = next;
  }
  return found;
}

/** Reads the block that begins at a line. Returns it with the number of the line after it. */
function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ type: "heading", level: heading[1].length, lines: [heading[2]] }, at + 1];
  if (RULE.test(line)) return [{ type: "rule", lines: [] }, at + 1];
  if (QUOTE.test(line)) {
    const end = endOf(lines, at, (one) => QUOTE.test(one));
    return [{ type: "quote", lines: lines.slice(at, end).map((one) => one.replace(/^ {0,3}> ?/, "")) }, end];
  }
  if (ITEM.test(line)) return listAt(lines, at);
  if (line.includes("|") && at + 1 < lines.length && TABLE_LINE.test(lines[at + 1])) {
    const end = endOf(lines, at + 2, (one) => one.includes("|"));
    return [{ type: "table", lines: lines.slice(at, end) }, end];
  }
  const end = endOf(lines, at + 1, (one, number) => one.trim() !== "" && !beginsBlock(lines, number));
  return [{ type: "paragraph", lines: lines.slice(at, end) }, end];
}

/** Returns the index of the first line after a block. */
function endOf(lines, at, belongs) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}

/** Returns true for a line that starts a block, and so ends a paragraph. */
function beginsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || (ITEM.test(line) && line.trim().length > 1 && !/^\s*(?:[02-9]|1\d)\d*[.)]/.test(line)) || (line.includes("|") && at + 1 < lines.length && TABLE_LINE.test(lines[at + 1]));
}

function codeAt(lines, at, [, marks, info]) {
  const end = endOf(lines, at + 1, (one) => !(one.trim().startsWith(marks) && one.trim().replaceAll(marks[0], "") === ""));
  return [{ type: "code", language: info.trim().split(/\s/)[0], lines: lines.slice(at + 1, end) }, Math.min(end + 1, lines.length)];
}

/** Reads a list. Lines with a deeper indentation than the list marks belong to the previous item. */
function listAt(lines, at) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const line = lines[next];
    const item = ITEM.exec(line);
    const depth = line.length - line.trimStart().length;
    if (item && depth <= indent.length + 1 && !RULE.test(line)) {
      if (/\d/.test(item[2]) !== isOrdered) break;
      items.push([item[3] ?? ""]);
    } else if (!line.trim()) {
      // A blank line belongs to the list only if the list continues after it.
      const after = lines.slice(next + 1, next + 3).find((one) => one.trim());
      const following = after && ITEM.exec(after);
      const isMore = after && (after.length - after.trimStart().length > indent.length + 1 || (following && /\d/.test(following[2]) === isOrdered && following[1].length <= indent.length + 1));
      if (!isMore) break;
      items.at(-1).push("");
    } else if (depth > indent.length || !beginsBlock(lines, next)) {
      items.at(-1).push(line.slice(Math.min(depth, indent.length + mark.length + 1)));
    } else {
      break;
    }
    next += 1;
  }
  return [{ type: "list", isOrdered, start: isOrdered ? Number.parseInt(mark, 10) : 1, items, lines: [] }, next];
}

/**
 * Creates the element of a block.
 * @param {Block} block
 * @param {number} depth
 */
function blockElement(block, depth) {
  const inside = (lines) => (depth < MAX_DEPTH ? blocks(lines).map((one) => blockElement(one, depth + 1)) : h("p", {}, lines.join("\n")));
  switch (block.type) {
    case "code":
      return codeElement(block.lines.join("\n"), block.language);
    case "heading":
      return h(`h${block.shownLevel ?? 6}`, {}, inline(block.lines[0]));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, inside(block.lines));
    case "list":
      return h(block.isOrdered ? "ol" : "ul", block.start !== 1 ? { start: block.start } : {}, block.items.map((lines) => itemElement(lines, inside)));
    case "table":
      return tableElement(block.lines);
    default:
      return h("p", {}, inline(block.lines.join("\n")));
  }
}

/** Creates a list item. A checkbox is shown as a character, because it cannot be changed. */
function itemElement(lines, inside) {
  const box = /^\[([ xX])\]\s+(.*)$/.exec(lines[0]);
  const rest = box ? [box[2], ...lines.slice(1)] : lines;
  const isPlain = rest.length === 1 && !beginsBlock(rest, 0) && !ITEM.test(rest[0]);
  const checkbox = box && (box[1] === " " ? ["☐ ", "open: "] : ["☑ ", "done: "]);
  return h("li", {}, checkbox && [h("span", { "aria-hidden": "true" }, checkbox[0]), h("span.visually-hidden", {}, checkbox[1])], isPlain ? inline(rest[0]) : inside(rest));
}

/**
 * Creates a code block. Its button copies the visible text, with hidden characters as escapes.
 * @param {string} code
 * @param {string} language
 */
function codeElement(code, language) {
  const status = h("span.muted", { role: "status" });
  const copy = h("button.quiet", { type: "button" }, "Copy");
  copy.addEventListener("click", () =>
    navigator.clipboard.writeText(escapeHidden(code)).then(
      () => fill(status, "Copied."),
      () => fill(status, "The browser denied access to the clipboard."),
    ),
  );
  const label = language ? `Code in ${language}` : "Code";
  const body = isDiff(code) || language === "diff" ? diff(code, label) : h("pre.data", { tabindex: 0, role: "group", "aria-label": label }, h("code", {}, code));
  return h("div.code", {}, h("div.code-head", {}, h("span.muted", {}, language), status, copy), body);
}

function tableElement(lines) {
  const rows = lines.map(cells);
  const sides = rows[1].map((mark) => (/^:-+:$/.test(mark) ? "center" : /-:$/.test(mark) ? "end" : ""));
  const row = (tag, values) => h("tr", {}, rows[0].map((_, number) => h(`${tag}${sides[number] ? `.${sides[number]}` : ""}`, {}, inline(values[number] ?? ""))));
  return h("div.table", { tabindex: 0, role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row("th", rows[0])), h("tbody", {}, rows.slice(2).map((values) => row("td", values)))));
}

/** Splits a table row. A bar after a backslash or inside code is part of a cell. */
function cells(line) {
  const parts = line.trim().replace(/^\|/, "").match(/(?:\\.|`[^`]*`|[^|\\`]|`|\\)+|\|/g) ?? [];
  const found = [""];
  for (const part of parts) {
    if (part === "|") found.push("");
    else found[found.length - 1] = part.trim().replaceAll("\\|", "|");
  }
  if (found.length > 1 && found.at(-1) === "") found.pop();
  return found;
}

/** Marks of emphasis, the longest first. */
const EMPHASIS = [["***", "both"], ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const SPECIAL = /[\\`*_~[!<]|https?:\/\//g;
const BARE = /^https?:\/\/[^\s<>"']*[^\s<>"'.,:;!?)\]}*_~]/;

/**
 * Returns the nodes of a text with inline marks, such as emphasis and links.
 * @param {string} text
 * @param {number} [depth]
 * @returns {import("./dom.js").Child[]}
 */
export function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  const found = [];
  /** Opening marks without a closing mark. They limit the time for hostile text, which would be searched repeatedly. */
  const unclosed = new Set();
  let plain = 0;
  let at = 0;
  const addNode = (child, end) => {
    if (at > plain) found.push(text.slice(plain, at));
    found.push(child);
    plain = at = end;
  };
  for (;;) {
    SPECIAL.lastIndex = at;
    const special = SPECIAL.exec(text);
    if (!special) break;
    at = special.index;
    const read = piece(text, at, depth, unclosed);
    if (read) addNode(read[0], read[1]);
    else at += special[0].length;
  }
  if (plain < text.length) found.push(text.slice(plain));
  return found;
}

/** Reads the marked text at an index. Returns its node and its end; `null` if the mark is plain text. */
function piece(text, at, depth, unclosed) {
  const character = text[at];
  if (character === "\\") return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? [text[at + 1], at + 2] : null;
  if (character === "`") return codePiece(text, at, unclosed);
  if (character === "[" || text.startsWith("![", at)) return linkPiece(text, at, depth, unclosed);
  if (character === "<") {
    const end = text.indexOf(">", at);
    const inside = end > 0 && end - at < MAX_LINK ? text.slice(at + 1, end) : "";
    const linkElement = /^[a-z]+:[^\s<>]+$/i.test(inside) && link(inside, [inside]);
    return linkElement ? [linkElement, end + 1] : null;
  }
  if (character === "h") {
    if (/[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) return null;
    const bare = BARE.exec(text.slice(at, at + MAX_LINK));
    const linkElement = bare && link(bare[0], [bare[0]]);
    return linkElement ? [linkElement, at + bare[0].length] : null;
  }
  return emphasisPiece(text, at, depth, unclosed);
}

function codePiece(text, at, unclosed) {
  const marks = /^`+/.exec(text.slice(at, at + 100))[0];
  if (unclosed.has(marks)) return null;
  for (let end = text.indexOf(marks, at + marks.length); end > 0; end = text.indexOf(marks, end)) {
    let after = end + marks.length;
    if (text[after] !== "`") return [h("code", {}, text.slice(at + marks.length, end).replace(/^ (.*\S.*) $/, "$1")), after];
    while (text[after] === "`") after += 1;
    end = after;
  }
  unclosed.add(marks);
  return null;
}

function emphasisPiece(text, at, depth, unclosed) {
  for (const [marks, tag] of EMPHASIS) {
    if (!text.startsWith(marks, at) || unclosed.has(marks)) continue;
    const begin = at + marks.length;
    const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
    if (begin >= text.length || /\s/.test(text[begin])) continue;
    if (marks[0] === "_" && isWord(text[at - 1])) continue;
    let end = text.indexOf(marks, begin + 1);
    while (end > 0) {
      const after = text[end + marks.length];
      const isLonger = marks.length === 1 && (after === marks || text[end - 1] === marks);
      if (!/\s/.test(text[end - 1]) && text[end - 1] !== "\\" && !isLonger && !(marks[0] === "_" && isWord(after))) break;
      end = text.indexOf(marks, end + (isLonger ? 2 : 1));
    }
    if (end > 0) {
      const content = inline(text.slice(begin, end), depth + 1);
      return [tag === "both" ? h("strong", {}, h("em", {}, content)) : h(tag, {}, content), end + marks.length];
    }
    unclosed.add(marks);
  }
  return null;
}

/** Reads `[text](url "title")`. An image becomes a link, because the page loads nothing from other hosts. */
function linkPiece(text, at, depth, unclosed) {
  const begin = text.indexOf("[", at) + 1;
  if (unclosed.has("](")) return null;
  if (text.indexOf("](", begin) < 0) {
    unclosed.add("](");
    return null;
  }
  let open = 1;
  let end = begin;
  for (; end < text.length && end - begin < MAX_LINK_TEXT; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") open += 1;
    else if (text[end] === "]") open -= 1;
    if (open === 0) break;
  }
  if (open !== 0 || text[end + 1] !== "(") return null;
  const target = /^\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(end + 1, end + 1 + MAX_LINK));
  if (!target) return null;
  const linkText = text.slice(begin, end);
  const linkElement = link(target[1], linkText ? inline(linkText, depth + 1) : [target[1]]);
  return linkElement ? [linkElement, end + 1 + target[0].length] : null;
}

/**
 * Creates a link that opens a new tab without a referrer; `null` for other URL schemes.
 * @param {string} url
 * @param {import("./dom.js").Child[]} linkText
 */
function link(url, linkText) {
  if (!URL.canParse(url) || !SCHEMES.has(new URL(url).protocol)) return null;
  const { href } = new URL(url);
  const linkElement = h("a", { href, target: "_blank", rel: "noopener noreferrer", title: href });
  // Links inside links are text.
  const outside = linkText.flat().map((word) => (word instanceof Element ? word.textContent : word));
  append(linkElement, linkText.some((word) => word instanceof Element && (word.localName === "a" || word.querySelector("a"))) ? outside : linkText);
  return linkElement;
}
