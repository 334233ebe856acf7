//! Masks secrets in stored and displayed data (rules L8, E2): logs, runtime events, tool results.
//!
//! A [`Redactor`] has the secrets of a run. It finds them in plain form and in common encodings:
//! JSON escapes, URL escapes, base64 (inside longer text as well) and hex. Short secrets occur by
//! chance: below eight characters only whole words are masked, and below four nothing. A secret
//! that is split, compressed or encrypted is not found, except when a streamed text splits it.

mod secret_forms;
mod secret_matcher;
mod stream;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use goondan_spec::{Environment, Secret};
use serde_json::Value;

pub use secret_forms::forms_of;
use secret_matcher::SecretMatcher;
pub use stream::TextStream;

/// Replacement of a secret.
const MASK: &str = "***";

/// Minimum length of a masked value that the project does not declare as a secret, in bytes.
/// Shorter values are words like `true`.
const MIN_GUESS_BYTES: usize = 6;

/// Finds and masks the secrets of a run. Clones share their secrets.
#[derive(Clone, Default)]
pub struct SecretRedactor {
    known: Arc<ArcSwapOption<SecretMatcher>>,
}

impl SecretRedactor {
    /// Returns a redactor without secrets.
    pub fn new() -> Self {
        SecretRedactor::default()
    }

    /// Adds secrets. Concurrent calls lose none.
    pub fn add_secrets(&self, secrets: impl IntoIterator<Item = Secret>) {
        let secrets: Vec<Secret> = secrets.into_iter().collect();
        self.known.rcu(|known| {
            let mut forms = known
                .as_ref()
                .map(|matcher| matcher.forms.clone())
                .unwrap_or_default();
            let before = forms.clone();
            for secret in &secrets {
                secret_forms::add(secret, &mut forms);
            }
            if forms == before {
                return known.clone();
            }
            // If no new finder can be built, the old one stays in use.
            SecretMatcher::new(forms)
                .map(Arc::new)
                .or_else(|| known.clone())
        });
    }

    /// Adds values that can be secrets, except short ones.
    pub fn add_likely_secrets(&self, values: impl IntoIterator<Item = Secret>) {
        let long_enough = |value: &Secret| value.expose().trim().len() >= MIN_GUESS_BYTES;
        self.add_secrets(values.into_iter().filter(long_enough));
    }

    /// Adds the variables with names of secrets.
    pub fn add_environment(&self, environment: &Environment) {
        self.add_likely_secrets(environment.named_like_secrets());
    }

    /// Returns `text` without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.known.load().as_ref() {
            Some(matcher) => matcher.mask_secrets(text, None),
            None => Cow::Borrowed(text),
        }
    }

    /// Masks the secrets in `text`.
    pub fn clean(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Masks the secrets in every string and every key of `value`.
    pub fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(object) => self.clean_object(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks the secrets in every string of a tool's output, and parts of secrets at the start and the
    /// end of each line: tools cut long texts.
    pub fn clean_output(&self, output: &mut Value) {
        self.clean_value(output);
        if let Some(matcher) = self.known.load().as_ref() {
            clean_fragments(matcher, output);
        }
    }

    /// Masks the secrets in every string and every key of `object`.
    pub fn clean_object(&self, object: &mut crate::JsonObject) {
        for value in object.values_mut() {
            self.clean_value(value);
        }
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

    /// Returns a redactor for a text that arrives in pieces.
    pub fn stream(&self) -> TextStream {
        TextStream::new(self.clone())
    }

    /// Returns a writer for log lines. Each write is searched separately, so a secret must not span
    /// two writes.
    pub fn writer<W: io::Write>(&self, inner: W) -> RedactingWriter<W> {
        RedactingWriter {
            redactor: self.clone(),
            inner,
        }
    }
}

/// Masks parts of secrets in every string of `value`.
fn clean_fragments(matcher: &SecretMatcher, value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = matcher.masked_fragments(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| clean_fragments(matcher, item)),
        Value::Object(object) => {
            for value in object.values_mut() {
                clean_fragments(matcher, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl std::fmt::Debug for SecretRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(***)")
    }
}

/// Writer that masks secrets.
pub struct RedactingWriter<W> {
    redactor: SecretRedactor,
    inner: W,
}

impl<W: io::Write> io::Write for RedactingWriter<W> {
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redactor_for(secret: &str) -> SecretRedactor {
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new(secret)]);
        redactor
    }

    #[test]
    fn concurrently_added_secrets_are_all_masked() {
        let redactor = SecretRedactor::new();
        let secrets: Vec<String> = (0..16).map(|n| format!("secret-number-{n:04}")).collect();
        std::thread::scope(|scope| {
            for secret in &secrets {
                scope.spawn(|| redactor.add_secrets([Secret::new(secret.as_str())]));
            }
        });
        for secret in &secrets {
            assert_eq!(redactor.text(secret), MASK);
        }
    }

    #[test]
    fn each_line_of_a_secret_is_masked() {
        let redactor =
            redactor_for("-----BEGIN KEY-----\nAAAABBBBCCCCDDDDEEEE\nshort\n-----END KEY-----");
        let shown = redactor.text("    2\tAAAABBBBCCCCDDDDEEEE\n    3\tshort");
        assert_eq!(shown, "    2\t***\n    3\tshort");
        assert_eq!(redactor.text("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
    }

    #[test]
    fn parts_of_secrets_at_a_truncation_are_masked() {
        let redactor = redactor_for("postgres-0123456789-abcdef");
        let shown = |text: &str| {
            let mut output = json!({"text": text});
            redactor.clean_output(&mut output);
            output["text"].as_str().unwrap().to_owned()
        };
        for (text, expected) in [
            ("key: postgres-012345678", "key: ***"),
            (
                "key: postgres-0123456\n[... 9 bytes cut ...]\nend",
                "key: ***\n[... 9 bytes cut ...]\nend",
            ),
            ("0123456789-abcdef is the key", "*** is the key"),
            (
                "3: [cut] 0123456789-abcdef, postgres-0123456789- [cut]",
                "3: [cut] ***, *** [cut]",
            ),
            ("uses postgres", "uses postgres"),
            ("postgres-0123456789-abcdef", "***"),
            ("ä postgres-0123456789-abcde", "ä ***"),
            ("abc", "abc"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn escaped_secrets_are_masked() {
        let redactor = redactor_for("a<b>&'c\"d-secret");
        for text in [
            r#"a\u003cb\u003e\u0026'c\"d-secret"#,
            "a&lt;b&gt;&amp;&#39;c&quot;d-secret",
            "%61%3C%62%3E%26%27%63%22%64%2D%73%65%63%72%65%74",
        ] {
            assert_eq!(redactor.text(text), MASK, "{text}");
        }
    }

    #[test]
    fn secrets_in_hexadecimal_with_separators_are_masked() {
        let redactor = redactor_for("key-4711");
        for dump in [
            "6b 65 79 2d 34 37 31 31",
            "6B:65:79:2D:34:37:31:31",
            "6b-65-79-2d-34-37-31-31",
        ] {
            assert_eq!(redactor.text(dump), MASK);
        }
        let list = "[0x6b, 0x65, 0x79, 0x2d, 0x34, 0x37, 0x31, 0x31]";
        assert_eq!(redactor.text(list), format!("[0x{MASK}]"));
    }

    #[test]
    fn secrets_are_masked_in_ascii_escaped_json() {
        let redactor = redactor_for("Pässwörd/\u{7f}\"\u{1F511}");
        for text in [
            r#"P\u00e4ssw\u00f6rd/\u007f\"\ud83d\udd11"#,
            r#"P\u00E4ssw\u00F6rd/\u007F\"\uD83D\uDD11"#,
            r#"P\u00e4ssw\u00f6rd\/\u007f\"\ud83d\udd11"#,
            r#"P\\u00e4ssw\\u00f6rd/\\u007f\\\"\\ud83d\\udd11"#,
        ] {
            let json = format!(r#"{{"key": "{text}"}}"#);
            assert_eq!(redactor.text(&json), r#"{"key": "***"}"#, "{text}");
        }
        // Short secrets are masked as whole words.
        let shown = redactor_for("wörd")
            .text(r#"{"key": "w\u00f6rd", "swords": "w\u00f6rds"}"#)
            .into_owned();
        assert_eq!(shown, r#"{"key": "***", "swords": "w\u00f6rds"}"#);
        // A secret with several lines has escaped line breaks.
        assert_eq!(
            redactor_for("ä-first\nö-second").text(r"\u00e4-first\n\u00f6-second"),
            MASK
        );
    }

    #[test]
    fn a_secret_is_masked_in_every_encoding() {
        let redactor = redactor_for("sk/\"very\" secret+1");
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
    fn json_values_are_masked_including_their_keys() {
        let mut value = json!({"a": ["x secret-1 y"], "secret-1": {"b": 1, "c": "secret-1"}});
        redactor_for("secret-1").clean_value(&mut value);
        assert_eq!(
            value,
            json!({"a": ["x *** y"], "***": {"b": 1, "c": "***"}})
        );
    }

    #[test]
    fn a_short_secret_is_masked_only_as_a_whole_word() {
        let redactor = redactor_for("word");
        assert_eq!(
            redactor.text("word, words, sword, word1, (word) word"),
            "***, words, sword, word1, (***) ***"
        );
        assert_eq!(
            redactor.text("éword wordé word_ \"word\""),
            "éword wordé ***_ \"***\""
        );
        assert_eq!(
            redactor_for("pa ss").text("?key=pa%20ss&x=pa%20ssed"),
            "?key=***&x=pa%20ssed"
        );
        assert_eq!(
            redactor_for("1234567").text("12345678 1234567"),
            "12345678 ***"
        );
        assert_eq!(redactor_for("12345678").text("x12345678y"), "x***y");
    }

    #[test]
    fn a_secret_of_three_characters_is_not_masked() {
        for secret in ["x", "ok", "abc", " a "] {
            let text = format!("{secret} {} tok{secret}en", secret.trim());
            assert_eq!(redactor_for(secret).text(&text), text);
        }
    }

    #[test]
    fn a_short_secret_does_not_hide_a_long_one() {
        let redactor = SecretRedactor::new();
        redactor.add_secrets(["abcd", "bcdefghi", "abcd-e"].map(Secret::new));
        assert_eq!(redactor.text("xabcdefghi"), "xa***");
        assert_eq!(redactor.text("abcd-ef abcd-e"), "***-ef ***");
    }

    #[test]
    fn short_environment_values_are_not_treated_as_secrets() {
        let redactor = SecretRedactor::new();
        let environment: Environment = [
            ("API_KEY", "short"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("HOME", "/home/somebody"),
            ("my_token", "long-enough"),
            ("OTHER_TOKEN", "sixsix"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        redactor.add_environment(&environment);
        assert_eq!(
            redactor.text("short false /home/somebody long-enough sixsix sixsixes"),
            "short false /home/somebody *** *** sixsixes"
        );
    }

    #[test]
    fn secrets_in_log_lines_are_masked() {
        let mut out = Vec::new();
        let mut writer = redactor_for("secret-1").writer(&mut out);
        writer.write_all(b"a secret-1\n").unwrap();
        writer.write_all(b"b \xff\n").unwrap();
        assert_eq!(out, b"a ***\nb \xff\n");
    }

    proptest! {
        #[test]
        fn base64_encoded_secrets_are_masked_at_every_offset(secret in "[!-~]{8,24}", before in "[ -~]{0,7}", after in "[ -~]{0,7}") {
            let text = format!("{before}{secret}{after}");
            let redactor = redactor_for(&secret);
            for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                prop_assert!(redactor.text(&encoded).contains(MASK), "{encoded}");
            }
        }
    }
}
