// Shows invisible characters of untrusted text as escapes, such as \u{202e}, so that they have no effect.

/** Characters that are invisible, change the text direction, or only look like a space. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u{2000}-\u{200a}\u{205f}\u{1680}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}\u{34f}\u{17b4}\u{17b5}\u{180b}-\u{180f}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}]/u;

const ALL_HIDDEN = new RegExp(HIDDEN.source, "gu");

/** An emoji before a joiner or a variation selector, which are then part of the emoji. */
const EMOJI = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\u{fe0f}]$/u;

/**
 * Returns true for a line end, a tab, or a joiner in an emoji.
 * @param {string} character
 * @param {string} before the text before the character
 */
function isHarmless(character, before) {
  if (character === "\n" || character === "\t") return true;
  const isJoiner = character === "\u200d" || character === "\ufe0f" || character === "\ufe0e";
  return isJoiner && EMOJI.test(before);
}

/**
 * Splits a text into visible pieces and escapes of hidden characters.
 * @param {string} text
 * @returns {{text: string, isEscape: boolean}[]}
 */
export function splitHidden(text) {
  if (!HIDDEN.test(text)) return [{ text, isEscape: false }];
  const found = [];
  let last = 0;
  for (const match of text.matchAll(ALL_HIDDEN)) {
    const before = text.slice(Math.max(0, match.index - 2), match.index);
    if (isHarmless(match[0], before)) continue;
    if (match.index > last) found.push({ text: text.slice(last, match.index), isEscape: false });
    found.push({ text: `\\u{${match[0].codePointAt(0).toString(16)}}`, isEscape: true });
    last = match.index + match[0].length;
  }
  if (last < text.length) found.push({ text: text.slice(last), isEscape: false });
  return found;
}

/**
 * Replaces hidden characters with escapes, for attributes and titles.
 * @param {string} text
 */
export function escapeHidden(text) {
  return splitHidden(String(text))
    .map((piece) => piece.text)
    .join("");
}
