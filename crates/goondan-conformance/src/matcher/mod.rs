//! Matchers for values in test cases.
//!
//! Scalars are equal (numbers by value), maps are subsets, lists have the same length. A map with
//! one key that begins with `$` is an operator; [`OPERATORS`](parse::OPERATORS) lists them.

mod check;
mod diff;
mod number;
mod pairing;
mod parse;

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Number, Value};

pub use check::ValueMismatch;
pub use parse::MatcherError;

/// Expectation about one JSON value or its absence.
#[derive(Debug, Clone)]
pub enum ValueMatcher {
    /// An equal scalar; numbers are compared by value.
    Scalar(Value),
    /// A map in which all of these keys match. Other keys are ignored.
    Map(Vec<(String, ValueMatcher)>),
    /// A list of the same length in which every element matches.
    List(Vec<ValueMatcher>),
    /// Like [`ValueMatcher::List`], in any order.
    Unordered(Vec<ValueMatcher>),
    /// A list with a different element for each of these, in any order. Other elements are ignored.
    Includes(Vec<ValueMatcher>),
    /// A list of names, or of objects with a `name`, as a set.
    Names(BTreeSet<String>),
    /// A string that contains a match of the expression.
    Regex(Regex),
    /// A string with this substring, or a list with this element.
    Contains(Value),
    /// Presence or absence of a value.
    Exists(bool),
    /// The number of characters, elements or keys.
    Length(Box<ValueMatcher>),
    /// Any other value, or no value.
    Not(Box<ValueMatcher>),
    /// Any value, but not absence.
    Any,
    /// A greater number.
    Gt(Number),
    /// A smaller number.
    Lt(Number),
}

impl ValueMatcher {
    /// Returns the expectation as it is written in a test case.
    pub fn to_value(&self) -> Value {
        match self {
            ValueMatcher::Scalar(value) => value.clone(),
            ValueMatcher::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, matcher)| (key.clone(), matcher.to_value()))
                    .collect(),
            ),
            ValueMatcher::List(items) => values(items),
            ValueMatcher::Unordered(items) => operator_map("$unordered", values(items)),
            ValueMatcher::Includes(items) => operator_map("$includes", values(items)),
            ValueMatcher::Names(names) => {
                operator_map("$names", names.iter().cloned().map(Value::String).collect())
            }
            ValueMatcher::Regex(regex) => {
                operator_map("$regex", Value::String(regex.as_str().to_owned()))
            }
            ValueMatcher::Contains(value) => operator_map("$contains", value.clone()),
            ValueMatcher::Exists(wanted) => operator_map("$exists", Value::Bool(*wanted)),
            ValueMatcher::Length(inner) => operator_map("$length", inner.to_value()),
            ValueMatcher::Not(inner) => operator_map("$not", inner.to_value()),
            ValueMatcher::Any => operator_map("$any", Value::Bool(true)),
            ValueMatcher::Gt(bound) => operator_map("$gt", Value::Number(bound.clone())),
            ValueMatcher::Lt(bound) => operator_map("$lt", Value::Number(bound.clone())),
        }
    }

    /// Converts a list to a set: an exact list in any order. Other matchers stay the same.
    #[must_use]
    pub fn in_any_order(self) -> ValueMatcher {
        match self {
            ValueMatcher::List(items) => ValueMatcher::Unordered(items),
            other => other,
        }
    }
}

/// Converts matchers to a JSON list.
fn values(items: &[ValueMatcher]) -> Value {
    items.iter().map(ValueMatcher::to_value).collect()
}

/// Creates a map with one operator key.
fn operator_map(name: &str, operand: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), operand)]))
}

/// Appends `key` to `path`, quoted if it would be ambiguous.
pub(crate) fn child_path(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || "_$-".contains(c));
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", Value::String(key.to_owned())),
    }
}

#[cfg(test)]
mod tests;
