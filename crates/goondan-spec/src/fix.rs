//! Automatic fixes of diagnostics, as byte edits that leave the rest of the file unchanged.

use std::ops::Range;

use crate::diagnostic::SourcePosition;
use crate::text::{line_end_at, with_line_end};

/// Fix of one diagnostic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// Short description, such as "Change to `model`".
    pub title: String,
    /// Edits of the file that the diagnostic points to. They do not overlap.
    pub edits: Vec<ByteEdit>,
    /// Marks a fix that is safe to apply without confirmation.
    pub certain: bool,
}

/// Replacement of a byte range in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteEdit {
    /// Byte offset of the first replaced byte.
    pub start: usize,
    /// Byte offset after the last replaced byte. Equals `start` for an insertion.
    pub end: usize,
    /// New content of the range.
    pub text: String,
}

impl ByteEdit {
    /// Returns the new content with the line ends of `text`, the whole file.
    pub fn text_in(&self, text: &str) -> String {
        with_line_end(&self.text, line_end_at(text, self.start))
    }
}

impl Fix {
    /// Replaces the value or key at `at` with `text`, quoted if necessary.
    pub(crate) fn replace(at: SourcePosition, text: &str) -> Self {
        let edit = ByteEdit {
            start: at.start,
            end: at.end,
            text: scalar(text),
        };
        Fix {
            title: format!("Change to `{text}`"),
            edits: vec![edit],
            certain: true,
        }
    }

    /// Replaces the value or key at `at` with `text`, which is YAML.
    pub(crate) fn replace_raw(at: SourcePosition, text: &str) -> Self {
        let edit = ByteEdit {
            start: at.start,
            end: at.end,
            text: text.to_owned(),
        };
        Fix {
            title: format!("Change to `{text}`"),
            edits: vec![edit],
            certain: true,
        }
    }

    /// Creates the fix that puts a value in quotes.
    pub(crate) fn quote(at: SourcePosition) -> Self {
        Fix {
            title: "Put it in quotes".to_owned(),
            edits: vec![insert(at.start, "\""), insert(at.end, "\"")],
            certain: true,
        }
    }

    /// Adds a field to the map at `map`. `first` is the position of its first key.
    pub(crate) fn add_field(
        map: SourcePosition,
        first: Option<SourcePosition>,
        name: &str,
        value: &str,
    ) -> Self {
        let title = format!("Add `{name}`");
        let field = format!("{name}: {value}");
        let edit = match first {
            // A block map begins at its first key.
            Some(first) if first.start == map.start => {
                let indentation = " ".repeat(first.column.saturating_sub(1));
                insert(first.start, &format!("{}\n{indentation}", field.trim_end()))
            }
            Some(first) => insert(first.start, &format!("{}, ", field.trim_end())),
            None => insert(map.start + 1, field.trim_end()),
        };
        Fix {
            title,
            edits: vec![edit],
            certain: false,
        }
    }

    /// Marks the fix as safe to apply without confirmation.
    #[must_use]
    pub(crate) fn mark_certain(mut self) -> Self {
        self.certain = true;
        self
    }

    /// Marks the fix as one that needs the user's confirmation.
    #[must_use]
    pub(crate) fn mark_uncertain(mut self) -> Self {
        self.certain = false;
        self
    }

    /// Returns the byte range from the first to the last edit.
    fn range(&self) -> Range<usize> {
        let start = self.edits.iter().map(|edit| edit.start).min().unwrap_or(0);
        start..self.edits.iter().map(|edit| edit.end).max().unwrap_or(0)
    }
}

/// Applies `fixes` to `text` and returns the result with the applied fixes. A fix that overlaps or
/// touches an earlier one is skipped.
pub fn apply<'f>(text: &str, fixes: impl IntoIterator<Item = &'f Fix>) -> (String, Vec<&'f Fix>) {
    let mut fixes: Vec<&Fix> = fixes
        .into_iter()
        .filter(|fix| is_applicable(fix, text))
        .collect();
    fixes.sort_by_key(|fix| (fix.range().start, fix.range().end));
    let mut done = Vec::new();
    let mut behind = None;
    for fix in fixes {
        if behind.is_none_or(|end| end < fix.range().start) {
            behind = Some(fix.range().end);
            done.push(fix);
        }
    }
    let mut edited = text.to_owned();
    for edit in done.iter().rev().flat_map(|fix| fix.edits.iter().rev()) {
        edited.replace_range(edit.start..edit.end, &edit.text_in(text));
    }
    (edited, done)
}

/// Returns true if every edit of `fix` is in order and on character boundaries of `text`.
fn is_applicable(fix: &Fix, text: &str) -> bool {
    let is_whole_scalar = |edit: &ByteEdit| {
        edit.start <= edit.end
            && text.is_char_boundary(edit.start)
            && text.is_char_boundary(edit.end)
    };
    !fix.edits.is_empty()
        && fix.edits.iter().all(is_whole_scalar)
        && fix.edits.is_sorted_by_key(|edit| (edit.start, edit.end))
}

/// Creates an edit that inserts text at a byte offset.
fn insert(at: usize, text: &str) -> ByteEdit {
    ByteEdit {
        start: at,
        end: at,
        text: text.to_owned(),
    }
}

/// Formats `text` as a YAML scalar: plain if every YAML parser reads it as that string, else in
/// quotes.
pub fn scalar(text: &str) -> String {
    let has_plain_start =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '.' || c == '/');
    let is_plain_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_text = |text: &str| {
        matches!(
            crate::yaml::from_str::<serde_json::Value>(text),
            Ok(serde_json::Value::String(_))
        )
    };
    if has_plain_start && text.chars().all(is_plain_char) && is_text(text) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::position_of_bytes;

    fn at(text: &str, word: &str) -> SourcePosition {
        let start = text.find(word).unwrap();
        position_of_bytes(text, start, start + word.len())
    }

    #[test]
    fn edits_change_only_their_bytes() {
        let text = "a: é  # c\r\nmodle: x\r\nb: 7\n";
        let fixes = [
            Fix::quote(at(text, "7")),
            Fix::replace(at(text, "modle"), "model"),
        ];
        let (edited, done) = apply(text, &fixes);
        assert_eq!(
            (edited.as_str(), done.len()),
            ("a: é  # c\r\nmodel: x\r\nb: \"7\"\n", 2)
        );
    }

    #[test]
    fn overlapping_and_out_of_range_fixes_are_skipped() {
        let text = "é: word";
        let fixes = [
            Fix::replace(at(text, "word"), "a"),
            Fix::replace(at(text, "ord"), "b"),
        ];
        assert_eq!(apply(text, &fixes).0, "é: a");
        let odd = Fix {
            edits: vec![ByteEdit {
                start: 1,
                end: 99,
                text: String::new(),
            }],
            ..fixes[0].clone()
        };
        assert_eq!(apply(text, [&odd]), (text.to_owned(), Vec::new()));
    }

    #[test]
    fn fields_are_added_to_block_and_flow_maps() {
        let add = |text: &str, map: &str, first: Option<&str>| {
            let fix = Fix::add_field(
                at(text, map),
                first.map(|first| at(text, first)),
                "kind",
                "Tool",
            );
            apply(text, [&fix]).0
        };
        assert_eq!(
            add("- a: 1\n  b: 2\n", "a: 1", Some("a")),
            "- kind: Tool\n  a: 1\n  b: 2\n"
        );
        assert_eq!(
            add("x: {a: 1}\n", "{a", Some("a")),
            "x: {kind: Tool, a: 1}\n"
        );
        assert_eq!(add("x: {}\n", "{", None), "x: {kind: Tool}\n");
    }

    #[test]
    fn a_written_scalar_reads_back_as_the_same_text() {
        for text in [
            "model",
            "Tool/bash",
            "7",
            "true",
            "",
            "a: b",
            "@x",
            "null",
            "é\n",
            "-",
            "1e3",
            ".5",
        ] {
            let written = format!("[{}]", scalar(text));
            assert_eq!(
                crate::yaml::from_str::<Vec<String>>(&written).unwrap(),
                [text],
                "{written}"
            );
            assert!(
                matches!(
                    crate::yaml::from_str(&scalar(text)),
                    Ok(serde_json::Value::String(_))
                ),
                "{text}"
            );
        }
    }
}
