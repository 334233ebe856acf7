//! Encoded forms in which a secret can appear in a text.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use goondan_spec::Secret;
use goondan_spec::value::SecretMasking;
use serde_json::Value;

/// Minimum length of a form of a long secret, in bytes. Shorter strings occur by chance.
const MIN_FORM_BYTES: usize = 8;

/// Characters that URL encoders do not escape, in addition to letters, digits and `-_.~`. In order:
/// none, slashes (Python's `quote`), JavaScript's `encodeURIComponent`, and JavaScript's
/// `encodeURI`.
const URL_UNESCAPED_SETS: [&str; 4] = ["", "/", "!'()*", "!'()*;/?:@&=+$,#"];

/// Characters that Go escapes in JSON, in addition to the usual ones.
const GO_JSON_ESCAPES: [(char, &str); 3] = [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")];

/// Characters that are entities in HTML. `&` is the first one, because entities contain it.
const HTML_ENTITIES: [(char, &str); 5] = [
    ('&', "&amp;"),
    ('<', "&lt;"),
    ('>', "&gt;"),
    ('"', "&quot;"),
    ('\'', "&#39;"),
];

/// Replaces each character of `escapes` in `text`.
fn replace_chars(text: &str, escapes: &[(char, &str)]) -> String {
    let replace =
        |text: String, (character, escape): &(char, &str)| text.replace(*character, escape);
    escapes.iter().fold(text.to_owned(), replace)
}

/// Places where a form is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MaskScope {
    /// Masks the form only as a whole word: no letter or digit is next to the form.
    Word,
    /// Masks the form everywhere.
    Anywhere,
}

/// Texts between the bytes of a secret in hexadecimal digits, as `hexdump`, OpenSSL, Windows, C
/// strings and lists write them.
const HEX_SEPARATORS: [&str; 7] = ["", " ", ":", "-", "\\x", ", 0x", ",0x"];

/// Minimum length in bytes of a line that is masked separately.
const MIN_LINE_BYTES: usize = 16;

/// Returns the lines of a secret with several lines, such as a private key. Tools show a file line by
/// line. Leaves out short lines, and the first and last line of a PEM file.
fn separate_lines(secret: &str) -> impl Iterator<Item = &str> {
    let lines = secret.lines().map(str::trim);
    let is_several = secret.contains('\n');
    lines.filter(move |line| {
        is_several && line.len() >= MIN_LINE_BYTES && !line.starts_with("-----")
    })
}

/// Adds the forms of `secret` to `forms`. A form of two secrets gets the wider scope.
pub(super) fn add(secret: &Secret, forms: &mut BTreeMap<String, MaskScope>) {
    let text = secret.expose().trim();
    if secret.masking() == SecretMasking::Anywhere {
        let lines = separate_lines(text).flat_map(written_forms);
        forms.extend(lines.map(|form| (form, MaskScope::Anywhere)));
    }
    let (secret_forms, scope) = match secret.masking() {
        SecretMasking::Anywhere => (forms_of(text), MaskScope::Anywhere),
        SecretMasking::WholeWord => (written_forms(text), MaskScope::Word),
        SecretMasking::Never => return,
    };
    for form in secret_forms {
        let known_scope = forms.entry(form).or_insert(scope);
        *known_scope = scope.max(*known_scope);
    }
}

/// Returns all forms of a long secret: plain, escaped for JSON or a URL, in base64 and in hex.
pub fn forms_of(secret: &str) -> BTreeSet<String> {
    let mut forms = written_forms(secret);
    let bytes = secret.as_bytes();
    let lower: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let upper: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    forms.extend(HEX_SEPARATORS.map(|separator| lower.join(separator)));
    forms.extend(HEX_SEPARATORS.map(|separator| upper.join(separator)));
    for shift in 0..3 {
        forms.extend(base64_at_offset(bytes, shift));
    }
    forms.retain(|form| form.len() >= MIN_FORM_BYTES);
    forms
}

/// Returns the secret in plain form, and escaped for JSON or a URL.
fn written_forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    let quoted = Value::from(secret).to_string();
    forms.insert(quoted[1..quoted.len() - 1].to_owned());
    // A string inside a JSON string, like a tool result in a request.
    let twice = Value::from(quoted[1..quoted.len() - 1].to_owned()).to_string();
    forms.insert(twice[1..twice.len() - 1].to_owned());
    // PHP escapes slashes.
    forms.insert(quoted[1..quoted.len() - 1].replace('/', "\\/"));
    let go_quoted = replace_chars(&quoted[1..quoted.len() - 1], &GO_JSON_ESCAPES);
    for is_upper in [false, true] {
        // Python and PHP escape all other characters than ASCII. PHP also escapes slashes.
        let ascii = ascii_json(secret, is_upper);
        forms.insert(ascii.replace('/', "\\/"));
        let twice = Value::from(ascii.clone()).to_string();
        forms.insert(twice[1..twice.len() - 1].to_owned());
        forms.insert(ascii);
    }
    let html = replace_chars(secret, &HTML_ENTITIES);
    // The same characters, as Go and Python escape them.
    let html_numbers = html.replace("&quot;", "&#34;").replace("&#39;", "&#x27;");
    forms.extend([go_quoted, html, html_numbers]);
    let escape_with =
        |digits: fn(u16) -> String| secret.encode_utf16().map(digits).collect::<String>();
    forms.insert(escape_with(|unit| format!("\\u{unit:04x}")));
    forms.insert(escape_with(|unit| format!("\\u{unit:04X}")));
    let bytes = secret.as_bytes();
    forms.insert(bytes.iter().map(|byte| format!("%{byte:02X}")).collect());
    forms.insert(bytes.iter().map(|byte| format!("%{byte:02x}")).collect());
    for unescaped in URL_UNESCAPED_SETS {
        let encode = |unescaped: &'static str, space: &'static str, is_lower: bool| {
            url_encoded(bytes, unescaped, |byte| match byte {
                b' ' => space.to_owned(),
                _ if is_lower => format!("%{byte:02x}"),
                _ => format!("%{byte:02X}"),
            })
        };
        forms.extend([
            encode(unescaped, "%20", false),
            encode(unescaped, "%20", true),
            encode(unescaped, "+", false),
        ]);
    }
    forms
}

/// Escapes `text` for a JSON string that contains only printable ASCII characters. `is_upper` is the
/// case of the hex digits. Characters above U+FFFF become two escapes, a surrogate pair.
fn ascii_json(text: &str, is_upper: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            ' '..='~' => escaped.push(character),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            _ => {
                let units = character.encode_utf16(&mut [0; 2]).to_vec();
                escaped.extend(units.iter().map(|unit| {
                    if is_upper {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    }
                }));
            }
        }
    }
    escaped
}

/// Escapes `bytes` for a URL with `encode`. Does not escape letters, digits, `-_.~` and the
/// characters in `unescaped`.
fn url_encoded(bytes: &[u8], unescaped: &str, encode: impl Fn(u8) -> String) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~')
            || unescaped.as_bytes().contains(&byte)
    };
    bytes
        .iter()
        .map(|&byte| {
            if is_plain(byte) {
                (byte as char).to_string()
            } else {
                encode(byte)
            }
        })
        .collect()
}

/// Returns base64 of the bytes after `shift` others: only the digits that depend on nothing but the
/// secret.
fn base64_at_offset(bytes: &[u8], shift: usize) -> Vec<String> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(bytes);
    // Digits of six bits: the first without bits of the other bytes, and the last complete one.
    let (first, last) = ((shift * 8).div_ceil(6), padded.len() * 8 / 6);
    let whole_digits = |text: String| text.get(first..last).map(str::to_owned);
    [
        whole_digits(STANDARD_NO_PAD.encode(&padded)),
        whole_digits(URL_SAFE_NO_PAD.encode(&padded)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
