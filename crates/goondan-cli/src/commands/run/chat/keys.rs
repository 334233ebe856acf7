//! Decodes terminal bytes to keys and pasted text.

use super::pressed_key::KeyPress;

const PASTE_BEGINS: &[u8] = b"200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Maximum length of a key sequence, in bytes. Longer ones are ignored.
const MAX_SEQUENCE_BYTES: usize = 32;

/// Incremental decoder of keys.
#[derive(Debug, Default)]
pub(super) struct KeyDecoder {
    bytes: Vec<u8>,
    /// Text pasted so far, during a paste.
    pasted: Option<Vec<u8>>,
}

/// Start of the buffered bytes.
enum KeySequence {
    /// A key, or an ignored sequence, with its length in bytes.
    Key(usize, Option<KeyPress>),
    /// The start of a paste, with its length in bytes.
    Paste(usize),
    /// An incomplete sequence.
    Unfinished,
}

impl KeyDecoder {
    /// Returns the keys in the next bytes.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<KeyPress> {
        self.bytes.extend_from_slice(piece);
        let mut keys = Vec::new();
        while !self.bytes.is_empty() {
            if self.pasted.is_some() {
                match self.paste() {
                    Some(text) => keys.push(KeyPress::Paste(text)),
                    None => break,
                }
                continue;
            }
            match decode_first(&self.bytes) {
                KeySequence::Key(length, key) => {
                    self.bytes.drain(..length);
                    keys.extend(key);
                }
                KeySequence::Paste(length) => {
                    self.bytes.drain(..length);
                    self.pasted = Some(Vec::new());
                }
                KeySequence::Unfinished => break,
            }
        }
        keys
    }

    /// Returns true if Escape may have been pressed.
    /// Only a pause distinguishes Escape from the start of another key.
    pub(super) fn may_be_escape(&self) -> bool {
        self.pasted.is_none() && self.bytes == [0x1b]
    }

    /// Returns Escape if it was pressed, after a pause.
    pub(super) fn escape(&mut self) -> Option<KeyPress> {
        self.may_be_escape().then(|| {
            self.bytes.clear();
            KeyPress::Escape
        })
    }

    /// Discards the buffered bytes.
    pub(super) fn forget(&mut self) {
        *self = KeyDecoder::default();
    }

    /// Moves pasted bytes out of the buffer. Returns the text once its end is there.
    fn paste(&mut self) -> Option<String> {
        let pasted = self.pasted.as_mut()?;
        let end = self
            .bytes
            .windows(PASTE_ENDS.len())
            .position(|bytes| bytes == PASTE_ENDS);
        // The end sequence may be incomplete.
        let until = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_ENDS.len() - 1));
        pasted.extend(self.bytes.drain(..until));
        end?;
        self.bytes.drain(..PASTE_ENDS.len());
        let pasted = self.pasted.take()?;
        Some(String::from_utf8_lossy(&pasted).into_owned())
    }
}

/// Decodes the first key, paste start or incomplete sequence in the buffered bytes.
fn decode_first(bytes: &[u8]) -> KeySequence {
    match bytes {
        [] | [0x1b] => KeySequence::Unfinished,
        [0x1b, 0x1b, ..] => KeySequence::Key(1, Some(KeyPress::Escape)),
        [0x1b, b'[', rest @ ..] => decode_control_sequence(rest),
        [0x1b, b'O'] => KeySequence::Unfinished,
        [0x1b, b'O', last, ..] => KeySequence::Key(3, key_of_final_byte(*last, false)),
        [0x1b, byte, ..] => KeySequence::Key(2, alt_key(*byte)),
        [byte @ (0..=0x1f | 0x7f), ..] => KeySequence::Key(1, control_key(*byte)),
        _ => decode_character(bytes),
    }
}

/// Number of bytes of `ESC [`, the control sequence introducer.
const INTRODUCER_BYTES: usize = 2;

/// Decodes the control sequence (ECMA-48) whose bytes after `ESC [` are at the beginning of
/// `after_introducer`: parameters such as `1;5`, and a final byte, which determines the key.
fn decode_control_sequence(after_introducer: &[u8]) -> KeySequence {
    if after_introducer.starts_with(PASTE_BEGINS) {
        return KeySequence::Paste(INTRODUCER_BYTES + PASTE_BEGINS.len());
    }
    let is_parameter_byte = |byte: &u8| matches!(byte, 0x20..=0x3f);
    let parameters_end = after_introducer
        .iter()
        .position(|byte| !is_parameter_byte(byte));
    let Some(parameters_end) = parameters_end else {
        return if after_introducer.len() > MAX_SEQUENCE_BYTES {
            KeySequence::Key(INTRODUCER_BYTES + after_introducer.len(), None)
        } else {
            KeySequence::Unfinished
        };
    };
    let final_byte = after_introducer[parameters_end];
    if !matches!(final_byte, 0x40..=0x7e) {
        // The sequence was cut off, and the next bytes are something else.
        return KeySequence::Key(INTRODUCER_BYTES + parameters_end, None);
    }
    let parameters = String::from_utf8_lossy(&after_introducer[..parameters_end]);
    let numbers: Vec<&str> = parameters.split(';').collect();
    let key = key_of_control_sequence(&numbers, final_byte);
    KeySequence::Key(INTRODUCER_BYTES + parameters_end + 1, key)
}

/// Returns the key of a control sequence with these parameters; `None` for unknown keys.
fn key_of_control_sequence(numbers: &[&str], final_byte: u8) -> Option<KeyPress> {
    // The second parameter is a bit field of modifier keys plus 1.
    let has_modifier = numbers
        .get(1)
        .is_some_and(|modifier| !matches!(*modifier, "" | "1"));
    match (final_byte, numbers) {
        (b'~', ["1" | "7", ..]) => Some(KeyPress::Home),
        (b'~', ["4" | "8", ..]) => Some(KeyPress::End),
        (b'~', ["3", ..]) if has_modifier => Some(KeyPress::DeleteNextWord),
        (b'~', ["3", ..]) => Some(KeyPress::Delete),
        // The Enter key (code 13) with a modifier.
        (b'~', ["27", _, "13"]) | (b'u', ["13", ..]) => Some(KeyPress::NewLine),
        (b'Z', _) => Some(KeyPress::BackTab),
        _ => key_of_final_byte(final_byte, has_modifier),
    }
}

/// Returns the key whose sequence ends with `final_byte`; `None` for unknown keys. `has_modifier`:
/// whether a modifier key such as Ctrl is pressed.
fn key_of_final_byte(final_byte: u8, has_modifier: bool) -> Option<KeyPress> {
    Some(match (final_byte, has_modifier) {
        (b'A', _) => KeyPress::Up,
        (b'B', _) => KeyPress::Down,
        (b'C', false) => KeyPress::Right,
        (b'D', false) => KeyPress::Left,
        (b'C', true) => KeyPress::WordRight,
        (b'D', true) => KeyPress::WordLeft,
        (b'H', _) => KeyPress::Home,
        (b'F', _) => KeyPress::End,
        (b'M', _) => KeyPress::Enter,
        _ => return None,
    })
}

/// Returns the key that Alt and this byte mean; `None` for unknown keys.
fn alt_key(byte: u8) -> Option<KeyPress> {
    Some(match byte {
        b'b' => KeyPress::WordLeft,
        b'f' => KeyPress::WordRight,
        b'd' => KeyPress::DeleteNextWord,
        b'q' => KeyPress::QueueInput,
        b'\r' | b'\n' => KeyPress::NewLine,
        0x7f | 0x08 => KeyPress::DeleteWord,
        _ => return None,
    })
}

/// Returns the key of a control character; `None` for unknown keys.
fn control_key(byte: u8) -> Option<KeyPress> {
    let letter = (byte | 0x60) as char;
    Some(match (byte, letter) {
        (b'\r', _) => KeyPress::Enter,
        (b'\n', _) => KeyPress::NewLine,
        (b'\t', _) => KeyPress::Tab,
        (0x7f | 0x08, _) => KeyPress::Backspace,
        (_, 'a') => KeyPress::Home,
        (_, 'b') => KeyPress::Left,
        (_, 'c') => KeyPress::Interrupt,
        (_, 'd') => KeyPress::Leave,
        (_, 'e') => KeyPress::End,
        (_, 'f') => KeyPress::Right,
        (_, 'k') => KeyPress::KillToEnd,
        (_, 'l') => KeyPress::Redraw,
        (_, 'n') => KeyPress::Down,
        (_, 'p') => KeyPress::Up,
        (_, 'u') => KeyPress::KillToStart,
        (_, 'w') => KeyPress::DeleteWord,
        (_, 'y') => KeyPress::Yank,
        (_, 'z') => KeyPress::Suspend,
        _ => return None,
    })
}

/// Decodes the first UTF-8 character. Invalid bytes are ignored one by one.
fn decode_character(bytes: &[u8]) -> KeySequence {
    let length = match bytes[0] {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return KeySequence::Key(1, None),
    };
    let available = bytes.len().min(length);
    match std::str::from_utf8(&bytes[..available]) {
        Ok(text) => KeySequence::Key(length, text.chars().next().map(KeyPress::Char)),
        // The bytes may be the start of a character.
        Err(error) if error.error_len().is_none() => KeySequence::Unfinished,
        Err(_) => KeySequence::Key(1, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<KeyPress> {
        KeyDecoder::default().push(bytes)
    }

    #[test]
    fn letters_and_control_keys_are_decoded() {
        assert_eq!(
            keys("aä日🙂".as_bytes()),
            "aä日🙂".chars().map(KeyPress::Char).collect::<Vec<_>>()
        );
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[1;5C\x1bb\x1b[3~\x1b[H"),
            [
                KeyPress::Up,
                KeyPress::Down,
                KeyPress::WordRight,
                KeyPress::WordLeft,
                KeyPress::Delete,
                KeyPress::Home
            ]
        );
        assert_eq!(
            keys(b"\x01\x03\x04\x1a\r\n\x1b\r\x7f\x17"),
            [
                KeyPress::Home,
                KeyPress::Interrupt,
                KeyPress::Leave,
                KeyPress::Suspend,
                KeyPress::Enter,
                KeyPress::NewLine,
                KeyPress::NewLine,
                KeyPress::Backspace,
                KeyPress::DeleteWord
            ]
        );
    }

    #[test]
    fn pasted_text_with_control_characters_is_one_key_press() {
        let pasted = keys(b"x\x1b[200~one\rtwo\x1b[A\x03\x1b[201~y");
        assert_eq!(
            pasted,
            [
                KeyPress::Char('x'),
                KeyPress::Paste("one\rtwo\u{1b}[A\u{3}".to_owned()),
                KeyPress::Char('y')
            ]
        );
    }

    #[test]
    fn a_single_escape_byte_is_the_escape_key() {
        let mut decoder = KeyDecoder::default();
        assert_eq!(decoder.push(b"\x1b"), []);
        assert!(decoder.may_be_escape());
        assert_eq!(decoder.escape(), Some(KeyPress::Escape));
        assert_eq!(decoder.push(b"a"), [KeyPress::Char('a')]);
    }

    proptest! {
        #[test]
        fn decoding_is_independent_of_how_bytes_are_split(
            bytes in proptest::collection::vec(prop_oneof![
                Just(0x1b_u8), Just(b'['), Just(b'~'), Just(b'2'), Just(b'0'), Just(b'1'), any::<u8>()
            ], 0..60),
            at in 0_usize..60,
        ) {
            let mut decoder = KeyDecoder::default();
            let at = at.min(bytes.len());
            let mut pieces = decoder.push(&bytes[..at]);
            pieces.extend(decoder.push(&bytes[at..]));
            prop_assert_eq!(pieces, keys(&bytes));
        }

        #[test]
        fn pasted_text_is_returned_unchanged(text in "[^\u{1b}]{0,80}", piece in 1_usize..20) {
            let bytes = format!("\u{1b}[200~{text}\u{1b}[201~");
            let mut decoder = KeyDecoder::default();
            let keys: Vec<KeyPress> = bytes.as_bytes().chunks(piece).flat_map(|piece| decoder.push(piece)).collect();
            prop_assert_eq!(keys, [KeyPress::Paste(text)]);
        }
    }
}
