//! What a tool may change in a file to repair a mistake: edits of bytes that leave everything else as it is.

use std::ops::Range;

use crate::diagnostic::Position;

/// A repair of one mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// What it does, in a few words such as "Change to `model`".
    pub title: String,
    /// The edits of the file that the diagnostic is about. They do not overlap.
    pub edits: Vec<Edit>,
    /// Whether it may be done without asking: a person who reads the diagnostic would do the same.
    pub certain: bool,
}

/// A piece of a file and what stands there afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Byte offset of the first byte that is replaced.
    pub start: usize,
    /// Byte offset behind the last one; as `start` where text is put in.
    pub end: usize,
    /// What stands there afterwards.
    pub text: String,
}

impl Fix {
    /// Writes `text` in place of the value or key at `at`.
    pub(crate) fn replace(at: Position, text: &str) -> Self {
        let edit = Edit {
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

    /// Puts the value at `at` in quotes.
    pub(crate) fn quote(at: Position) -> Self {
        Fix {
            title: "Put it in quotes".to_owned(),
            edits: vec![insert(at.start, "\""), insert(at.end, "\"")],
            certain: true,
        }
    }

    /// Puts `text` before what stands at `at`.
    pub(crate) fn before(at: Position, text: &str) -> Self {
        Fix {
            title: format!("Put `{}` before it", text.trim_end()),
            edits: vec![insert(at.start, text)],
            certain: true,
        }
    }

    /// Adds a field to the map at `map`, of which `first` is the first key.
    pub(crate) fn add_field(
        map: Position,
        first: Option<Position>,
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

    /// The same, to be done without asking.
    #[must_use]
    pub(crate) fn surely(mut self) -> Self {
        self.certain = true;
        self
    }

    /// The same, to be done only where a person chooses it.
    #[must_use]
    pub(crate) fn perhaps(mut self) -> Self {
        self.certain = false;
        self
    }

    fn range(&self) -> Range<usize> {
        let start = self.edits.iter().map(|edit| edit.start).min().unwrap_or(0);
        start..self.edits.iter().map(|edit| edit.end).max().unwrap_or(0)
    }
}

/// `text` with `fixes`, and how many of them were done. One that meets an earlier one waits for the next time.
pub fn apply<'f>(text: &str, fixes: impl IntoIterator<Item = &'f Fix>) -> (String, Vec<&'f Fix>) {
    let mut fixes: Vec<&Fix> = fixes.into_iter().filter(|fix| fits(fix, text)).collect();
    fixes.sort_by_key(|fix| (fix.range().start, fix.range().end));
    let (mut done, mut behind) = (Vec::new(), None);
    for fix in fixes {
        if behind.is_none_or(|end| end < fix.range().start) {
            behind = Some(fix.range().end);
            done.push(fix);
        }
    }
    let mut edited = text.to_owned();
    for edit in done.iter().rev().flat_map(|fix| fix.edits.iter().rev()) {
        edited.replace_range(edit.start..edit.end, &edit.text);
    }
    (edited, done)
}

/// Whether every edit of `fix` begins and ends between two characters of `text`, in order.
fn fits(fix: &Fix, text: &str) -> bool {
    let whole = |edit: &Edit| {
        edit.start <= edit.end
            && text.is_char_boundary(edit.start)
            && text.is_char_boundary(edit.end)
    };
    !fix.edits.is_empty()
        && fix.edits.iter().all(whole)
        && fix.edits.is_sorted_by_key(|edit| (edit.start, edit.end))
}

fn insert(at: usize, text: &str) -> Edit {
    Edit {
        start: at,
        end: at,
        text: text.to_owned(),
    }
}

/// `text` as a value in YAML: bare where that means the same text everywhere, else in quotes.
pub fn scalar(text: &str) -> String {
    let begins =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '.' || c == '/');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_text = |text: &str| {
        matches!(
            crate::yaml::from_str::<serde_json::Value>(text),
            Ok(serde_json::Value::String(_))
        )
    };
    match begins && text.chars().all(plain) && is_text(text) {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::position_of_bytes;

    fn at(text: &str, word: &str) -> Position {
        let start = text.find(word).unwrap();
        position_of_bytes(text, start, start + word.len())
    }

    #[test]
    fn edits_change_their_bytes_alone() {
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
    fn what_overlaps_or_does_not_fit_is_left() {
        let text = "é: word";
        let fixes = [
            Fix::replace(at(text, "word"), "a"),
            Fix::replace(at(text, "ord"), "b"),
        ];
        assert_eq!(apply(text, &fixes).0, "é: a");
        let odd = Fix {
            edits: vec![Edit {
                start: 1,
                end: 99,
                text: String::new(),
            }],
            ..fixes[0].clone()
        };
        assert_eq!(apply(text, [&odd]), (text.to_owned(), Vec::new()));
    }

    #[test]
    fn fields_are_added_to_maps_of_either_form() {
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
    fn a_scalar_means_its_text() {
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
