//! Attributes and their values.

use prost::{Message, Oneof};
use serde::Serialize;

use super::json;

/// An attribute.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value of any type.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    pub value: Option<Value>,
}

/// The types of values that are in use here.
#[derive(Clone, PartialEq, Oneof, Serialize)]
pub enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    #[serde(rename = "boolValue")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "json::text")]
    Int(i64),
    /// Any number.
    #[prost(double, tag = "4")]
    #[serde(rename = "doubleValue")]
    Double(f64),
    /// Several values.
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    Array(ArrayValue),
}

/// Several values.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct ArrayValue {
    /// In their order.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// The attribute of that name.
pub fn attribute(key: &str, value: impl Into<Value>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(value.into()),
        }),
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Value::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<Vec<&str>> for Value {
    fn from(texts: Vec<&str>) -> Self {
        let any = |text| AnyValue {
            value: Some(Value::from(text)),
        };
        Value::Array(ArrayValue {
            values: texts.into_iter().map(any).collect(),
        })
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Double(number)
    }
}
