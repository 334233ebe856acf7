//! Source texts for diagnostics, and conversions between lines, columns and bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::SourcePosition;

/// Text of every file that was read, by its path relative to the bundle. Secrets are masked.
#[derive(Debug, Clone, Default)]
pub struct SourceTexts {
    texts: BTreeMap<String, Arc<str>>,
}

impl SourceTexts {
    /// Returns the text of `file`.
    pub fn get(&self, file: &str) -> Option<&str> {
        self.texts.get(file).map(AsRef::as_ref)
    }

    /// Adds or replaces the text of `file`.
    pub fn insert(&mut self, file: impl Into<String>, text: impl Into<Arc<str>>) {
        self.texts.insert(file.into(), text.into());
    }

    /// Returns the file paths, sorted.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }

    /// Masks `ranges` of `file` with asterisks so that no output shows them. Each byte is replaced
    /// by one byte, so positions stay valid.
    pub(crate) fn mask_ranges(&mut self, file: &str, ranges: &[Range<usize>]) {
        let Some(text) = self.texts.get(file) else {
            return;
        };
        let mut bytes = text.as_bytes().to_vec();
        for range in ranges {
            let start = text.floor_char_boundary(range.start);
            let end = text.ceil_char_boundary(range.end.min(text.len()));
            for byte in bytes.get_mut(start..end).unwrap_or_default() {
                if !matches!(byte, b'\n' | b'\r') {
                    *byte = b'*';
                }
            }
        }
        if let Ok(blotted) = String::from_utf8(bytes) {
            self.texts.insert(file.to_owned(), blotted.into());
        }
    }
}

/// Returns the position of the bytes `start..end`. Offsets outside `text` are clamped to its end.
pub(crate) fn position_of_bytes(text: &str, start: usize, end: usize) -> SourcePosition {
    let start = text.floor_char_boundary(start);
    let end = text.ceil_char_boundary(end.max(start));
    let before = &text[..start];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    SourcePosition {
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        start,
        end,
    }
}

/// Returns the position of the character at a line and column, clamped to `text`.
pub(crate) fn position_of_column(text: &str, line: usize, column: usize) -> SourcePosition {
    let mut line_start = 0;
    for _ in 1..line.max(1) {
        match text[line_start..].find('\n') {
            Some(newline) => line_start += newline + 1,
            None => break,
        }
    }
    let rest = &text[line_start..];
    let line_text = &rest[..rest.find('\n').unwrap_or(rest.len())];
    let offset = line_text
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line_text.len(), |(at, _)| at);
    let start = line_start + offset;
    position_of_bytes(
        text,
        start,
        text.ceil_char_boundary((start + 1).min(text.len())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "a: é😀x\nb: 1";
        let x = position_of_bytes(text, text.find('x').unwrap(), text.find('x').unwrap() + 1);
        assert_eq!((x.line, x.column), (1, 6));
        assert_eq!(position_of_column(text, 1, 6), x);
        assert_eq!(position_of_column(text, 2, 4).start, text.len() - 1);
    }

    #[test]
    fn positions_out_of_range_move_to_the_nearest_end() {
        assert_eq!(position_of_column("ab\n", 9, 9).start, 3);
        assert_eq!(position_of_column("", 1, 1).start, 0);
        assert_eq!(
            position_of_bytes("é", 1, 99),
            SourcePosition {
                line: 1,
                column: 1,
                start: 0,
                end: 2
            }
        );
    }

    #[test]
    fn masking_keeps_lines_and_lengths() {
        let mut sources = SourceTexts::default();
        sources.insert("f", "k: sé\nx: y");
        sources.mask_ranges("f", &[3..7, 10..11]);
        assert_eq!(sources.get("f"), Some("k: ***\nx: *"));
    }
}
