//! What bytes of a terminal mean: keys, and text that was pasted.

/// What somebody has pressed or pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A letter.
    Char(char),
    /// Text that was pasted. Its lines end as they came.
    Paste(String),
    /// Enter.
    Enter,
    /// Alt-Enter, Shift-Enter or Ctrl-J: a line break in the input.
    NewLine,
    Tab,
    BackTab,
    Escape,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    Home,
    End,
    /// Ctrl-W, Alt-Backspace.
    DeleteWord,
    /// Alt-D.
    DeleteNextWord,
    /// Ctrl-U.
    KillToStart,
    /// Ctrl-K.
    KillToEnd,
    /// Ctrl-Y.
    Yank,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Leave,
    /// Ctrl-Z.
    Suspend,
    /// The terminal is gone.
    Gone,
}

const PASTE_BEGINS: &[u8] = b"200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// No sequence of a key is longer; what is, is none.
const LONGEST: usize = 32;

/// Reads keys of bytes that come in pieces.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// What was pasted so far, while it is.
    pasted: Option<Vec<u8>>,
}

/// What the bytes begin with.
enum Begin {
    /// A key, or nothing of interest, of so many bytes.
    Key(usize, Option<Key>),
    /// The head of pasted text, of so many bytes.
    Paste(usize),
    /// More has to come.
    Unfinished,
}

impl Decoder {
    /// The keys of the next piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(piece);
        let mut keys = Vec::new();
        while !self.bytes.is_empty() {
            if self.pasted.is_some() {
                match self.paste() {
                    Some(text) => keys.push(Key::Paste(text)),
                    None => break,
                }
                continue;
            }
            match begin(&self.bytes) {
                Begin::Key(length, key) => {
                    self.bytes.drain(..length);
                    keys.extend(key);
                }
                Begin::Paste(length) => {
                    self.bytes.drain(..length);
                    self.pasted = Some(Vec::new());
                }
                Begin::Unfinished => break,
            }
        }
        keys
    }

    /// Whether Escape may have been pressed: nothing tells it from the beginning of another key but that no more comes.
    pub(super) fn may_be_escape(&self) -> bool {
        self.pasted.is_none() && self.bytes == [0x1b]
    }

    /// No more has come.
    pub(super) fn escape(&mut self) -> Option<Key> {
        self.may_be_escape().then(|| {
            self.bytes.clear();
            Key::Escape
        })
    }

    /// Forgets what has come.
    pub(super) fn forget(&mut self) {
        *self = Decoder::default();
    }

    /// Moves what was pasted out of the bytes; the text, where its end has come.
    fn paste(&mut self) -> Option<String> {
        let pasted = self.pasted.as_mut()?;
        let end = self
            .bytes
            .windows(PASTE_ENDS.len())
            .position(|bytes| bytes == PASTE_ENDS);
        // The end may have come in part.
        let until = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_ENDS.len() - 1));
        pasted.extend(self.bytes.drain(..until));
        end?;
        self.bytes.drain(..PASTE_ENDS.len());
        let pasted = self.pasted.take()?;
        Some(String::from_utf8_lossy(&pasted).into_owned())
    }
}

fn begin(bytes: &[u8]) -> Begin {
    match bytes {
        [] | [0x1b] => Begin::Unfinished,
        [0x1b, 0x1b, ..] => Begin::Key(1, Some(Key::Escape)),
        [0x1b, b'[', rest @ ..] => sequence(rest),
        [0x1b, b'O'] => Begin::Unfinished,
        [0x1b, b'O', last, ..] => Begin::Key(3, named(*last, false)),
        [0x1b, byte, ..] => Begin::Key(2, with_alt(*byte)),
        [byte @ (0..=0x1f | 0x7f), ..] => Begin::Key(1, control(*byte)),
        _ => letter(bytes),
    }
}

/// What stands behind `ESC [`.
fn sequence(rest: &[u8]) -> Begin {
    if rest.starts_with(PASTE_BEGINS) {
        return Begin::Paste(2 + PASTE_BEGINS.len());
    }
    let Some(end) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return if rest.len() > LONGEST {
            Begin::Key(2 + rest.len(), None)
        } else {
            Begin::Unfinished
        };
    };
    let last = rest[end];
    if !matches!(last, 0x40..=0x7e) {
        // Broken off: what follows is something else.
        return Begin::Key(2 + end, None);
    }
    let parameters = String::from_utf8_lossy(&rest[..end]).into_owned();
    let numbers: Vec<&str> = parameters.split(';').collect();
    let is_changed = numbers
        .get(1)
        .is_some_and(|modifier| !matches!(*modifier, "" | "1"));
    let key = match (last, numbers.as_slice()) {
        (b'~', ["1" | "7", ..]) => Some(Key::Home),
        (b'~', ["4" | "8", ..]) => Some(Key::End),
        (b'~', ["3", ..]) => Some(if is_changed {
            Key::DeleteNextWord
        } else {
            Key::Delete
        }),
        (b'~', ["27", _, "13"]) | (b'u', ["13", ..]) => Some(Key::NewLine),
        (b'Z', _) => Some(Key::BackTab),
        _ => named(last, is_changed),
    };
    Begin::Key(2 + end + 1, key)
}

fn named(last: u8, is_changed: bool) -> Option<Key> {
    Some(match (last, is_changed) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', false) => Key::Right,
        (b'D', false) => Key::Left,
        (b'C', true) => Key::WordRight,
        (b'D', true) => Key::WordLeft,
        (b'H', _) => Key::Home,
        (b'F', _) => Key::End,
        (b'M', _) => Key::Enter,
        _ => return None,
    })
}

fn with_alt(byte: u8) -> Option<Key> {
    Some(match byte {
        b'b' => Key::WordLeft,
        b'f' => Key::WordRight,
        b'd' => Key::DeleteNextWord,
        b'\r' | b'\n' => Key::NewLine,
        0x7f | 0x08 => Key::DeleteWord,
        _ => return None,
    })
}

fn control(byte: u8) -> Option<Key> {
    let letter = (byte | 0x60) as char;
    Some(match (byte, letter) {
        (b'\r', _) => Key::Enter,
        (b'\n', _) => Key::NewLine,
        (b'\t', _) => Key::Tab,
        (0x7f | 0x08, _) => Key::Backspace,
        (_, 'a') => Key::Home,
        (_, 'b') => Key::Left,
        (_, 'c') => Key::Interrupt,
        (_, 'd') => Key::Leave,
        (_, 'e') => Key::End,
        (_, 'f') => Key::Right,
        (_, 'k') => Key::KillToEnd,
        (_, 'l') => Key::Redraw,
        (_, 'n') => Key::Down,
        (_, 'p') => Key::Up,
        (_, 'u') => Key::KillToStart,
        (_, 'w') => Key::DeleteWord,
        (_, 'y') => Key::Yank,
        (_, 'z') => Key::Suspend,
        _ => return None,
    })
}

fn letter(bytes: &[u8]) -> Begin {
    let length = match bytes[0] {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Begin::Key(1, None),
    };
    let have = bytes.len().min(length);
    match std::str::from_utf8(&bytes[..have]) {
        Ok(text) => Begin::Key(length, text.chars().next().map(Key::Char)),
        // What is there may be a beginning.
        Err(error) if error.error_len().is_none() => Begin::Unfinished,
        Err(_) => Begin::Key(1, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Decoder::default().push(bytes)
    }

    #[test]
    fn letters_of_all_scripts_and_keys() {
        assert_eq!(
            keys("aä日🙂".as_bytes()),
            "aä日🙂".chars().map(Key::Char).collect::<Vec<_>>()
        );
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[1;5C\x1bb\x1b[3~\x1b[H"),
            [
                Key::Up,
                Key::Down,
                Key::WordRight,
                Key::WordLeft,
                Key::Delete,
                Key::Home
            ]
        );
        assert_eq!(
            keys(b"\x01\x03\x04\x1a\r\n\x1b\r\x7f\x17"),
            [
                Key::Home,
                Key::Interrupt,
                Key::Leave,
                Key::Suspend,
                Key::Enter,
                Key::NewLine,
                Key::NewLine,
                Key::Backspace,
                Key::DeleteWord
            ]
        );
    }

    #[test]
    fn what_is_pasted_is_one_thing_whatever_it_holds() {
        let pasted = keys(b"x\x1b[200~one\rtwo\x1b[A\x03\x1b[201~y");
        assert_eq!(
            pasted,
            [
                Key::Char('x'),
                Key::Paste("one\rtwo\u{1b}[A\u{3}".to_owned()),
                Key::Char('y')
            ]
        );
    }

    #[test]
    fn escape_is_what_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\x1b"), []);
        assert!(decoder.may_be_escape());
        assert_eq!(decoder.escape(), Some(Key::Escape));
        assert_eq!(decoder.push(b"a"), [Key::Char('a')]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            bytes in proptest::collection::vec(prop_oneof![
                Just(0x1b_u8), Just(b'['), Just(b'~'), Just(b'2'), Just(b'0'), Just(b'1'), any::<u8>()
            ], 0..60),
            at in 0_usize..60,
        ) {
            let mut decoder = Decoder::default();
            let at = at.min(bytes.len());
            let mut pieces = decoder.push(&bytes[..at]);
            pieces.extend(decoder.push(&bytes[at..]));
            prop_assert_eq!(pieces, keys(&bytes));
        }

        #[test]
        fn pasted_text_comes_back(text in "[^\u{1b}]{0,80}", piece in 1_usize..20) {
            let bytes = format!("\u{1b}[200~{text}\u{1b}[201~");
            let mut decoder = Decoder::default();
            let keys: Vec<Key> = bytes.as_bytes().chunks(piece).flat_map(|piece| decoder.push(piece)).collect();
            prop_assert_eq!(keys, [Key::Paste(text)]);
        }
    }
}
