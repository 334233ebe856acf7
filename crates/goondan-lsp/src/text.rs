//! Conversion between byte offsets and editor positions.

use std::borrow::Cow;
use std::ops;

use gen_lsp_types::{Position, PositionEncodingKind, Range};

/// Unit in which an editor counts columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ColumnEncoding {
    Utf8,
    /// Supported by every editor.
    #[default]
    Utf16,
    Utf32,
}

impl ColumnEncoding {
    /// Chooses the cheapest encoding that the editor offers. UTF-8 comes first, because the loader
    /// counts bytes.
    pub(crate) fn choose<'o>(offered: impl Iterator<Item = &'o str>) -> Self {
        let offered: Vec<&str> = offered.collect();
        let known = [
            ("utf-8", ColumnEncoding::Utf8),
            ("utf-32", ColumnEncoding::Utf32),
        ];
        known
            .into_iter()
            .find(|(name, _)| offered.contains(name))
            .map(|(_, encoding)| encoding)
            .unwrap_or_default()
    }

    /// Returns the LSP name of the encoding.
    pub(crate) fn kind(self) -> PositionEncodingKind {
        match self {
            ColumnEncoding::Utf8 => PositionEncodingKind::UTF8,
            ColumnEncoding::Utf16 => PositionEncodingKind::UTF16,
            ColumnEncoding::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    /// Returns the number of columns of a character in this encoding.
    fn column_width(self, c: char) -> usize {
        match self {
            ColumnEncoding::Utf8 => c.len_utf8(),
            ColumnEncoding::Utf16 => c.len_utf16(),
            ColumnEncoding::Utf32 => 1,
        }
    }
}

/// Text with the byte offsets of its line starts.
#[derive(Debug)]
pub(crate) struct LineIndex<'t> {
    text: &'t str,
    starts: Cow<'t, [usize]>,
    encoding: ColumnEncoding,
}

impl<'t> LineIndex<'t> {
    pub(crate) fn new(text: &'t str, encoding: ColumnEncoding) -> Self {
        LineIndex {
            text,
            starts: Cow::Owned(line_starts(text)),
            encoding,
        }
    }

    /// Uses line starts that [`line_starts`] computed before.
    pub(crate) fn with_line_starts(
        text: &'t str,
        starts: &'t [usize],
        encoding: ColumnEncoding,
    ) -> Self {
        LineIndex {
            text,
            starts: Cow::Borrowed(starts),
            encoding,
        }
    }

    /// Converts a byte offset. An offset inside a character or after the text is moved back to a
    /// character boundary.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self
            .starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        let before = &self.text[self.starts[line]..offset];
        let character: usize = before.chars().map(|c| self.encoding.column_width(c)).sum();
        Position {
            line: to_u32(line),
            character: to_u32(character),
        }
    }

    /// Converts a position. A position after the end of a line or of the text is moved to that end.
    pub(crate) fn offset(&self, position: Position) -> usize {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let Some(&start) = self.starts.get(line) else {
            return self.text.len();
        };
        let end = self
            .starts
            .get(line + 1)
            .map_or(self.text.len(), |next| *next);
        let column = usize::try_from(position.character).unwrap_or(usize::MAX);
        let mut units = 0;
        for (at, c) in self.text[start..end].char_indices() {
            if units >= column || matches!(c, '\n' | '\r') {
                return start + at;
            }
            units += self.encoding.column_width(c);
        }
        end
    }

    /// Converts a byte range to an LSP range.
    pub(crate) fn range(&self, bytes: ops::Range<usize>) -> Range {
        Range {
            start: self.position(bytes.start),
            end: self.position(bytes.end),
        }
    }
}

/// Returns the byte offsets of the line starts.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = |at: &usize| match bytes[*at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    std::iter::once(0)
        .chain((0..bytes.len()).filter(ends).map(|at| at + 1))
        .collect()
}

/// Converts to the integer type of LSP; values that are too large are limited.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns `text` with an editor's change applied.
pub(crate) fn apply_change(
    text: &str,
    range: Range,
    new: &str,
    encoding: ColumnEncoding,
) -> String {
    let lines = LineIndex::new(text, encoding);
    let start = lines.offset(range.start);
    let end = lines.offset(range.end).max(start);
    [&text[..start], new, &text[end..]].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_are_counted_in_utf_8_utf_16_and_utf_32() {
        let text = "a: é😀x\r\nb\rc";
        let x = text.find('x').unwrap();
        for (encoding, character) in [
            (ColumnEncoding::Utf8, 9),
            (ColumnEncoding::Utf16, 6),
            (ColumnEncoding::Utf32, 5),
        ] {
            let lines = LineIndex::new(text, encoding);
            assert_eq!(lines.position(x), Position { line: 0, character });
            assert_eq!(lines.offset(Position { line: 0, character }), x);
            assert_eq!(
                lines.offset(Position {
                    line: 0,
                    character: 99
                }),
                x + 1
            );
            assert_eq!(
                lines.position(text.len()),
                Position {
                    line: 2,
                    character: 1
                }
            );
            assert_eq!(
                lines.offset(Position {
                    line: 9,
                    character: 0
                }),
                text.len()
            );
        }
    }

    #[test]
    fn the_preferred_column_encoding_is_chosen() {
        assert_eq!(
            ColumnEncoding::choose(["utf-16", "utf-8"].into_iter()),
            ColumnEncoding::Utf8
        );
        assert_eq!(
            ColumnEncoding::choose(["utf-32"].into_iter()),
            ColumnEncoding::Utf32
        );
        assert_eq!(
            ColumnEncoding::choose(["odd"].into_iter()),
            ColumnEncoding::Utf16
        );
    }

    proptest! {
        #[test]
        fn offsets_survive_a_round_trip_through_positions(text in "[aé😀\n\r ]{0,20}", offset in 0..80usize) {
            for encoding in [ColumnEncoding::Utf8, ColumnEncoding::Utf16, ColumnEncoding::Utf32] {
                let lines = LineIndex::new(&text, encoding);
                let offset = text.floor_char_boundary(offset);
                // No position is between the two bytes of a line end.
                let inside = text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                if !inside {
                    prop_assert_eq!(lines.offset(lines.position(offset)), offset);
                }
            }
        }
    }
}
