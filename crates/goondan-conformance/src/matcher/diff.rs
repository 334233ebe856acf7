//! Diff of an expectation and a value, reduced to the parts that the expectation names.

use goondan::diff::unified;
use serde_json::{Map, Value};

use super::ValueMatcher;

/// Maximum length in characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 300;

/// Returns `value` on one line, truncated.
pub(super) fn shorten_json(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

/// Returns a line diff of two strings without hunk headers.
pub(super) fn lines(expected: &str, actual: &str) -> String {
    let text = unified(expected, actual, 3);
    // Hunk headers and notes about the last line break have no meaning here.
    text.lines()
        .filter(|line| !line.starts_with(['@', '\\']))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Compares the expectation with the parts of `actual` that it names. Parts that match are equal on
/// both sides.
pub(super) fn diff_values(expected: &ValueMatcher, actual: &Value) -> String {
    lines(
        &pretty_json(&expected.to_value()),
        &pretty_json(&align_actual(expected, actual)),
    )
}

/// Formats a value as indented JSON.
fn pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Replaces parts of `actual` that match by the expectation, and removes keys that the expectation
/// does not name.
fn align_actual(expected: &ValueMatcher, actual: &Value) -> Value {
    if expected.matches(Some(actual)) {
        return expected.to_value();
    }
    match (expected, actual) {
        (ValueMatcher::Map(entries), Value::Object(map)) => {
            let selected_part = |(key, matcher): &(String, ValueMatcher)| {
                Some((key.clone(), align_actual(matcher, map.get(key)?)))
            };
            Value::Object(
                entries
                    .iter()
                    .filter_map(selected_part)
                    .collect::<Map<_, _>>(),
            )
        }
        (ValueMatcher::List(items), Value::Array(list)) if items.len() == list.len() => items
            .iter()
            .zip(list)
            .map(|(item, value)| align_actual(item, value))
            .collect(),
        (ValueMatcher::List(items), Value::Array(list)) => list
            .iter()
            .map(|value| align_with_any(items, value))
            .collect(),
        _ => actual.clone(),
    }
}

/// Returns the first item that `value` matches, so that the diff omits it; else `value`.
fn align_with_any(items: &[ValueMatcher], value: &Value) -> Value {
    match items.iter().find(|item| item.matches(Some(value))) {
        Some(item) => item.to_value(),
        None => value.clone(),
    }
}
