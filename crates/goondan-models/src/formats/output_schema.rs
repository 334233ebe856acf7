//! Schemas of structured answers for Anthropic and Bedrock, which accept a part of JSON Schema.

use goondan_spec::sent_schema::{ProviderWireFormat, sent_schema};
use serde_json::{Map, Value};

/// Keywords that both APIs accept.
const ACCEPTED_KEYWORDS: [&str; 17] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "definitions",
    "description",
    "enum",
    "format",
    "items",
    "minItems",
    "properties",
    "required",
    "title",
    "type",
];

/// Formats that both APIs accept.
const ACCEPTED_FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
];

/// Returns `schema` as both APIs accept it: objects have no further properties, and keywords that
/// they refuse become text in the description. Answers are checked against the schema as it was
/// written.
pub(crate) fn output_schema(schema: &Value) -> Value {
    close_schema(&sent_schema(ProviderWireFormat::Anthropic, schema))
}

/// Returns `schema` with closed objects, and with the refused keywords in the description.
fn close_schema(schema: &Value) -> Value {
    let Value::Object(schema) = schema else {
        return schema.clone();
    };
    let mut sent = Map::new();
    let mut refused = Map::new();
    for (key, value) in schema {
        match key.as_str() {
            "oneOf" => sent.insert("anyOf".to_owned(), close_list(value)),
            key if is_accepted(key, value) => sent.insert(key.to_owned(), close_value(key, value)),
            _ => refused.insert(key.clone(), value.clone()),
        };
    }
    if sent.get("type").is_some_and(|kind| kind == "object") || sent.contains_key("properties") {
        sent.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if !refused.is_empty() {
        describe_refused(refused, &mut sent);
    }
    Value::Object(sent)
}

/// Returns true if the provider accepts the keyword `key` with `value`.
fn is_accepted(key: &str, value: &Value) -> bool {
    match key {
        "format" => value
            .as_str()
            .is_some_and(|format| ACCEPTED_FORMATS.contains(&format)),
        "minItems" => value.as_u64().is_some_and(|count| count <= 1),
        _ => ACCEPTED_KEYWORDS.contains(&key),
    }
}

/// Closes the schemas in the value of the keyword `key`.
fn close_value(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("properties" | "$defs" | "definitions", Value::Object(schemas)) => schemas
            .iter()
            .map(|(name, schema)| (name.clone(), close_schema(schema)))
            .collect(),
        ("items", _) => close_schema(value),
        ("anyOf" | "allOf", _) => close_list(value),
        _ => value.clone(),
    }
}

/// Closes each schema in a list.
fn close_list(value: &Value) -> Value {
    match value {
        Value::Array(schemas) => schemas.iter().map(close_schema).collect(),
        other => other.clone(),
    }
}

/// Adds the refused keywords to the description of the sent schema.
fn describe_refused(refused: Map<String, Value>, sent: &mut Map<String, Value>) {
    let rule = format!(
        "The value must satisfy this JSON Schema: {}",
        Value::Object(refused)
    );
    let description = match sent.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text}\n{rule}"),
        None => rule,
    };
    sent.insert("description".to_owned(), description.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_closed_and_refused_keywords_become_text() {
        let schema = json!({
            "$schema": "s",
            "type": "object",
            "properties": {
                "minimum": {"type": "integer", "minimum": 1, "description": "a count"},
                "list": {"type": "array", "minItems": 1, "items": {"properties": {"a": true}}},
                "kind": {"oneOf": [{"const": "x"}, {"type": "object"}]},
                "day": {"type": "string", "format": "date", "pattern": "^2"},
            },
            "required": ["minimum"],
        });
        let rule = |schema: &str| format!("The value must satisfy this JSON Schema: {schema}");
        let expected = json!({
            "type": "object",
            "properties": {
                "minimum": {
                    "type": "integer",
                    "description": format!("a count\n{}", rule(r#"{"minimum":1}"#)),
                },
                "list": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"properties": {"a": true}, "additionalProperties": false},
                },
                "kind": {"anyOf": [
                    {"const": "x"},
                    {"type": "object", "additionalProperties": false},
                ]},
                "day": {
                    "type": "string",
                    "format": "date",
                    "description": rule(r#"{"pattern":"^2"}"#),
                },
            },
            "required": ["minimum"],
            "additionalProperties": false,
        });
        assert_eq!(output_schema(&schema), expected);
    }
}
