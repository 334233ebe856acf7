//! Comparison of a value with an expectation.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Number, Value};

use super::number::compare;
use super::pairing::maximum_matching;
use super::{ValueMatcher, child_path, diff};

/// A difference between a value and its expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueMismatch {
    /// Path of the value, such as `output.tools[0].name`; empty for the root.
    pub path: String,
    /// Expected value.
    pub expected: String,
    /// Actual value.
    pub actual: String,
    /// Line diff with `-` (expected) and `+` (actual), if it helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl ValueMatcher {
    /// Returns true if `actual` meets the expectation; `None` is an absent value.
    pub fn matches(&self, actual: Option<&Value>) -> bool {
        match (self, actual) {
            (ValueMatcher::Exists(must_exist), _) => *must_exist == actual.is_some(),
            (ValueMatcher::Not(inner), _) => !inner.matches(actual),
            (_, Some(value)) => self.matches_value(value),
            (_, None) => false,
        }
    }

    /// Returns true if an existing value matches.
    fn matches_value(&self, value: &Value) -> bool {
        match self {
            ValueMatcher::Scalar(expected) => scalars_equal(expected, value),
            ValueMatcher::Map(entries) => value.as_object().is_some_and(|map| {
                entries
                    .iter()
                    .all(|(key, matcher)| matcher.matches(map.get(key)))
            }),
            ValueMatcher::List(items) => value.as_array().is_some_and(|list| {
                items.len() == list.len()
                    && items
                        .iter()
                        .zip(list)
                        .all(|(item, value)| item.matches(Some(value)))
            }),
            ValueMatcher::Unordered(items) => value
                .as_array()
                .is_some_and(|list| items.len() == list.len() && can_pair_all(items, list)),
            ValueMatcher::Includes(items) => value
                .as_array()
                .is_some_and(|list| can_pair_all(items, list)),
            ValueMatcher::Names(names) => names_of(value).is_some_and(|actual| actual == *names),
            ValueMatcher::Regex(regex) => value.as_str().is_some_and(|text| regex.is_match(text)),
            ValueMatcher::Contains(piece) => contains_piece(value, piece),
            ValueMatcher::Length(inner) => {
                length_of(value).is_some_and(|length| inner.matches(Some(&length)))
            }
            ValueMatcher::Gt(bound) => has_ordering(value, bound, Ordering::Greater),
            ValueMatcher::Lt(bound) => has_ordering(value, bound, Ordering::Less),
            ValueMatcher::Any => true,
            ValueMatcher::Exists(_) | ValueMatcher::Not(_) => self.matches(Some(value)),
        }
    }

    /// Returns all differences; `None` is an absent value.
    pub fn check(&self, actual: Option<&Value>) -> Vec<ValueMismatch> {
        self.check_at("", actual)
    }

    /// Checks a value like [`ValueMatcher::check`]. The paths in the result begin with `path`.
    pub fn check_at(&self, path: &str, actual: Option<&Value>) -> Vec<ValueMismatch> {
        let mut mismatches = Vec::new();
        self.collect(path, actual, &mut mismatches);
        mismatches
    }

    /// Adds the innermost mismatches to `out`; `actual` is `None` if the value is missing.
    fn collect(&self, path: &str, actual: Option<&Value>, out: &mut Vec<ValueMismatch>) {
        match (self, actual) {
            (ValueMatcher::Map(entries), Some(Value::Object(map))) => {
                for (key, matcher) in entries {
                    matcher.collect(&child_path(path, key), map.get(key), out);
                }
            }
            (ValueMatcher::List(items), Some(Value::Array(list))) => {
                self.collect_list(items, list, path, out)
            }
            (
                ValueMatcher::Unordered(items) | ValueMatcher::Includes(items),
                Some(Value::Array(list)),
            ) => {
                self.collect_unpaired(items, list, path, out);
            }
            (ValueMatcher::Length(inner), Some(value)) if length_of(value).is_some() => {
                inner.collect(
                    &format!("length of {}", path_label(path)),
                    length_of(value).as_ref(),
                    out,
                );
            }
            _ if self.matches(actual) => {}
            _ => out.push(self.describe_mismatch(path, actual)),
        }
    }

    /// Compares a list item by item, or reports only the length if it differs.
    fn collect_list(
        &self,
        items: &[ValueMatcher],
        list: &[Value],
        path: &str,
        out: &mut Vec<ValueMismatch>,
    ) {
        if items.len() != list.len() {
            let (expected, actual) = (count(items.len()), count(list.len()));
            let diff = Some(diff::diff_values(self, &Value::Array(list.to_vec())));
            out.push(ValueMismatch {
                path: path.to_owned(),
                expected,
                actual,
                diff,
            });
            return;
        }
        for (index, (item, value)) in items.iter().zip(list).enumerate() {
            item.collect(&format!("{path}[{index}]"), Some(value), out);
        }
    }

    /// Pairs the matchers `items` with the elements of `list` in any order. Reports matchers
    /// without an element. If the list must not contain anything else, also reports surplus
    /// elements.
    fn collect_unpaired(
        &self,
        items: &[ValueMatcher],
        list: &[Value],
        path: &str,
        out: &mut Vec<ValueMismatch>,
    ) {
        let partners = pair_items(items, list);
        let paired_indexes: BTreeSet<usize> = partners.iter().flatten().copied().collect();
        let unpaired_elements: Vec<(usize, &Value)> = list
            .iter()
            .enumerate()
            .filter(|(index, _)| !paired_indexes.contains(index))
            .collect();
        let mut missing_count = 0;
        for (item, partner) in items.iter().zip(&partners) {
            if partner.is_none() {
                missing_count += 1;
                out.push(missing_item(item, &unpaired_elements, path));
            }
        }
        let allows_no_others = matches!(self, ValueMatcher::Unordered(_));
        // As many unpaired elements as missing items: each one is reported as the missing item.
        if allows_no_others && unpaired_elements.len() > missing_count {
            for (index, value) in unpaired_elements {
                out.push(unexpected_item(index, value, path));
            }
        }
    }

    /// Describes the mismatch, with a diff for strings of several lines.
    fn describe_mismatch(&self, path: &str, actual: Option<&Value>) -> ValueMismatch {
        let diff = match (self, actual) {
            (ValueMatcher::Scalar(Value::String(wanted)), Some(Value::String(actual)))
                if wanted.contains('\n') || actual.contains('\n') =>
            {
                Some(diff::lines(wanted, actual))
            }
            _ => None,
        };
        ValueMismatch {
            path: path.to_owned(),
            expected: diff::shorten_json(&self.to_value()),
            actual: actual.map_or_else(|| "nothing".to_owned(), diff::shorten_json),
            diff,
        }
    }
}

/// Returns the index of the list element that each matcher is paired with.
fn pair_items(items: &[ValueMatcher], list: &[Value]) -> Vec<Option<usize>> {
    maximum_matching(items.len(), list.len(), |item, value| {
        items[item].matches(Some(&list[value]))
    })
}

/// Returns true if each matcher can get its own matching list item.
fn can_pair_all(items: &[ValueMatcher], list: &[Value]) -> bool {
    pair_items(items, list).iter().all(Option::is_some)
}

/// Returns the mismatch of an item without a partner, compared with the closest unpaired element.
fn missing_item(
    item: &ValueMatcher,
    unpaired_elements: &[(usize, &Value)],
    path: &str,
) -> ValueMismatch {
    let closest = unpaired_elements
        .iter()
        .min_by_key(|(_, value)| item.check(Some(value)).len());
    let (actual, diff) = match closest {
        Some((index, value)) => (
            format!("no such element; [{index}] comes closest"),
            Some(diff::diff_values(item, value)),
        ),
        None => ("no such element".to_owned(), None),
    };
    ValueMismatch {
        path: path.to_owned(),
        expected: diff::shorten_json(&item.to_value()),
        actual,
        diff,
    }
}

/// Creates the mismatch for a surplus list item.
fn unexpected_item(index: usize, value: &Value, path: &str) -> ValueMismatch {
    let (expected, actual) = ("nothing more".to_owned(), diff::shorten_json(value));
    ValueMismatch {
        path: format!("{path}[{index}]"),
        expected,
        actual,
        diff: None,
    }
}

/// Compares two scalars; numbers by value, so that 1 equals 1.0.
fn scalars_equal(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        _ => expected == actual,
    }
}

/// Returns true if a string contains the piece, or a list has an item equal to it.
fn contains_piece(value: &Value, piece: &Value) -> bool {
    match (value, piece) {
        (Value::String(text), Value::String(piece)) => text.contains(piece.as_str()),
        (Value::String(text), Value::Number(number)) => text.contains(&number.to_string()),
        (Value::Array(list), piece) => list.iter().any(|item| scalars_equal(piece, item)),
        _ => false,
    }
}

/// Returns true if the value is a number in the given order to `bound`.
fn has_ordering(value: &Value, bound: &Number, ordering: Ordering) -> bool {
    value.as_number().and_then(|number| compare(number, bound)) == Some(ordering)
}

/// Returns the `name` of each list item, or the item itself if it is a string; `None` if an item
/// has none.
fn names_of(value: &Value) -> Option<BTreeSet<String>> {
    let name = |item: &Value| item.get("name").unwrap_or(item).as_str().map(str::to_owned);
    value.as_array()?.iter().map(name).collect()
}

/// Returns the number of characters, items or keys; `None` for other values.
fn length_of(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => Some(text.chars().count().into()),
        Value::Array(list) => Some(list.len().into()),
        Value::Object(map) => Some(map.len().into()),
        _ => None,
    }
}

/// Formats a number of list elements.
fn count(elements: usize) -> String {
    format!("{elements} element{}", if elements == 1 { "" } else { "s" })
}

/// Returns the path for messages; a name for the root, whose path is empty.
fn path_label(path: &str) -> &str {
    if path.is_empty() { "the value" } else { path }
}
