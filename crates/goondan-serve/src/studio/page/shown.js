// Text of strangers on its way to a person: what can't be seen is shown as an escape such as \u{202e}, and does nothing.

/** Everything that can't be seen, moves text about, or looks like a blank and is none. Ends of lines and tabs stay. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u{2000}-\u{200a}\u{205f}\u{1680}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}\u{34f}\u{17b4}\u{17b5}\u{180b}-\u{180f}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}]/u;

const ALL_HIDDEN = new RegExp(HIDDEN.source, "gu");

/** A picture before a joiner or a variation: there they are part of writing. */
const PICTURE = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\u{fe0f}]$/u;

/**
 * Whether a character stays as it is although it can't be seen.
 * @param {string} character
 * @param {string} before what stands before it
 */
function stays(character, before) {
  if (character === "\n" || character === "\t") return true;
  const joins = character === "\u200d" || character === "\ufe0f" || character === "\ufe0e";
  return joins && PICTURE.test(before);
}

/**
 * A text in pieces: those that are hidden are escapes.
 * @param {string} text
 * @returns {{text: string, isEscape: boolean}[]}
 */
export function pieces(text) {
  if (!HIDDEN.test(text)) return [{ text, isEscape: false }];
  const found = [];
  let last = 0;
  for (const match of text.matchAll(ALL_HIDDEN)) {
    const before = text.slice(Math.max(0, match.index - 2), match.index);
    if (stays(match[0], before)) continue;
    if (match.index > last) found.push({ text: text.slice(last, match.index), isEscape: false });
    found.push({ text: `\\u{${match[0].codePointAt(0).toString(16)}}`, isEscape: true });
    last = match.index + match[0].length;
  }
  if (last < text.length) found.push({ text: text.slice(last), isEscape: false });
  return found;
}

/**
 * A text with its hidden characters as escapes, for attributes and titles.
 * @param {string} text
 */
export function shown(text) {
  return pieces(String(text))
    .map((piece) => piece.text)
    .join("");
}
