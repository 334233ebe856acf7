//! The forms in which a secret appears in other texts.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use goondan_spec::Secret;
use goondan_spec::value::Masking;
use serde_json::Value;

/// The shortest form of a long secret, in bytes. Shorter texts are everywhere by chance.
const SHORTEST_FORM: usize = 8;

/// Characters that encoders for URLs leave as they are, besides letters, digits and `-_.~`: none, slashes (Python's `quote`),
/// and those of JavaScript's `encodeURIComponent` and `encodeURI`.
const KEPT_IN_URLS: [&str; 4] = ["", "/", "!'()*", "!'()*;/?:@&=+$,#"];

/// Places in which a form is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Only where no letter and no digit is next to it.
    Word,
    /// Everywhere.
    Anywhere,
}

/// Adds the forms of `secret` that are masked.
pub(super) fn add(secret: &Secret, forms: &mut BTreeMap<String, Reach>) {
    let text = secret.expose().trim();
    let (found, reach) = match secret.masking() {
        Masking::Anywhere => (forms_of(text), Reach::Anywhere),
        Masking::WholeWord => (written_forms(text), Reach::Word),
        Masking::Never => return,
    };
    for form in found {
        let known = forms.entry(form).or_insert(reach);
        *known = reach.max(*known);
    }
}

/// All forms of a long secret: as it is, escaped for JSON or a URL, as base64 and as hex.
pub fn forms_of(secret: &str) -> BTreeSet<String> {
    let mut forms = written_forms(secret);
    let bytes = secret.as_bytes();
    let hex = |digits: fn(&u8) -> String| bytes.iter().map(digits).collect::<String>();
    forms.insert(hex(|byte| format!("{byte:02x}")));
    forms.insert(hex(|byte| format!("{byte:02X}")));
    for shift in 0..3 {
        forms.extend(base64_behind(bytes, shift));
    }
    forms.retain(|form| form.len() >= SHORTEST_FORM);
    forms
}

/// The secret as it is, and escaped for JSON or a URL.
fn written_forms(secret: &str) -> BTreeSet<String> {
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
    forms
}

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
