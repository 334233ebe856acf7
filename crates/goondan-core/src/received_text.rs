//! Text and JSON in the bodies of requests, read the same way for every client and platform.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::json_text;

/// Reason why a body is not text, or not JSON.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableText {
    /// The body is not text of its character set.
    #[error("The body is not {0} text.")]
    Encoding(&'static str),
    /// The character set is not supported.
    #[error("The character set of the body is not supported. Use UTF-8.")]
    Charset,
    /// The body is not JSON.
    #[error("The body is not JSON: {0}.")]
    Json(#[from] serde_json::Error),
}

/// Decodes a body. `content_type` may name its character set; the default is UTF-8, or UTF-16 if
/// the body begins with its byte order mark. The text does not contain the byte order mark.
///
/// # Errors
/// The body is not text, or the character set is not supported.
pub fn decode<'b>(body: &'b [u8], content_type: &str) -> Result<Cow<'b, str>, UnreadableText> {
    match body {
        [0xEF, 0xBB, 0xBF, rest @ ..] => return utf8(rest),
        [0xFF, 0xFE, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    match charset(content_type).as_str() {
        "" | "utf-8" | "utf8" | "us-ascii" | "ascii" => utf8(body),
        "utf-16le" => utf16(body, u16::from_le_bytes),
        "utf-16" | "utf-16be" => utf16(body, u16::from_be_bytes),
        // The first 256 characters of Unicode are those of Latin-1.
        "iso-8859-1" | "latin1" => Ok(body.iter().map(|byte| char::from(*byte)).collect()),
        _ => Err(UnreadableText::Charset),
    }
}

/// Parses a JSON body. Escapes of lone surrogates become U+FFFD.
///
/// # Errors
/// The body is not text, or not JSON.
pub fn parse<T: DeserializeOwned>(body: &[u8], content_type: &str) -> Result<T, UnreadableText> {
    Ok(json_text::parse(&decode(body, content_type)?)?)
}

/// Returns true for a content type that states JSON.
pub fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Returns the encoding of a compressed body. `content_encoding` is the header, or empty.
pub fn compression(content_encoding: &str) -> Option<&str> {
    Some(content_encoding.trim())
        .filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"))
}

/// Returns the character set in a content type, in lower case.
fn charset(content_type: &str) -> String {
    let parameters = content_type.split(';').skip(1);
    let charset_parameter = parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charset_parameter
        .map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase())
        .unwrap_or_default()
}

fn utf8(body: &[u8]) -> Result<Cow<'_, str>, UnreadableText> {
    std::str::from_utf8(body)
        .map(Cow::Borrowed)
        .map_err(|_| UnreadableText::Encoding("UTF-8"))
}

fn utf16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'static, str>, UnreadableText> {
    let (units, []) = body.as_chunks::<2>() else {
        return Err(UnreadableText::Encoding("UTF-16"));
    };
    let units = units.iter().map(|bytes| unit(*bytes));
    Ok(char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_body_is_decoded_by_its_byte_order_mark_or_charset() {
        let latin = "application/json; charset=ISO-8859-1";
        let wide: Vec<u8> = "\u{feff}\"ü😀\""
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for (body, content_type, expected) in [
            (&b"\xEF\xBB\xBF\"a\""[..], "", json!("a")),
            (
                b"\"\xC3\xBC\"",
                "application/json; Charset=\"utf-8\"",
                json!("ü"),
            ),
            (b"\"\xFC\"", latin, json!("ü")),
            (&wide, "application/json", json!("ü😀")),
            (b"\"cut \\ud83d\"", "", json!("cut \u{fffd}")),
            (b"\"\\ud83d\\ude00\"", "", json!("😀")),
        ] {
            let parsed: Value = parse(body, content_type).unwrap();
            assert_eq!(parsed, expected, "{content_type}");
        }
        for (body, content_type) in [
            (&b"\"\xFC\""[..], ""),
            (b"\"a\"", "text/plain; charset=koi8-r"),
            (b"\xFF\xFEa", ""),
            (b"{", ""),
        ] {
            assert!(parse::<Value>(body, content_type).is_err(), "{body:?}");
        }
    }
}
