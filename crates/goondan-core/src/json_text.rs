//! JSON text from servers that write half a surrogate pair as an escape.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// U+FFFD, as an escape.
const REPLACEMENT_ESCAPE: &str = "\\ufffd";

/// Parses `text`. Escapes of lone surrogates become U+FFFD: servers in JavaScript write them when
/// they cut a text inside a character.
///
/// # Errors
/// The text is not JSON.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match repair_surrogates(text) {
        Cow::Owned(repaired) => serde_json::from_str(&repaired),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Replaces each escape of a lone surrogate in JSON text with U+FFFD.
pub fn repair_surrogates(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut position = 0;
    while let Some(offset) = text[position..].find('\\') {
        let escape = position + offset;
        let length = match surrogate_kind(text, escape) {
            None => escape_length(text, escape),
            Some(SurrogateKind::High)
                if surrogate_kind(text, escape + 6) == Some(SurrogateKind::Low) =>
            {
                12
            }
            Some(_) => {
                repaired.push_str(&text[copied..escape]);
                repaired.push_str(REPLACEMENT_ESCAPE);
                copied = escape + 6;
                6
            }
        };
        position = escape + length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[copied..]);
    Cow::Owned(repaired)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SurrogateKind {
    High,
    Low,
}

/// Returns the kind of surrogate whose escape begins at byte `at`.
fn surrogate_kind(text: &str, at: usize) -> Option<SurrogateKind> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(SurrogateKind::High),
        0xDC00..=0xDFFF => Some(SurrogateKind::Low),
        _ => None,
    }
}

/// Returns the number of bytes of the backslash at `at` and the character after it.
fn escape_length(text: &str, at: usize) -> usize {
    let escaped = text[at + 1..].chars().next();
    1 + escaped.map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (text, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b""#, "\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\\\ud83dé""#, "\\\u{fffd}é"),
        ] {
            assert_eq!(
                parse::<String>(text).ok().as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn text_that_is_not_json_stays_an_error() {
        for text in ["", "{", r#""\ud83"#, r#""\"#, "\\", "é\\"] {
            assert!(parse::<serde_json::Value>(text).is_err(), "{text}");
        }
    }
}
