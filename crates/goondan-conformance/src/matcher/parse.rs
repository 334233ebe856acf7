//! From what a case writes to a [`Matcher`].

use std::fmt::Display;

use goondan::spec::pattern_fault;
use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value};

use super::{Matcher, child};

/// An expectation that is written wrongly. It is an error of the case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MatcherError {
    /// Where in the expectation, such as `output.tools[0]`.
    pub path: String,
    /// What is wrong, and what is right.
    pub message: String,
}

type Parse = fn(&Value, &str) -> Result<Matcher, MatcherError>;

/// Every operator, with what reads its operand.
pub(super) const OPERATORS: &[(&str, Parse)] = &[
    ("$regex", regex),
    ("$contains", contains),
    ("$exists", exists),
    ("$length", length),
    ("$unordered", |operand, path| {
        Ok(Matcher::Unordered(items(operand, path)?))
    }),
    ("$includes", |operand, path| {
        Ok(Matcher::Includes(items(operand, path)?))
    }),
    ("$not", |operand, path| {
        Ok(Matcher::Not(Box::new(parse(operand, path)?)))
    }),
    ("$any", any),
    ("$gt", |operand, path| {
        Ok(Matcher::Gt(number(operand, path)?))
    }),
    ("$lt", |operand, path| {
        Ok(Matcher::Lt(number(operand, path)?))
    }),
    ("$names", names),
];

impl Matcher {
    /// Reads an expectation. Unknown operators and bad operands are errors.
    pub fn parse(value: &Value) -> Result<Matcher, MatcherError> {
        parse(value, "")
    }
}

fn parse(value: &Value, path: &str) -> Result<Matcher, MatcherError> {
    match value {
        Value::Object(map) => match map.iter().find(|(key, _)| key.starts_with('$')) {
            Some((key, operand)) => parse_operator(map, key, operand, path),
            None => parse_map(map, path),
        },
        Value::Array(_) => Ok(Matcher::List(items(value, path)?)),
        scalar => Ok(Matcher::Scalar(scalar.clone())),
    }
}

fn parse_map(map: &Map<String, Value>, path: &str) -> Result<Matcher, MatcherError> {
    let entry =
        |(key, value): (&String, &Value)| Ok((key.clone(), parse(value, &child(path, key))?));
    Ok(Matcher::Map(
        map.iter().map(entry).collect::<Result<_, _>>()?,
    ))
}

fn parse_operator(
    map: &Map<String, Value>,
    key: &str,
    operand: &Value,
    path: &str,
) -> Result<Matcher, MatcherError> {
    let Some((_, parse)) = OPERATORS.iter().find(|(name, _)| *name == key) else {
        let known: Vec<&str> = OPERATORS.iter().map(|(name, _)| *name).collect();
        return Err(at(
            path,
            format!(
                "there is no matcher `{key}`; the matchers are {}",
                known.join(", ")
            ),
        ));
    };
    if map.len() > 1 {
        return Err(at(
            path,
            format!("`{key}` stands alone in its map, without other keys"),
        ));
    }
    parse(operand, &child(path, key))
}

/// What is wrong with what stands at `path`, as a sentence about it.
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

/// What is wrong at `path`.
fn at(path: &str, message: impl Display) -> MatcherError {
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

fn items(operand: &Value, path: &str) -> Result<Vec<Matcher>, MatcherError> {
    let list = operand
        .as_array()
        .ok_or_else(|| error(path, "takes a list"))?;
    list.iter()
        .enumerate()
        .map(|(index, item)| parse(item, &format!("{path}[{index}]")))
        .collect()
}

fn regex(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    let text = operand
        .as_str()
        .ok_or_else(|| error(path, "takes a regular expression as text"))?;
    let regex = Regex::new(text).map_err(|cause| {
        error(
            path,
            format!("is not a regular expression: {}", pattern_fault(&cause)),
        )
    })?;
    Ok(Matcher::Regex(regex))
}

fn contains(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    match operand {
        Value::Array(_) | Value::Object(_) => Err(error(
            path,
            "takes text or another scalar; for lists use $includes",
        )),
        scalar => Ok(Matcher::Contains(scalar.clone())),
    }
}

fn exists(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    operand
        .as_bool()
        .map(Matcher::Exists)
        .ok_or_else(|| error(path, "takes true or false"))
}

fn any(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    match operand {
        Value::Bool(true) => Ok(Matcher::Any),
        _ => Err(error(path, "takes true; absence is `$exists: false`")),
    }
}

fn length(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    match parse(operand, path)? {
        Matcher::Scalar(value) if value.as_u64().is_none() => {
            Err(error(path, "takes a whole number or a matcher"))
        }
        Matcher::Map(_) | Matcher::List(_) => Err(error(path, "takes a whole number or a matcher")),
        inner => Ok(Matcher::Length(Box::new(inner))),
    }
}

fn number(operand: &Value, path: &str) -> Result<Number, MatcherError> {
    operand
        .as_number()
        .cloned()
        .ok_or_else(|| error(path, "takes a number"))
}

fn names(operand: &Value, path: &str) -> Result<Matcher, MatcherError> {
    let names = operand.as_array().and_then(|list| {
        list.iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    });
    names
        .map(Matcher::Names)
        .ok_or_else(|| error(path, "takes a list of names"))
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Matcher::parse(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Matcher {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Matcher".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let this = generator.subschema_for::<Matcher>();
        let properties: Map<String, Value> = OPERATORS
            .iter()
            .map(|(name, _)| ((*name).to_owned(), Value::Bool(true)))
            .collect();
        json_schema!({
            "description": "Scalars are equal (numbers by value), maps are subsets, lists have the same length. \
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
