//! Keeps secrets out of what is written down and shown (rules L8, E2): logs, runtime events, tool results.
//!
//! A [`Redactor`] knows the secrets of a run and finds them as they are and in the forms in which they get about: escaped
//! for JSON, for a URL, as base64 (wherever in a longer text they stand) and as hex. It does not find a secret that is
//! cut in pieces, compressed or encrypted; only of a text that streams does it know that the pieces belong together.

mod stream;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use goondan_spec::{Environment, Secret};
use serde_json::Value;

pub use stream::TextStream;

/// Shorter values are everywhere by chance. In bytes.
const SHORTEST: usize = 6;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Words in the name of a variable that make its value a secret, whether anything refers to it or not.
const WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Finds the secrets of a run. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<ArcSwapOption<Known>>,
}

struct Known {
    forms: BTreeSet<String>,
    /// What forms begin with.
    first: BTreeSet<char>,
    /// How long they are at most, in bytes.
    longest: usize,
    finder: AhoCorasick,
}

impl Redactor {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Redactor::default()
    }

    /// Learns more secrets.
    pub fn learn(&self, secrets: impl IntoIterator<Item = Secret>) {
        let mut forms = self
            .known
            .load()
            .as_ref()
            .map(|known| known.forms.clone())
            .unwrap_or_default();
        let before = forms.len();
        let long_enough = secrets
            .into_iter()
            .filter(|secret| secret.expose().trim().len() >= SHORTEST);
        forms.extend(long_enough.flat_map(|secret| forms_of(secret.expose().trim())));
        if forms.len() == before {
            return;
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        // Building fails only past four billion states; then what was known before goes on.
        if let Ok(finder) = finder {
            let first = forms
                .iter()
                .filter_map(|form| form.chars().next())
                .collect();
            let longest = forms.iter().map(String::len).max().unwrap_or(0);
            self.known.store(Some(Arc::new(Known {
                forms,
                first,
                longest,
                finder,
            })));
        }
    }

    /// Learns the variables whose names say that they are secrets.
    pub fn learn_environment(&self, environment: &Environment) {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            WORDS.iter().any(|word| name.contains(word))
        };
        self.learn(
            environment
                .iter()
                .filter(|(name, _)| is_secret(name))
                .map(|(_, value)| Secret::new(value)),
        );
    }

    /// `text` without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.known.load();
        match known.as_ref().filter(|known| known.finder.is_match(text)) {
            Some(known) => Cow::Owned(
                known
                    .finder
                    .replace_all(text, &vec![MASK; known.forms.len()]),
            ),
            None => Cow::Borrowed(text),
        }
    }

    /// Takes the secrets out of `text`.
    pub fn clean(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Takes the secrets out of every text and every key in `value`.
    pub fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(object) => self.clean_object(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Takes the secrets out of every text and every key in `object`.
    pub fn clean_object(&self, object: &mut goondan_core::JsonObject) {
        object
            .values_mut()
            .for_each(|value| self.clean_value(value));
        if object
            .keys()
            .any(|key| matches!(self.text(key), Cow::Owned(_)))
        {
            let entries = std::mem::take(object).into_iter();
            *object = entries
                .map(|(key, value)| (self.text(&key).into_owned(), value))
                .collect();
        }
    }

    /// For a text that comes in pieces.
    pub fn stream(&self) -> TextStream {
        TextStream::new(self.clone())
    }

    /// A writer for log lines: what is written in one go is looked through as a whole.
    pub fn writer<W: io::Write>(&self, inner: W) -> Redacted<W> {
        Redacted {
            redactor: self.clone(),
            inner,
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(***)")
    }
}

/// Takes secrets out of what is written.
pub struct Redacted<W> {
    redactor: Redactor,
    inner: W,
}

impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        match self.redactor.text(&text) {
            Cow::Owned(clean) => self.inner.write_all(clean.as_bytes())?,
            Cow::Borrowed(_) => self.inner.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The forms in which `secret` gets about.
pub fn forms_of(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    let quoted = Value::from(secret).to_string();
    forms.insert(quoted[1..quoted.len() - 1].to_owned());
    // A text in a text, as tool results in a request are.
    let twice = Value::from(quoted[1..quoted.len() - 1].to_owned()).to_string();
    forms.insert(twice[1..twice.len() - 1].to_owned());
    // As PHP writes it.
    forms.insert(quoted[1..quoted.len() - 1].replace('/', "\\/"));
    let bytes = secret.as_bytes();
    for kept in KEPT_IN_URLS {
        let encode = |kept: &'static str, space: &'static str, is_lower: bool| {
            url_encoded(bytes, kept, |byte| match byte {
                b' ' => space.to_owned(),
                _ if is_lower => format!("%{byte:02x}"),
                _ => format!("%{byte:02X}"),
            })
        };
        forms.extend([
            encode(kept, "%20", false),
            encode(kept, "%20", true),
            encode(kept, "+", false),
        ]);
    }
    let hex = |digits: fn(&u8) -> String| bytes.iter().map(digits).collect::<String>();
    forms.insert(hex(|byte| format!("{byte:02x}")));
    forms.insert(hex(|byte| format!("{byte:02X}")));
    for shift in 0..3 {
        forms.extend(base64_behind(bytes, shift));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

/// What encoders for URLs leave as it is beside letters, digits and `-_.~`: nothing, slashes (Python's `quote`), what
/// `encodeURIComponent` and what `encodeURI` of JavaScript leave.
const KEPT_IN_URLS: [&str; 4] = ["", "/", "!'()*", "!'()*;/?:@&=+$,#"];

fn url_encoded(bytes: &[u8], kept: &str, encode: impl Fn(u8) -> String) -> String {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~')
            || kept.as_bytes().contains(&byte)
    };
    bytes
        .iter()
        .map(|&byte| {
            if plain(byte) {
                (byte as char).to_string()
            } else {
                encode(byte)
            }
        })
        .collect()
}

/// Base64 of the bytes behind `shift` others: the digits that depend on the secret alone.
fn base64_behind(bytes: &[u8], shift: usize) -> Vec<String> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(bytes);
    // Digits of six bits: the first that holds none of the others, and the last that is full.
    let (first, last) = ((shift * 8).div_ceil(6), padded.len() * 8 / 6);
    let cut = |text: String| text.get(first..last).map(str::to_owned);
    [
        cut(STANDARD_NO_PAD.encode(&padded)),
        cut(URL_SAFE_NO_PAD.encode(&padded)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn knows(secret: &str) -> Redactor {
        let redactor = Redactor::new();
        redactor.learn([Secret::new(secret)]);
        redactor
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let redactor = knows("sk/\"very\" secret+1");
        for text in [
            "key sk/\"very\" secret+1.",
            r#"{"key":"sk/\"very\" secret+1"}"#,
            r#"{"body":"{\"key\":\"sk/\\\"very\\\" secret+1\"}"}"#,
            "?key=sk%2F%22very%22%20secret%2B1&x",
            "?key=sk%2f%22very%22%20secret%2b1",
            "?key=sk%2F%22very%22+secret%2B1",
            "736b2f227665727922207365637265742b31",
            "736B2F227665727922207365637265742B31",
        ] {
            assert!(redactor.text(text).contains(MASK), "{text}");
        }
        assert_eq!(redactor.text("nothing here"), "nothing here");
    }

    #[test]
    fn values_are_cleaned_to_the_last_key() {
        let mut value = json!({"a": ["x secret-1 y"], "secret-1": {"b": 1, "c": "secret-1"}});
        knows("secret-1").clean_value(&mut value);
        assert_eq!(
            value,
            json!({"a": ["x *** y"], "***": {"b": 1, "c": "***"}})
        );
    }

    #[test]
    fn short_values_and_names_without_a_word_are_no_secrets() {
        let redactor = Redactor::new();
        let environment: Environment = [
            ("API_KEY", "short"),
            ("HOME", "/home/somebody"),
            ("my_token", "long-enough"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        redactor.learn_environment(&environment);
        assert_eq!(
            redactor.text("short /home/somebody long-enough"),
            "short /home/somebody ***"
        );
    }

    #[test]
    fn log_lines_are_cleaned() {
        let mut out = Vec::new();
        let mut writer = knows("secret-1").writer(&mut out);
        writer.write_all(b"a secret-1\n").unwrap();
        writer.write_all(b"b \xff\n").unwrap();
        assert_eq!(out, b"a ***\nb \xff\n");
    }

    proptest! {
        #[test]
        fn base64_is_found_wherever_it_stands(secret in "[!-~]{8,24}", before in "[ -~]{0,7}", after in "[ -~]{0,7}") {
            let text = format!("{before}{secret}{after}");
            let redactor = knows(&secret);
            for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                prop_assert!(redactor.text(&encoded).contains(MASK), "{encoded}");
            }
        }
    }
}
