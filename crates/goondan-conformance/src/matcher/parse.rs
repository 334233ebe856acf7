//! Parses matchers in test cases, and reports unknown operators with their path.

use std::fmt::Display;

use goondan::spec::pattern_fault;
use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value};

use super::{ValueMatcher, child_path};

/// An invalid expectation, which is an error of the test case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MatcherError {
    /// Path in the expectation, such as `output.tools[0]`.
    pub path: String,
    /// Message with the error and the correct form.
    pub message: String,
}

type Parse = fn(&Value, &str) -> Result<ValueMatcher, MatcherError>;

/// All operators with the parsers of their operands.
pub(super) const OPERATORS: &[(&str, Parse)] = &[
    ("$regex", parse_regex),
    ("$contains", contains),
    ("$exists", parse_exists),
    ("$length", parse_length),
    ("$unordered", |operand, path| {
        Ok(ValueMatcher::Unordered(items(operand, path)?))
    }),
    ("$includes", |operand, path| {
        Ok(ValueMatcher::Includes(items(operand, path)?))
    }),
    ("$not", |operand, path| {
        Ok(ValueMatcher::Not(Box::new(parse(operand, path)?)))
    }),
    ("$any", parse_any),
    ("$gt", |operand, path| {
        Ok(ValueMatcher::Gt(parse_number(operand, path)?))
    }),
    ("$lt", |operand, path| {
        Ok(ValueMatcher::Lt(parse_number(operand, path)?))
    }),
    ("$names", names),
];

impl ValueMatcher {
    /// Parses an expectation. Fails for unknown operators and invalid operands.
    pub fn parse(value: &Value) -> Result<ValueMatcher, MatcherError> {
        parse(value, "")
    }
}

/// Parses a value: a map with a `$` key is an operator, all else is compared as it is.
fn parse(value: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    match value {
        Value::Object(map) => match map.iter().find(|(key, _)| key.starts_with('$')) {
            Some((key, operand)) => parse_operator(map, key, operand, path),
            None => parse_map(map, path),
        },
        Value::Array(_) => Ok(ValueMatcher::List(items(value, path)?)),
        scalar => Ok(ValueMatcher::Scalar(scalar.clone())),
    }
}

/// Parses a map whose values are matchers.
fn parse_map(map: &Map<String, Value>, path: &str) -> Result<ValueMatcher, MatcherError> {
    let entry =
        |(key, value): (&String, &Value)| Ok((key.clone(), parse(value, &child_path(path, key))?));
    Ok(ValueMatcher::Map(
        map.iter().map(entry).collect::<Result<_, _>>()?,
    ))
}

/// Parses an operator such as `$regex`. Fails if the name is unknown or if the map has other keys.
fn parse_operator(
    map: &Map<String, Value>,
    key: &str,
    operand: &Value,
    path: &str,
) -> Result<ValueMatcher, MatcherError> {
    let Some((_, parse)) = OPERATORS.iter().find(|(name, _)| *name == key) else {
        let operators: Vec<&str> = OPERATORS.iter().map(|(name, _)| *name).collect();
        return Err(error_at(
            path,
            format!(
                "there is no matcher `{key}`; the matchers are {}",
                operators.join(", ")
            ),
        ));
    };
    if map.len() > 1 {
        return Err(error_at(
            path,
            format!("`{key}` must be the only key of its map"),
        ));
    }
    parse(operand, &child_path(path, key))
}

/// Creates an error whose message begins with the value at `path`.
fn error(path: &str, what: impl Display) -> MatcherError {
    let message = if path.is_empty() {
        format!("this {what}")
    } else {
        format!("`{path}` {what}")
    };
    MatcherError {
        path: path.to_owned(),
        message,
    }
}

/// Creates an error whose message contains the path.
fn error_at(path: &str, message: impl Display) -> MatcherError {
    let message = if path.is_empty() {
        message.to_string()
    } else {
        format!("at {path}: {message}")
    };
    MatcherError {
        path: path.to_owned(),
        message,
    }
}

/// Parses a list of matchers.
fn items(operand: &Value, path: &str) -> Result<Vec<ValueMatcher>, MatcherError> {
    let list = operand
        .as_array()
        .ok_or_else(|| error(path, "must be a list"))?;
    list.iter()
        .enumerate()
        .map(|(index, item)| parse(item, &format!("{path}[{index}]")))
        .collect()
}

/// Parses the operand of `$regex`.
fn parse_regex(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    let text = operand
        .as_str()
        .ok_or_else(|| error(path, "must be a regular expression as a string"))?;
    let regex = Regex::new(text).map_err(|cause| {
        error(
            path,
            format!("is not a regular expression: {}", pattern_fault(&cause)),
        )
    })?;
    Ok(ValueMatcher::Regex(regex))
}

/// Parses the operand of `$contains`.
fn contains(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    match operand {
        Value::Array(_) | Value::Object(_) => Err(error(
            path,
            "must be a string or another scalar; for lists use $includes",
        )),
        scalar => Ok(ValueMatcher::Contains(scalar.clone())),
    }
}

/// Parses the operand of `$exists`.
fn parse_exists(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    operand
        .as_bool()
        .map(ValueMatcher::Exists)
        .ok_or_else(|| error(path, "must be a boolean"))
}

/// Parses the operand of `$any`.
fn parse_any(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    match operand {
        Value::Bool(true) => Ok(ValueMatcher::Any),
        _ => Err(error(
            path,
            "must be true; for absence use `$exists: false`",
        )),
    }
}

/// Parses the operand of `$length`: an integer or a matcher for the length.
fn parse_length(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    match parse(operand, path)? {
        ValueMatcher::Scalar(value) if value.as_u64().is_none() => {
            Err(error(path, "must be an integer or a matcher"))
        }
        ValueMatcher::Map(_) | ValueMatcher::List(_) => {
            Err(error(path, "must be an integer or a matcher"))
        }
        inner => Ok(ValueMatcher::Length(Box::new(inner))),
    }
}

/// Parses the bound of a comparison.
fn parse_number(operand: &Value, path: &str) -> Result<Number, MatcherError> {
    operand
        .as_number()
        .cloned()
        .ok_or_else(|| error(path, "must be a number"))
}

/// Parses the operand of `$names`.
fn names(operand: &Value, path: &str) -> Result<ValueMatcher, MatcherError> {
    let names = operand.as_array().and_then(|list| {
        list.iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    });
    names
        .map(ValueMatcher::Names)
        .ok_or_else(|| error(path, "must be a list of names"))
}

impl<'de> Deserialize<'de> for ValueMatcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueMatcher::parse(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ValueMatcher {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Matcher".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let this = generator.subschema_for::<ValueMatcher>();
        let properties: Map<String, Value> = OPERATORS
            .iter()
            .map(|(name, _)| ((*name).to_owned(), Value::Bool(true)))
            .collect();
        json_schema!({
            "description": "Scalars are equal (numbers by value), maps are subsets, lists have the \
                same length. \
                            A map with one key that begins with `$` is an operator.",
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": this},
                {"type": "object", "minProperties": 1, "maxProperties": 1, "properties": properties,
                 "additionalProperties": false},
                {"type": "object", "propertyNames": {"pattern": "^[^$]"}, "additionalProperties": this}
            ]
        })
    }
}
