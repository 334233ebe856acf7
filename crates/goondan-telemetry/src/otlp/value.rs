//! Attributes and their values.

use prost::{Message, Oneof};
use serde::Serialize;

use super::json;

/// An attribute.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct KeyValue {
    /// Name of the attribute.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of the attribute.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value of any type.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "AttributeValue", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    pub value: Option<AttributeValue>,
}

/// Value of an attribute; contains only the types in use.
#[derive(Clone, PartialEq, Oneof, Serialize)]
pub enum AttributeValue {
    /// A string.
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    /// A boolean.
    #[prost(bool, tag = "2")]
    #[serde(rename = "boolValue")]
    Bool(bool),
    /// An integer.
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "json::text")]
    Int(i64),
    /// A floating-point number.
    #[prost(double, tag = "4")]
    #[serde(rename = "doubleValue")]
    Double(f64),
    /// A list of values.
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    Array(ArrayValue),
}

/// A list of values.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct ArrayValue {
    /// Values in order.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// Returns an attribute with this name.
pub fn attribute(key: &str, value: impl Into<AttributeValue>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(value.into()),
        }),
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        AttributeValue::Text(text.to_owned())
    }
}

impl From<&String> for AttributeValue {
    fn from(text: &String) -> Self {
        AttributeValue::Text(text.clone())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(text)
    }
}

impl From<Vec<&str>> for AttributeValue {
    fn from(texts: Vec<&str>) -> Self {
        let any = |text| AnyValue {
            value: Some(AttributeValue::from(text)),
        };
        AttributeValue::Array(ArrayValue {
            values: texts.into_iter().map(any).collect(),
        })
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        AttributeValue::Bool(value)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        AttributeValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        AttributeValue::Int(number.into())
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        AttributeValue::Double(number)
    }
}
