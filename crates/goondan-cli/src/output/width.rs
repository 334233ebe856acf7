//! Display width of text on a terminal.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the columns that `text` needs; it must not contain control characters. Terminals draw
/// joined emoji as one or as several. The larger width counts, so that no line wraps unexpectedly.
pub(crate) fn width(text: &str) -> usize {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Returns the columns of one grapheme: drawn as one character or as several, whichever is wider.
fn grapheme_width(text: &str) -> usize {
    let sum_of_chars: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    sum_of_chars.max(text.width())
}

/// Truncates `text` to `columns`, with an ellipsis if something is cut off.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used_columns = 0;
    let max_columns = columns.saturating_sub(1);
    let fitting_part = text.graphemes(true).take_while(|part| {
        used_columns += grapheme_width(part);
        used_columns <= max_columns
    });
    Cow::Owned(fitting_part.collect::<String>() + "…")
}

/// Splits `text`, which has no line breaks, into rows of at most `columns`.
pub(crate) fn rows(text: &str, columns: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut begin = 0;
    let mut used_columns = 0;
    for (at, part) in text.grapheme_indices(true) {
        let part_columns = grapheme_width(part);
        if used_columns + part_columns > columns && at > begin {
            rows.push(&text[begin..at]);
            (begin, used_columns) = (at, 0);
        }
        used_columns += part_columns;
    }
    rows.push(&text[begin..]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn east_asian_letters_and_emoji_are_wide() {
        assert_eq!(
            (width("abc"), width("日本"), width("한글"), width("🙂")),
            (3, 4, 4, 2)
        );
        assert_eq!((width("e\u{301}"), width("❤\u{fe0f}")), (1, 2));
        assert!(width("👨\u{200d}👩\u{200d}👧") >= 2);
    }

    #[test]
    fn rows_are_split_between_characters() {
        assert_eq!(rows("日本語", 4), ["日本", "語"]);
        assert_eq!(rows("", 4), [""]);
        assert_eq!(rows("abcd", 4), ["abcd"]);
        assert_eq!(
            rows("日", 1),
            ["日"],
            "a character wider than the row has its own row"
        );
        assert_eq!((&*fit("日本語", 5), &*fit("日本", 4)), ("日本…", "日本"));
    }
}
