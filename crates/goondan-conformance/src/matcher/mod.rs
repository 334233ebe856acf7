//! What a case expects of a value, and what differs when a value is otherwise.
//!
//! Scalars are equal (numbers by value), maps are subsets, lists have the same length. A map with one key that begins
//! with `$` is an operator; [`OPERATORS`](parse::OPERATORS) lists them.

mod check;
mod diff;
mod number;
mod pairing;
mod parse;

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Number, Value};

pub use check::Mismatch;
pub use parse::MatcherError;

/// An expectation about one JSON value, or about its absence.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// That scalar; numbers by value.
    Scalar(Value),
    /// A map in which every one of these keys matches; other keys do not matter.
    Map(Vec<(String, Matcher)>),
    /// A list of the same length in which every element matches.
    List(Vec<Matcher>),
    /// As [`Matcher::List`], in any order.
    Unordered(Vec<Matcher>),
    /// A list with a different element for each of these, in any order; other elements do not matter.
    Includes(Vec<Matcher>),
    /// A list of names, or of objects with a `name`, as a set.
    Names(BTreeSet<String>),
    /// Text in which the expression is found.
    Regex(Regex),
    /// Text with that text in it, or a list with that element.
    Contains(Value),
    /// Whether there is a value at all.
    Exists(bool),
    /// The number of characters, elements or keys.
    Length(Box<Matcher>),
    /// Anything else than that, absence included.
    Not(Box<Matcher>),
    /// Any value, but not absence.
    Any,
    /// A greater number.
    Gt(Number),
    /// A smaller number.
    Lt(Number),
}

impl Matcher {
    /// The expectation as it is written in a case.
    pub fn to_value(&self) -> Value {
        match self {
            Matcher::Scalar(value) => value.clone(),
            Matcher::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, matcher)| (key.clone(), matcher.to_value()))
                    .collect(),
            ),
            Matcher::List(items) => values(items),
            Matcher::Unordered(items) => operator("$unordered", values(items)),
            Matcher::Includes(items) => operator("$includes", values(items)),
            Matcher::Names(names) => {
                operator("$names", names.iter().cloned().map(Value::String).collect())
            }
            Matcher::Regex(regex) => operator("$regex", Value::String(regex.as_str().to_owned())),
            Matcher::Contains(value) => operator("$contains", value.clone()),
            Matcher::Exists(wanted) => operator("$exists", Value::Bool(*wanted)),
            Matcher::Length(inner) => operator("$length", inner.to_value()),
            Matcher::Not(inner) => operator("$not", inner.to_value()),
            Matcher::Any => operator("$any", Value::Bool(true)),
            Matcher::Gt(bound) => operator("$gt", Value::Number(bound.clone())),
            Matcher::Lt(bound) => operator("$lt", Value::Number(bound.clone())),
        }
    }

    /// A list is taken as a set: what a case means by an exact list in any order. Other matchers stay as they are.
    #[must_use]
    pub fn in_any_order(self) -> Matcher {
        match self {
            Matcher::List(items) => Matcher::Unordered(items),
            other => other,
        }
    }
}

fn values(items: &[Matcher]) -> Value {
    items.iter().map(Matcher::to_value).collect()
}

fn operator(name: &str, operand: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), operand)]))
}

/// `path` extended by `key`, quoted where it would be misread.
pub(crate) fn child(path: &str, key: &str) -> String {
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
