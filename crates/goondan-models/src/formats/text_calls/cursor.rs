//! Position in a text that is read once.

use goondan_core::json_text;
use serde_json::Value;

/// The rest of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextCursor<'t> {
    pub(super) rest: &'t str,
}

impl<'t> TextCursor<'t> {
    /// Skips `word` and returns true, or returns false if the rest does not begin with it.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    pub(super) fn skip_white_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(super) fn starts_with(&self, word: &str) -> bool {
        self.rest.starts_with(word)
    }

    /// Returns the text before `end` and skips both.
    pub(super) fn take_until(&mut self, end: &str) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// Returns the JSON object or array at the beginning of the rest and skips it.
    pub(super) fn take_json(&mut self) -> Option<Value> {
        let (text, rest) = self.rest.split_at(json_length(self.rest)?);
        let value = json_text::parse(text).ok()?;
        self.rest = rest;
        Some(value)
    }
}

/// Returns the bytes up to the bracket that closes the first one.
fn json_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}
