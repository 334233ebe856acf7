//! What a scalar is: YAML 1.2's core schema, without what surprises.
//!
//! `no` is text, and so are `1_000` and `2001-01-01`. Numbers are those that JSON can hold.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Tag};
use serde_json::Number;

use super::{YamlError, explain};
use crate::node::Content;

/// What a value is.
pub(super) fn content(
    value: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Content, YamlError> {
    match tag {
        None if style == ScalarStyle::Plain => plain(value),
        None => Ok(Content::Text(value.to_owned())),
        Some(tag) => tagged(value, tag),
    }
}

/// What a value is as a key: its text, as it is written.
pub(super) fn key<'v>(
    value: Cow<'v, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Cow<'v, str>, YamlError> {
    match tag {
        None if style == ScalarStyle::Plain && is_null(&value) => Err(explain::key_is_empty()),
        Some(tag) if !is_text(tag) => Err(bad_tag(tag)),
        _ => Ok(value),
    }
}

/// Whether a tag makes text of everything; `!` alone says that a value shall not be looked at more closely.
fn is_text(tag: &Tag) -> bool {
    tag.core_suffix() == Some("str") || tag.original() == "!"
}

/// Why a tag cannot stand where it stands.
pub(super) fn bad_tag(tag: &Tag) -> YamlError {
    explain::error(
        format!("The tag `{}` means nothing here.", tag.original()),
        Some("remove the tag"),
    )
}

fn tagged(value: &str, tag: &Tag) -> Result<Content, YamlError> {
    let misplaced = || {
        let message = format!(
            "The tag `{}` does not fit `{}`.",
            tag.original(),
            crate::text::excerpt(value, 40)
        );
        explain::error(message, Some("remove the tag"))
    };
    match tag.core_suffix() {
        _ if is_text(tag) => Ok(Content::Text(value.to_owned())),
        Some("null") => Ok(Content::Null),
        Some("bool") => boolean(value).map(Content::Bool).ok_or_else(misplaced),
        Some("int") => integer(&value.replace('_', ""))
            .map(Content::Number)
            .ok_or_else(misplaced),
        Some("float") => float(value)?.map(Content::Number).ok_or_else(misplaced),
        _ => Err(bad_tag(tag)),
    }
}

fn plain(value: &str) -> Result<Content, YamlError> {
    let text = || Content::Text(value.to_owned());
    if is_null(value) {
        return Ok(Content::Null);
    }
    if let Some(value) = boolean(value) {
        return Ok(Content::Bool(value));
    }
    if !may_be_number(value) {
        return Ok(text());
    }
    if let Some(number) = integer(value) {
        return Ok(Content::Number(number));
    }
    Ok(float(value)?.map_or_else(text, Content::Number))
}

fn is_null(value: &str) -> bool {
    matches!(value, "" | "~" | "null" | "Null" | "NULL")
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Whether it begins as numbers do, and has no `_`, which only people read over.
fn may_be_number(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    digits.starts_with(|first: char| first == '.' || first.is_ascii_digit()) && !value.contains('_')
}

/// Decimal without zeros in front, hexadecimal, octal or binary, as far as 64 bits go.
fn integer(value: &str) -> Option<Number> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => return None,
        _ => (10, unsigned),
    };
    // The standard library takes a sign here, too.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match value.starts_with('-') {
        false => Some(Number::from(magnitude)),
        true => 0i64.checked_sub_unsigned(magnitude).map(Number::from),
    }
}

/// A number with a fraction or an exponent, or one that is too large for 64 bits. Infinity and what is no number are
/// mistakes: JSON has neither.
fn float(value: &str) -> Result<Option<Number>, YamlError> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let not_finite = || explain::error(format!("`{value}` is not a finite number."), None);
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return Err(not_finite());
    }
    match value.parse::<f64>() {
        Ok(number) => Number::from_f64(number).map(Some).ok_or_else(not_finite),
        Err(_) => Ok(None),
    }
}
