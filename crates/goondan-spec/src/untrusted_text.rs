//! Escapes untrusted text for display.
//!
//! Models, tools, files, web pages and YAML produce text that people read. A control character can
//! move the cursor, a bidirectional control can reorder text, and an invisible character can make
//! two names look alike. All of them are displayed as escapes such as `\u{202e}`, which are visible
//! and have no effect.
//!
//! Look-alike letters are not distinguished, and the terminal's layout of Hebrew and Arabic is not
//! controlled. Backslashes are not escaped: text can imitate an escape, but cannot hide a
//! character.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// Displays untrusted text with all invisible characters escaped.
#[derive(Debug, Clone, Copy)]
pub struct EscapedText<T> {
    text: T,
    kept: KeptCharacters,
}

/// Escapes untrusted text for display on one line, such as a name, a key or a title. Line ends are
/// also escaped.
pub fn line<T: Display>(text: T) -> EscapedText<T> {
    EscapedText {
        text,
        kept: KeptCharacters::Nothing,
    }
}

/// Escapes untrusted text for display on several lines. Line ends and tabs are kept.
pub fn lines<T: Display>(text: T) -> EscapedText<T> {
    EscapedText {
        text,
        kept: KeptCharacters::Breaks,
    }
}

impl<T: Display> Display for EscapedText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            EscapingWriter {
                escaper: TextEscaper::new(self.kept),
                out: f
            },
            "{}",
            self.text
        )
    }
}

struct EscapingWriter<'f, 'o> {
    escaper: TextEscaper,
    out: &'f mut fmt::Formatter<'o>,
}

impl Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(&self.escaper.escape(text))
    }
}

/// Invisible characters that are not escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptCharacters {
    /// None.
    Nothing,
    /// Line ends and tabs.
    Breaks,
    /// Line ends, tabs, and characters that languages need: joiners inside emoji and certain
    /// scripts, and the spaces of French and Chinese. They are kept only where they cannot hide or
    /// move anything.
    Writing,
}

/// Escapes text that arrives in pieces.
#[derive(Debug, Clone)]
pub struct TextEscaper {
    kept: KeptCharacters,
    /// Previous character, which decides whether a joiner is kept.
    last: char,
    /// Set after a carriage return. With a line feed it ends a line; without one it is escaped,
    /// because it moves the cursor back.
    returned: bool,
}

impl TextEscaper {
    /// Creates an escaper at the start of a text.
    pub const fn new(kept: KeptCharacters) -> Self {
        TextEscaper {
            kept,
            last: '\n',
            returned: false,
        }
    }

    /// Escapes the next piece.
    pub fn escape<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if !self.returned && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            self.last = text.chars().next_back().unwrap_or(self.last);
            return Cow::Borrowed(text);
        }
        let mut escaped = String::with_capacity(text.len());
        text.chars().for_each(|c| self.push(c, &mut escaped));
        Cow::Owned(escaped)
    }

    /// Appends a character, escaped unless it is visible or allowed here.
    fn push(&mut self, c: char, shown: &mut String) {
        if std::mem::take(&mut self.returned) && c != '\n' {
            push_escape('\r', shown);
        }
        match c {
            '\r' if self.kept != KeptCharacters::Nothing => self.returned = true,
            _ if is_visible(c) || self.is_kept(c) => shown.push(c),
            _ => push_escape(c, shown),
        }
        self.last = c;
    }

    /// Returns true if the invisible character is allowed after the last one.
    fn is_kept(&self, c: char) -> bool {
        match (self.kept, c) {
            (KeptCharacters::Nothing, _) => false,
            (_, '\n' | '\t') => true,
            (KeptCharacters::Breaks, _) => false,
            (KeptCharacters::Writing, '\u{a0}' | '\u{202f}' | '\u{3000}') => true,
            (KeptCharacters::Writing, '\u{200c}') => has_joiners(self.last),
            (KeptCharacters::Writing, '\u{200d}') => {
                has_joiners(self.last) || is_pictured(self.last) || self.last == '\u{fe0f}'
            }
            (KeptCharacters::Writing, '\u{fe0e}' | '\u{fe0f}') => {
                is_pictured(self.last) || matches!(self.last, '0'..='9' | '#' | '*')
            }
            (KeptCharacters::Writing, _) => false,
        }
    }
}

/// Returns true if `c` is visible and has no other effect.
pub fn is_visible(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{9f}' => false,
        _ => !is_blank(c) && is_printable(c),
    }
}

/// Appends the escape of `c`.
pub fn push_escape(c: char, shown: &mut String) {
    match c {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        // Writing to a String cannot fail.
        _ => drop(write!(shown, "\\u{{{:x}}}", u32::from(c))),
    }
}

/// Letters, marks and symbols that are invisible, or that select a variant of the previous
/// character.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{16fe4}'
            | '\u{1d159}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns false for controls, format characters, separators except the space, private use and
/// unassigned code points, by the standard library's table.
fn is_printable(c: char) -> bool {
    // Placed after another character, because `escape_debug` also escapes marks at the start.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
    text.escape_debug().count() == 2
}

/// Arabic, Syriac, N'Ko, the scripts of India and South-East Asia, Tibetan, Mongolian.
fn has_joiners(c: char) -> bool {
    let in_script = matches!(c, '\u{600}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{a800}'..='\u{abff}' | '\u{11000}'..='\u{11fff}');
    in_script && is_visible(c)
}

/// Emoji, and symbols with an emoji variant.
fn is_pictured(c: char) -> bool {
    let in_block = matches!(
        c,
        '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{27ff}' | '\u{2900}'..='\u{2bff}'
            | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
    );
    in_block && is_visible(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Characters that must never reach a terminal, from published attack lists.
    const HIDDEN: [(u32, u32); 29] = [
        (0x0, 0x1f),
        (0x7f, 0x9f),
        (0xad, 0xad),
        (0x34f, 0x34f),
        (0x61c, 0x61c),
        (0x115f, 0x1160),
        (0x17b4, 0x17b5),
        (0x180b, 0x180f),
        (0x200b, 0x200f),
        (0x2028, 0x202e),
        (0x2060, 0x206f),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xe000, 0xf8ff),
        (0xfdd0, 0xfdef),
        (0xfe00, 0xfe0f),
        (0xfeff, 0xfeff),
        (0xffa0, 0xffa0),
        (0xfff0, 0xfffb),
        (0xfffe, 0xffff),
        (0x110bd, 0x110bd),
        (0x13430, 0x1343f),
        (0x16fe4, 0x16fe4),
        (0x1bca0, 0x1bca3),
        (0x1d159, 0x1d159),
        (0x1d173, 0x1d17a),
        (0xe0000, 0xe0fff),
        (0xf0000, 0xffffd),
        (0x100000, 0x10fffd),
    ];

    fn hidden() -> impl Iterator<Item = char> {
        HIDDEN
            .into_iter()
            .flat_map(|(first, last)| first..=last)
            .filter_map(char::from_u32)
    }

    fn writing(text: &str) -> String {
        TextEscaper::new(KeptCharacters::Writing)
            .escape(text)
            .into_owned()
    }

    #[test]
    fn hidden_characters_are_escaped() {
        for c in hidden() {
            assert!(!is_visible(c), "{c:?}");
            let name = line(format!("a{c}b")).to_string();
            assert!(
                name.starts_with("a\\") && name.ends_with('b') && name.chars().all(is_visible),
                "{name:?}"
            );
            let text = lines(format!("a{c}b")).to_string();
            let is_kept = matches!(c, '\n' | '\t');
            assert!(is_kept || text.chars().all(is_visible), "{text:?}");
        }
        assert_eq!(
            line("\u{1b}[2J\n\t\u{202e}").to_string(),
            "\\u{1b}[2J\\n\\t\\u{202e}"
        );
    }

    #[test]
    fn every_character_is_escaped_to_visible_characters() {
        let mut shown = String::new();
        for c in '\0'..=char::MAX {
            shown.clear();
            TextEscaper::new(KeptCharacters::Nothing).push(c, &mut shown);
            assert!(!shown.is_empty() && shown.chars().all(is_visible), "{c:?}");
            assert!(!c.is_ascii_graphic() || shown.chars().eq([c]), "{c:?}");
        }
    }

    #[test]
    fn text_in_many_languages_is_unchanged() {
        for text in [
            "größer",
            "이름",
            "日本語。",
            "имя",
            "שלום",
            "e\u{301}",
            "नमस्ते",
            "🙂 → ✓",
            "a\\u{202e}",
        ] {
            assert_eq!(line(text).to_string(), text);
        }
    }

    #[test]
    fn crlf_ends_a_line_and_a_lone_carriage_return_is_escaped() {
        assert_eq!(lines("a\r\nb\rc\r\r\n").to_string(), "a\nb\\rc\\r\n");
        let mut pieces = TextEscaper::new(KeptCharacters::Writing);
        let text: Vec<_> = ["a\r", "\nb\r", "c"]
            .map(|piece| pieces.escape(piece).into_owned())
            .into();
        assert_eq!(text, ["a", "\nb", "\\rc"]);
    }

    #[test]
    fn joiners_of_emoji_and_scripts_are_kept_in_written_text() {
        let family = "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}";
        let persian = "می\u{200c}خواهم";
        for text in [
            family,
            persian,
            "क\u{94d}\u{200d}ष",
            "dix\u{a0}%",
            "全\u{3000}角",
        ] {
            assert_eq!(writing(text), text);
            assert_ne!(line(text).to_string(), text, "names keep no joiners");
        }
        assert_eq!(writing("rm\u{200d} x"), "rm\\u{200d} x");
        assert_eq!(writing("👨\u{200d}\u{200d}"), "👨\u{200d}\\u{200d}");
        assert_eq!(writing("a\u{fe0f}\u{202e}"), "a\\u{fe0f}\\u{202e}");
    }

    proptest! {
        #[test]
        fn text_in_pieces_is_escaped_like_the_whole_text(text in "(?s).{0,40}", at in 0_usize..40) {
            let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let mut escaper = TextEscaper::new(KeptCharacters::Writing);
            let pieces = [&text[..at], &text[at..]].map(|piece| escaper.escape(piece).into_owned());
            prop_assert_eq!(pieces.concat(), writing(&text));
        }

        #[test]
        fn escaped_text_contains_only_visible_characters(text in "(?s).{0,40}") {
            prop_assert!(line(&text).to_string().chars().all(is_visible));
            let may_stay = |c| is_visible(c) || matches!(c, '\n' | '\t');
            prop_assert!(lines(&text).to_string().chars().all(may_stay));
        }
    }
}
