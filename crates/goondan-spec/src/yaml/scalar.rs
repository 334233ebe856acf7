//! Interprets scalars by a safer subset of YAML 1.2's core schema.
//!
//! `no`, `1_000` and `2001-01-01` are strings. Numbers are limited to those that JSON can
//! represent.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Tag};
use serde_json::Number;

use super::{YamlError, error_messages};
use crate::node::NodeContent;

/// Returns the value of a scalar; only an unquoted scalar can be anything other than a string.
pub(super) fn content(
    value: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<NodeContent, YamlError> {
    match tag {
        None if style == ScalarStyle::Plain => parse_plain(value),
        None => Ok(NodeContent::Text(value.to_owned())),
        Some(tag) => parse_tagged(value, tag),
    }
}

/// Interprets a scalar as a key: its literal text.
pub(super) fn key<'v>(
    value: Cow<'v, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Cow<'v, str>, YamlError> {
    match tag {
        None if style == ScalarStyle::Plain && is_null(&value) => {
            Err(error_messages::key_is_empty())
        }
        Some(tag) if !is_text(tag) => Err(bad_tag(tag)),
        _ => Ok(value),
    }
}

/// Returns true if a tag forces a string. A bare `!` disables type detection.
fn is_text(tag: &Tag) -> bool {
    tag.core_suffix() == Some("str") || tag.original() == "!"
}

/// Creates the error for an unsupported tag.
pub(super) fn bad_tag(tag: &Tag) -> YamlError {
    error_messages::error(
        format!("The tag `{}` is not supported here.", tag.original()),
        Some("remove the tag"),
    )
}

/// Returns the value of a scalar with a tag. Fails if the value does not match the tag.
fn parse_tagged(value: &str, tag: &Tag) -> Result<NodeContent, YamlError> {
    let tag_mismatch_error = || {
        let message = format!(
            "The tag `{}` does not match the value `{}`.",
            tag.original(),
            crate::text::excerpt(value, 40)
        );
        error_messages::error(message, Some("remove the tag"))
    };
    match tag.core_suffix() {
        _ if is_text(tag) => Ok(NodeContent::Text(value.to_owned())),
        Some("null") => Ok(NodeContent::Null),
        Some("bool") => parse_boolean(value)
            .map(NodeContent::Bool)
            .ok_or_else(tag_mismatch_error),
        Some("int") => parse_integer(&value.replace('_', ""))
            .map(NodeContent::Number)
            .ok_or_else(tag_mismatch_error),
        Some("float") => parse_float(value)?
            .map(NodeContent::Number)
            .ok_or_else(tag_mismatch_error),
        _ => Err(bad_tag(tag)),
    }
}

/// Returns the value of an unquoted scalar: null, a boolean, a number or a string.
fn parse_plain(value: &str) -> Result<NodeContent, YamlError> {
    let text = || NodeContent::Text(value.to_owned());
    if is_null(value) {
        return Ok(NodeContent::Null);
    }
    if let Some(value) = parse_boolean(value) {
        return Ok(NodeContent::Bool(value));
    }
    if !may_be_number(value) {
        return Ok(text());
    }
    if let Some(number) = parse_integer(value) {
        return Ok(NodeContent::Number(number));
    }
    if split_radix(value).is_some() {
        return Err(error_messages::number_is_too_large(value));
    }
    Ok(parse_float(value)?.map_or_else(text, NodeContent::Number))
}

fn is_null(value: &str) -> bool {
    matches!(value, "" | "~" | "null" | "Null" | "NULL")
}

/// Parses a YAML boolean; `None` for other text.
fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Requires the start of a number and no `_`, because YAML 1.2 reads `1_000` as a string.
fn may_be_number(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    digits.starts_with(|first: char| first == '.' || first.is_ascii_digit()) && !value.contains('_')
}

/// Parses a 64-bit integer: decimal, hexadecimal, octal or binary. Leading zeros have no meaning.
fn parse_integer(value: &str) -> Option<Number> {
    let (radix, digits) = split_radix(value)?;
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if value.starts_with('-') {
        0i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

/// Returns the radix and the digits of an integer of any size; `None` for other text.
fn split_radix(value: &str) -> Option<(u32, &str)> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        _ => (10, unsigned),
    };
    let is_integer = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    is_integer.then_some((radix, digits))
}

/// Parses a number with a fraction or an exponent; `None` for other text.
/// Infinity and NaN are errors because JSON has neither.
fn parse_float(value: &str) -> Result<Option<Number>, YamlError> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let not_finite = || error_messages::error(format!("`{value}` is not a finite number."), None);
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return Err(not_finite());
    }
    // Rust also parses `nan`, `inf` and `infinity`, but only `.nan` and `.inf` are YAML numbers.
    if unsigned.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Ok(None);
    }
    match value.parse::<f64>() {
        Ok(number) => Number::from_f64(number).map(Some).ok_or_else(not_finite),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_all_their_digits() {
        let number = |number: i64| NodeContent::Number(number.into());
        for (text, expected) in [
            ("0755", number(755)),
            ("00", number(0)),
            ("-007", number(-7)),
            ("09007199254740993", number(9_007_199_254_740_993)),
            ("0x1F", number(31)),
            ("18446744073709551615", NodeContent::Number(u64::MAX.into())),
            ("0x1g", NodeContent::Text("0x1g".to_owned())),
            ("0x", NodeContent::Text("0x".to_owned())),
        ] {
            assert_eq!(parse_plain(text).unwrap(), expected, "{text}");
        }
        for text in [
            "18446744073709551616",
            "018446744073709551616",
            "-9223372036854775809",
            "0x1FFFFFFFFFFFFFFFF",
            "0o7777777777777777777777",
        ] {
            let error = parse_plain(text).unwrap_err();
            assert!(error.message.contains("more than 64 bits"), "{text}");
        }
    }
}
