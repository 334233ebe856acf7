//! Expectation and value side by side, reduced to what the expectation speaks about.

use goondan::diff::unified;
use serde_json::{Map, Value};

use super::Matcher;

/// Longer values are cut where they stand in a sentence; counted in characters.
const SHORT: usize = 300;

/// `value` on one line, cut to a bearable length.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

/// The lines of both texts, `-` for expected and `+` for actual.
pub(super) fn lines(expected: &str, actual: &str) -> String {
    let text = unified(expected, actual, 3);
    // Where a hunk stands says nothing here, nor whether a line break ends the text.
    text.lines()
        .filter(|line| !line.starts_with(['@', '\\']))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The expectation against the part of `actual` that it speaks about: what matches looks the same on both sides.
pub(super) fn of(expected: &Matcher, actual: &Value) -> String {
    lines(
        &pretty(&expected.to_value()),
        &pretty(&focus(expected, actual)),
    )
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// `actual`, with what matches written as the expectation is, and without the keys that the expectation does not name.
fn focus(expected: &Matcher, actual: &Value) -> Value {
    if expected.matches(Some(actual)) {
        return expected.to_value();
    }
    match (expected, actual) {
        (Matcher::Map(entries), Value::Object(map)) => {
            let named = |(key, matcher): &(String, Matcher)| {
                Some((key.clone(), focus(matcher, map.get(key)?)))
            };
            Value::Object(entries.iter().filter_map(named).collect::<Map<_, _>>())
        }
        (Matcher::List(items), Value::Array(list)) if items.len() == list.len() => items
            .iter()
            .zip(list)
            .map(|(item, value)| focus(item, value))
            .collect(),
        (Matcher::List(items), Value::Array(list)) => {
            list.iter().map(|value| focus_any(items, value)).collect()
        }
        _ => actual.clone(),
    }
}

/// `value` as the first item that it matches, else as it is.
fn focus_any(items: &[Matcher], value: &Value) -> Value {
    match items.iter().find(|item| item.matches(Some(value))) {
        Some(item) => item.to_value(),
        None => value.clone(),
    }
}
