//! Tool schemas in the form that providers accept (rule M2).
//!
//! A schema is sent unchanged except for these changes:
//!
//! | format | change |
//! |---|---|
//! | all | the root is `type: object` with `properties`; its `$schema` and `$id` are removed |
//! | OpenAI, Anthropic, Converse | root keywords that they reject become text in `description` |
//! | Gemini, Ollama | a property with the schema `true` becomes `{}`, which is equivalent |
//!
//! The rejected root keywords are `anyOf`, `oneOf`, `allOf`, `not`, `if`/`then`/`else` and `enum`.
//! Arguments are still validated against the original schema (rule T4).

use serde_json::{Map, Value, json};

/// Wire format family of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderWireFormat {
    /// OpenAI chat completions, which most other providers copy.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
    /// Ollama chat.
    Ollama,
    /// Amazon Bedrock Converse.
    Converse,
}

/// Keywords that OpenAI and Anthropic reject at the root of a tool schema.
const ROOT_REJECTED_KEYWORDS: [&str; 8] = [
    "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum",
];

/// Returns true if OpenAI accepts `schema` in strict mode.
pub fn is_strict(schema: &Value) -> bool {
    crate::lint::fits_strict_mode(schema)
}

/// Returns `schema` in the form that is sent for `wire`.
pub fn sent_schema(wire: ProviderWireFormat, schema: &Value) -> Value {
    let mut root = match schema {
        Value::Object(root) => root.clone(),
        _ => Map::new(),
    };
    root.insert("type".to_owned(), json!("object"));
    root.entry("properties").or_insert_with(|| json!({}));
    root.remove("$schema");
    root.remove("$id");
    match wire {
        ProviderWireFormat::Chat
        | ProviderWireFormat::Responses
        | ProviderWireFormat::Anthropic
        | ProviderWireFormat::Converse => describe_root_conditions(&mut root),
        ProviderWireFormat::Gemini | ProviderWireFormat::Ollama => {
            replace_true_properties(&mut root)
        }
    }
    Value::Object(root)
}

/// Moves keywords that providers reject at the root into the description.
fn describe_root_conditions(root: &mut Map<String, Value>) {
    let moved: Map<String, Value> = ROOT_REJECTED_KEYWORDS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), root.remove(*key)?)))
        .collect();
    if moved.is_empty() {
        return;
    }
    let rule = format!(
        "The arguments must also satisfy this JSON Schema: {}",
        Value::Object(moved)
    );
    let description = match root.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text}\n{rule}"),
        None => rule,
    };
    root.insert("description".to_owned(), Value::String(description));
}

/// Replaces properties with the schema `true` by `{}`, which means the same and is accepted by more
/// providers.
fn replace_true_properties(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Object(inner) => replace_true_properties(inner),
                _ => {}
            }
        }
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        replace_true_properties(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ProviderWireFormat; 6] = [
        ProviderWireFormat::Chat,
        ProviderWireFormat::Responses,
        ProviderWireFormat::Anthropic,
        ProviderWireFormat::Gemini,
        ProviderWireFormat::Ollama,
        ProviderWireFormat::Converse,
    ];

    #[test]
    fn a_supported_schema_is_sent_unchanged() {
        let schema = json!({
            "type": "object", "required": ["a"], "additionalProperties": false, "$defs": {"x": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
        });
        for wire in ALL {
            assert_eq!(sent_schema(wire, &schema), schema);
        }
    }

    #[test]
    fn the_root_of_a_sent_schema_is_always_an_object() {
        for schema in [
            json!({}),
            json!(true),
            json!(null),
            json!({"type": ["object", "null"], "$schema": "x"}),
        ] {
            for wire in ALL {
                assert_eq!(
                    sent_schema(wire, &schema),
                    json!({"type": "object", "properties": {}})
                );
            }
        }
    }

    #[test]
    fn unsupported_root_conditions_move_to_the_description() {
        let schema = json!({"type": "object", "properties": {}, "description": "d", "anyOf": [{"required": ["a"]}]});
        let sent = sent_schema(ProviderWireFormat::Anthropic, &schema);
        assert_eq!(sent.get("anyOf"), None);
        let text = "d\nThe arguments must also satisfy this JSON Schema: \
            {\"anyOf\":[{\"required\":[\"a\"]}]}";
        assert_eq!(sent["description"], text);
        assert_eq!(sent_schema(ProviderWireFormat::Gemini, &schema), schema);
    }

    #[test]
    fn a_true_property_is_sent_to_gemini_as_an_empty_schema() {
        let schema =
            json!({"properties": {"a": true, "b": {"type": "object", "properties": {"c": true}}}});
        let sent = sent_schema(ProviderWireFormat::Gemini, &schema);
        assert_eq!(
            sent["properties"],
            json!({"a": {}, "b": {"type": "object", "properties": {"c": {}}}})
        );
    }
}
