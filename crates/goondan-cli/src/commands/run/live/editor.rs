//! The input that is being typed.

use goondan::inside::shown::{Escaper, Kept};
use unicode_segmentation::UnicodeSegmentation;

use super::keys::Key;
use crate::output::width::width;

/// What is typed, with the inputs before it.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// Where the cursor stands, in bytes; between letters.
    at: usize,
    /// What Ctrl-Y brings back.
    killed: String,
    /// Earlier inputs, the latest last.
    earlier: Vec<String>,
    /// Which of them is shown, and what was typed before that.
    shown: Option<(usize, String)>,
}

impl Editor {
    /// With inputs of earlier chats.
    pub(super) fn with(earlier: Vec<String>) -> Self {
        Editor {
            earlier,
            ..Editor::default()
        }
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub(super) fn before(&self) -> &str {
        &self.text[..self.at]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts `text` in place of everything.
    pub(super) fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.at = self.text.len();
        self.shown = None;
    }

    /// Takes the input; the next one begins.
    pub(super) fn take(&mut self) -> String {
        self.at = 0;
        self.shown = None;
        std::mem::take(&mut self.text)
    }

    /// Remembers an input.
    pub(super) fn remember(&mut self, input: &str) {
        if self.earlier.last().is_none_or(|last| last != input) {
            self.earlier.push(input.to_owned());
        }
    }

    /// Puts `text` in front of the cursor.
    pub(super) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.at, text);
        self.at += text.len();
    }

    /// Does what a key does to a text. Others do nothing.
    pub(super) fn press(&mut self, key: &Key) {
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text.replace("\r\n", "\n").replace('\r', "\n")),
            Key::NewLine => self.insert("\n"),
            Key::Backspace => self.remove(self.left(), self.at),
            Key::Delete => self.remove(self.at, self.right()),
            Key::DeleteWord => self.kill(self.word_left(), self.at),
            Key::DeleteNextWord => self.kill(self.at, self.word_right()),
            Key::KillToStart => {
                self.kill(or_next(self.line_start(), self.at, self.left()), self.at)
            }
            Key::KillToEnd => self.kill(self.at, or_next(self.line_end(), self.at, self.right())),
            Key::Yank => self.insert(&self.killed.clone()),
            Key::Left => self.at = self.left(),
            Key::Right => self.at = self.right(),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::Home => self.at = self.line_start(),
            Key::End => self.at = self.line_end(),
            Key::Up => self.up(),
            Key::Down => self.down(),
            _ => {}
        }
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.text[from..to].clone_into(&mut self.killed);
            self.remove(from, to);
        }
    }

    fn left(&self) -> usize {
        self.at
            - self
                .before()
                .graphemes(true)
                .next_back()
                .map_or(0, str::len)
    }

    fn right(&self) -> usize {
        self.at
            + self.text[self.at..]
                .graphemes(true)
                .next()
                .map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        let before = self
            .before()
            .trim_end_matches(|c: char| !c.is_alphanumeric());
        before.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let after = self.text[self.at..].trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - after.trim_start_matches(char::is_alphanumeric).len()
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..]
            .find('\n')
            .map_or(self.text.len(), |at| self.at + at)
    }

    /// To the line above; from the first one to the input before.
    fn up(&mut self) {
        let (start, column) = (self.line_start(), self.column());
        match start.checked_sub(1) {
            Some(end) => {
                let start = self.text[..end].rfind('\n').map_or(0, |at| at + 1);
                self.at = start + within(&self.text[start..end], column);
            }
            None => self.show(
                self.shown
                    .as_ref()
                    .map_or(self.earlier.len(), |(index, _)| *index)
                    .checked_sub(1),
            ),
        }
    }

    /// To the line below; from the last one to the input after.
    fn down(&mut self) {
        let (end, column) = (self.line_end(), self.column());
        if end < self.text.len() {
            let rest = &self.text[end + 1..];
            let line = rest.split('\n').next().unwrap_or_default();
            self.at = end + 1 + within(line, column);
        } else if let Some((index, _)) = &self.shown {
            self.show(Some(index + 1));
        }
    }

    fn column(&self) -> usize {
        width(&self.text[self.line_start()..self.at])
    }

    /// Shows an earlier input; behind the latest stands what was typed before.
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

    /// The text as rows of at most `columns`, and where the cursor stands: the row, and how many bytes of it are before it.
    /// What can't be seen is shown as an escape.
    pub(super) fn rows(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let mut escaper = Escaper::new(Kept::Writing);
        let (mut rows, mut used, mut cursor) = (vec![String::new()], 0, (0, 0));
        for (at, letter) in self.text.grapheme_indices(true) {
            if at == self.at {
                cursor = here(&rows);
            }
            if matches!(letter, "\n" | "\r\n") {
                rows.push(String::new());
                used = 0;
                escaper = Escaper::new(Kept::Writing);
                continue;
            }
            let shown = if letter == "\t" {
                "    ".into()
            } else {
                escaper.escape(letter)
            };
            // An escape may be broken as any other text.
            for (index, part) in shown.graphemes(true).enumerate() {
                let wide = width(part);
                if used + wide > columns && used > 0 {
                    rows.push(String::new());
                    used = 0;
                    if at == self.at && index == 0 {
                        cursor = here(&rows);
                    }
                }
                used += wide;
                rows.last_mut()
                    .into_iter()
                    .for_each(|row| row.push_str(part));
            }
        }
        if self.at == self.text.len() {
            if used >= columns {
                rows.push(String::new());
            }
            cursor = here(&rows);
        }
        (rows, cursor)
    }
}

/// The end of the last row.
fn here(rows: &[String]) -> (usize, usize) {
    (rows.len() - 1, rows.last().map_or(0, String::len))
}

/// `end`, unless the cursor is there already: then what is next to it.
fn or_next(end: usize, at: usize, next: usize) -> usize {
    if end == at { next } else { end }
}

/// How many bytes of `line` have room in `columns`.
fn within(line: &str, columns: usize) -> usize {
    let mut used = 0;
    let fits = line.graphemes(true).take_while(|letter| {
        used += width(letter);
        used <= columns
    });
    fits.map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[Key]) -> Editor {
        let mut editor = Editor::default();
        keys.iter().for_each(|key| editor.press(key));
        editor
    }

    fn text(text: &str) -> Vec<Key> {
        text.chars()
            .map(|c| {
                if c == '\n' {
                    Key::NewLine
                } else {
                    Key::Char(c)
                }
            })
            .collect()
    }

    /// The text with a bar where the cursor is.
    fn after(begin: &str, keys: &[Key]) -> String {
        let mut editor = typed(&text(begin));
        keys.iter().for_each(|key| editor.press(key));
        format!(
            "{}|{}",
            editor.before(),
            &editor.text()[editor.before().len()..]
        )
    }

    #[test]
    fn keys_move_and_delete_whole_letters() {
        assert_eq!(
            after(
                "a👨\u{200d}👩\u{200d}👧e\u{301}",
                &[Key::Backspace, Key::Left]
            ),
            "a|👨\u{200d}👩\u{200d}👧"
        );
        assert_eq!(
            after("one two, three", &[Key::WordLeft, Key::WordLeft]),
            "one |two, three"
        );
        assert_eq!(
            after("one two  ", &[Key::DeleteWord, Key::Char('x')]),
            "one x|"
        );
        assert_eq!(
            after(
                "one two",
                &[
                    Key::Home,
                    Key::WordRight,
                    Key::KillToEnd,
                    Key::Yank,
                    Key::Yank
                ]
            ),
            "one two two|"
        );
        assert_eq!(after("one\ntwo", &[Key::KillToStart]), "one\n|");
        assert_eq!(
            after("one\ntwo", &[Key::KillToStart, Key::KillToStart]),
            "one|"
        );
        assert_eq!(after("one\ntwo", &[Key::Up, Key::KillToEnd]), "one|two");
        assert_eq!(
            after(
                "ab",
                &[Key::Home, Key::Delete, Key::Right, Key::Right, Key::Delete]
            ),
            "b|"
        );
        assert_eq!(after("日本語\nabcd", &[Key::Up]), "日本|語\nabcd");
        assert_eq!(
            after("abcdef\nx\nabcd", &[Key::Up, Key::Up, Key::Down]),
            "abcdef\nx|\nabcd"
        );
    }

    #[test]
    fn earlier_inputs_come_back_and_what_was_typed_is_kept() {
        let mut editor = Editor::with(vec!["one".to_owned(), "two".to_owned()]);
        text("dr").iter().for_each(|key| editor.press(key));
        let mut seen = Vec::new();
        for key in [Key::Up, Key::Up, Key::Up, Key::Down, Key::Down, Key::Down] {
            editor.press(&key);
            seen.push(editor.text().to_owned());
        }
        assert_eq!(seen, ["two", "one", "one", "two", "dr", "dr"]);
    }

    #[test]
    fn rows_are_no_wider_than_there_is_room_and_the_cursor_is_where_it_is() {
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
        let editor = typed(&[text("abcde"), vec![Key::Left]].concat());
        assert_eq!(editor.rows(4).1, (1, 0));
        // What takes no room stands before a letter for which there is too little.
        assert_eq!(
            typed(&text("\u{1cf00}ㄱ ")).rows(1).0,
            ["\u{1cf00}ㄱ", " ", ""]
        );
    }

    #[test]
    fn what_is_pasted_stays_one_input() {
        let pasted: String = (1..=200).map(|number| format!("line {number}\r")).collect();
        let editor = typed(&[Key::Paste(pasted)]);
        assert_eq!(
            (editor.text().lines().count(), editor.rows(80).0.len()),
            (200, 201)
        );
    }

    fn any_key() -> impl Strategy<Value = Key> {
        prop_oneof![
            any::<char>().prop_map(Key::Char),
            "\\PC{0,8}".prop_map(Key::Paste),
            proptest::sample::select(vec![
                Key::NewLine,
                Key::Backspace,
                Key::Delete,
                Key::Left,
                Key::Right,
                Key::Up,
                Key::Down,
                Key::WordLeft,
                Key::WordRight,
                Key::Home,
                Key::End,
                Key::DeleteWord,
                Key::DeleteNextWord,
                Key::KillToStart,
                Key::KillToEnd,
                Key::Yank,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_pressed_the_cursor_stands_in_the_text(
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
