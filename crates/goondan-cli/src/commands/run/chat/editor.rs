//! Editor of the chat's input line: text, cursor, and earlier inputs.

use goondan::internal::untrusted_text::{KeptCharacters, TextEscaper};
use unicode_segmentation::UnicodeSegmentation;

use super::pressed_key::KeyPress;
use crate::output::width::width;

/// Input being typed, with its history.
#[derive(Debug, Default)]
pub(super) struct LineEditor {
    text: String,
    /// Cursor position in bytes, always between graphemes.
    at: usize,
    /// Deleted text that Ctrl-Y inserts.
    killed: String,
    /// Earlier inputs, latest last.
    earlier: Vec<String>,
    /// Index of the earlier input on display, and the text typed before.
    shown: Option<(usize, String)>,
}

impl LineEditor {
    /// Creates an editor with the inputs of earlier chats.
    pub(super) fn with(earlier: Vec<String>) -> Self {
        LineEditor {
            earlier,
            ..LineEditor::default()
        }
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(super) fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// Returns true if no text is typed.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the whole text.
    pub(super) fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.at = self.text.len();
        self.shown = None;
    }

    /// Takes the input and clears the editor.
    pub(super) fn take(&mut self) -> String {
        self.at = 0;
        self.shown = None;
        std::mem::take(&mut self.text)
    }

    /// Adds an input to the history, unless it repeats the last one.
    pub(super) fn remember(&mut self, input: &str) {
        if self.earlier.last().is_none_or(|last| last != input) {
            self.earlier.push(input.to_owned());
        }
    }

    /// Inserts `text` before the cursor.
    pub(super) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.at, text);
        self.at += text.len();
    }

    /// Applies an editing key. Other keys have no effect.
    pub(super) fn press(&mut self, key: &KeyPress) {
        match key {
            KeyPress::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyPress::Paste(text) => self.insert(&text.replace("\r\n", "\n").replace('\r', "\n")),
            KeyPress::NewLine => self.insert("\n"),
            KeyPress::Backspace => self.remove(self.left(), self.at),
            KeyPress::Delete => self.remove(self.at, self.right()),
            KeyPress::DeleteWord => self.kill(self.word_left(), self.at),
            KeyPress::DeleteNextWord => self.kill(self.at, self.word_right()),
            KeyPress::KillToStart => {
                self.kill(or_next(self.line_start(), self.at, self.left()), self.at)
            }
            KeyPress::KillToEnd => {
                self.kill(self.at, or_next(self.line_end(), self.at, self.right()))
            }
            KeyPress::Yank => self.insert(&self.killed.clone()),
            KeyPress::Left => self.at = self.left(),
            KeyPress::Right => self.at = self.right(),
            KeyPress::WordLeft => self.at = self.word_left(),
            KeyPress::WordRight => self.at = self.word_right(),
            KeyPress::Home => self.at = self.line_start(),
            KeyPress::End => self.at = self.line_end(),
            KeyPress::Up => self.up(),
            KeyPress::Down => self.down(),
            _ => {}
        }
    }

    /// Removes the bytes `from..to` and moves the cursor there.
    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    /// Removes the bytes `from..to`, so that Ctrl-Y can insert them again.
    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.text[from..to].clone_into(&mut self.killed);
            self.remove(from, to);
        }
    }

    /// Returns the cursor position one grapheme to the left.
    fn left(&self) -> usize {
        self.at
            - self
                .before()
                .graphemes(true)
                .next_back()
                .map_or(0, str::len)
    }

    /// Returns the cursor position one grapheme to the right.
    fn right(&self) -> usize {
        self.at
            + self.text[self.at..]
                .graphemes(true)
                .next()
                .map_or(0, str::len)
    }

    /// Returns the start of the word before the cursor.
    fn word_left(&self) -> usize {
        let before = self
            .before()
            .trim_end_matches(|c: char| !c.is_alphanumeric());
        before.trim_end_matches(char::is_alphanumeric).len()
    }

    /// Returns the end of the word after the cursor.
    fn word_right(&self) -> usize {
        let after = self.text[self.at..].trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - after.trim_start_matches(char::is_alphanumeric).len()
    }

    /// Returns the start of the current line.
    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    /// Returns the end of the current line, before its line break.
    fn line_end(&self) -> usize {
        self.text[self.at..]
            .find('\n')
            .map_or(self.text.len(), |at| self.at + at)
    }

    /// Moves to the line above; from the first line, to the previous input.
    fn up(&mut self) {
        let (start, column) = (self.line_start(), self.column());
        match start.checked_sub(1) {
            Some(end) => {
                let start = self.text[..end].rfind('\n').map_or(0, |at| at + 1);
                self.at = start + fitting_length(&self.text[start..end], column);
            }
            None => self.show(
                self.shown
                    .as_ref()
                    .map_or(self.earlier.len(), |(index, _)| *index)
                    .checked_sub(1),
            ),
        }
    }

    /// Moves to the line below; from the last line, to the next input.
    fn down(&mut self) {
        let (end, column) = (self.line_end(), self.column());
        if end < self.text.len() {
            let rest = &self.text[end + 1..];
            let line = rest.split('\n').next().unwrap_or_default();
            self.at = end + 1 + fitting_length(line, column);
        } else if let Some((index, _)) = &self.shown {
            self.show(Some(index + 1));
        }
    }

    /// Returns the column of the cursor in the current line.
    fn column(&self) -> usize {
        width(&self.text[self.line_start()..self.at])
    }

    /// Shows an earlier input; after the latest comes the text typed before.
    fn show(&mut self, index: Option<usize>) {
        let Some(index) = index else { return };
        let typed = self
            .shown
            .take()
            .map_or_else(|| self.text.clone(), |(_, typed)| typed);
        match self.earlier.get(index).cloned() {
            Some(text) => {
                self.set(&text);
                self.shown = Some((index, typed));
            }
            None => self.set(&typed),
        }
    }

    /// Wraps the text to rows of at most `columns`; invisible characters are escaped.
    /// The cursor is returned as the row, and the number of bytes before it in that row.
    pub(super) fn rows(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let mut escaper = TextEscaper::new(KeptCharacters::Writing);
        let mut rows = vec![String::new()];
        let mut used = 0;
        let mut cursor = (0, 0);
        for (at, letter) in self.text.grapheme_indices(true) {
            if at == self.at {
                cursor = end_position(&rows);
            }
            if matches!(letter, "\n" | "\r\n") {
                rows.push(String::new());
                used = 0;
                escaper = TextEscaper::new(KeptCharacters::Writing);
                continue;
            }
            let escaped = if letter == "\t" {
                "    ".into()
            } else {
                escaper.escape(letter)
            };
            // An escaped character may be wrapped like any other text.
            for (index, part) in escaped.graphemes(true).enumerate() {
                let wide = width(part);
                if used + wide > columns && used > 0 {
                    rows.push(String::new());
                    used = 0;
                    if at == self.at && index == 0 {
                        cursor = end_position(&rows);
                    }
                }
                used += wide;
                if let Some(row) = rows.last_mut() {
                    row.push_str(part);
                }
            }
        }
        if self.at == self.text.len() {
            if used >= columns {
                rows.push(String::new());
            }
            cursor = end_position(&rows);
        }
        (rows, cursor)
    }
}

/// Returns the end of the last row.
fn end_position(rows: &[String]) -> (usize, usize) {
    (rows.len() - 1, rows.last().map_or(0, String::len))
}

/// Returns `end`, or `next` if the cursor is already at `end`.
fn or_next(end: usize, at: usize, next: usize) -> usize {
    if end == at { next } else { end }
}

/// Returns how many bytes of `line` fit into `columns`.
fn fitting_length(line: &str, columns: usize) -> usize {
    let mut used_columns = 0;
    let fitting_letters = line.graphemes(true).take_while(|letter| {
        used_columns += width(letter);
        used_columns <= columns
    });
    fitting_letters.map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[KeyPress]) -> LineEditor {
        let mut editor = LineEditor::default();
        keys.iter().for_each(|key| editor.press(key));
        editor
    }

    fn text(text: &str) -> Vec<KeyPress> {
        text.chars()
            .map(|c| {
                if c == '\n' {
                    KeyPress::NewLine
                } else {
                    KeyPress::Char(c)
                }
            })
            .collect()
    }

    /// Returns the text with a bar at the cursor.
    fn after(begin: &str, keys: &[KeyPress]) -> String {
        let mut editor = typed(&text(begin));
        keys.iter().for_each(|key| editor.press(key));
        format!(
            "{}|{}",
            editor.before(),
            &editor.text()[editor.before().len()..]
        )
    }

    #[test]
    fn keys_move_over_and_delete_whole_characters() {
        assert_eq!(
            after(
                "a👨\u{200d}👩\u{200d}👧e\u{301}",
                &[KeyPress::Backspace, KeyPress::Left]
            ),
            "a|👨\u{200d}👩\u{200d}👧"
        );
        assert_eq!(
            after("one two, three", &[KeyPress::WordLeft, KeyPress::WordLeft]),
            "one |two, three"
        );
        assert_eq!(
            after("one two  ", &[KeyPress::DeleteWord, KeyPress::Char('x')]),
            "one x|"
        );
        assert_eq!(
            after(
                "one two",
                &[
                    KeyPress::Home,
                    KeyPress::WordRight,
                    KeyPress::KillToEnd,
                    KeyPress::Yank,
                    KeyPress::Yank
                ]
            ),
            "one two two|"
        );
        assert_eq!(after("one\ntwo", &[KeyPress::KillToStart]), "one\n|");
        assert_eq!(
            after("one\ntwo", &[KeyPress::KillToStart, KeyPress::KillToStart]),
            "one|"
        );
        assert_eq!(
            after("one\ntwo", &[KeyPress::Up, KeyPress::KillToEnd]),
            "one|two"
        );
        assert_eq!(
            after(
                "ab",
                &[
                    KeyPress::Home,
                    KeyPress::Delete,
                    KeyPress::Right,
                    KeyPress::Right,
                    KeyPress::Delete
                ]
            ),
            "b|"
        );
        assert_eq!(after("日本語\nabcd", &[KeyPress::Up]), "日本|語\nabcd");
        assert_eq!(
            after(
                "abcdef\nx\nabcd",
                &[KeyPress::Up, KeyPress::Up, KeyPress::Down]
            ),
            "abcdef\nx|\nabcd"
        );
    }

    #[test]
    fn arrow_keys_recall_earlier_inputs_and_keep_the_unsent_input() {
        let mut editor = LineEditor::with(vec!["one".to_owned(), "two".to_owned()]);
        text("dr").iter().for_each(|key| editor.press(key));
        let mut seen = Vec::new();
        for key in [
            KeyPress::Up,
            KeyPress::Up,
            KeyPress::Up,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
        ] {
            editor.press(&key);
            seen.push(editor.text().to_owned());
        }
        assert_eq!(seen, ["two", "one", "one", "two", "dr", "dr"]);
    }

    #[test]
    fn rows_fit_the_width_and_include_the_cursor_position() {
        let editor = typed(&text("日本語ab\n\u{202e}"));
        let (rows, cursor) = editor.rows(4);
        assert_eq!(
            (rows, cursor),
            (
                ["日本", "語ab", "\\u{2", "02e}", ""]
                    .map(str::to_owned)
                    .to_vec(),
                (4, 0)
            )
        );
        assert_eq!(
            typed(&text("abcd")).rows(4),
            (vec!["abcd".to_owned(), String::new()], (1, 0))
        );
        let editor = typed(&[text("abcde"), vec![KeyPress::Left]].concat());
        assert_eq!(editor.rows(4).1, (1, 0));
        // A zero-width character comes before a letter that does not fit.
        assert_eq!(
            typed(&text("\u{1cf00}ㄱ ")).rows(1).0,
            ["\u{1cf00}ㄱ", " ", ""]
        );
    }

    #[test]
    fn pasted_lines_stay_one_input() {
        let pasted: String = (1..=200).map(|number| format!("line {number}\r")).collect();
        let editor = typed(&[KeyPress::Paste(pasted)]);
        assert_eq!(
            (editor.text().lines().count(), editor.rows(80).0.len()),
            (200, 201)
        );
    }

    fn any_key() -> impl Strategy<Value = KeyPress> {
        prop_oneof![
            any::<char>().prop_map(KeyPress::Char),
            "\\PC{0,8}".prop_map(KeyPress::Paste),
            proptest::sample::select(vec![
                KeyPress::NewLine,
                KeyPress::Backspace,
                KeyPress::Delete,
                KeyPress::Left,
                KeyPress::Right,
                KeyPress::Up,
                KeyPress::Down,
                KeyPress::WordLeft,
                KeyPress::WordRight,
                KeyPress::Home,
                KeyPress::End,
                KeyPress::DeleteWord,
                KeyPress::DeleteNextWord,
                KeyPress::KillToStart,
                KeyPress::KillToEnd,
                KeyPress::Yank,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn the_cursor_stays_inside_the_text_for_any_keys(
            keys in proptest::collection::vec(any_key(), 0..40), columns in 1_usize..20,
        ) {
            let editor = typed(&keys);
            let (rows, (row, at)) = editor.rows(columns);
            prop_assert!(rows[row].is_char_boundary(at));
            let seen = |row: &String| row.graphemes(true).filter(|letter| width(letter) > 0).count();
            let fits = |row: &String| width(row) <= columns || seen(row) == 1;
            prop_assert!(rows.iter().all(fits), "{:?}", rows);
        }
    }
}
