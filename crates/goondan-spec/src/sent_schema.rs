//! Tool schemas as providers take them (rule M2).
//!
//! A schema goes out unchanged but for this:
//!
//! | format | change |
//! |---|---|
//! | all | the root is `type: object` and has `properties`; its `$schema` and `$id` are left out |
//! | OpenAI, Anthropic, Converse | `anyOf`, `oneOf`, `allOf`, `not`, `if`/`then`/`else` and `enum` at the root, which they refuse, move as text into the root's description |
//! | Gemini, Ollama | a property whose schema is `true` becomes `{}`, which says the same |
//!
//! Nothing is lost for the check of the arguments: that is made against the schema as it was written (rule T4).

use serde_json::{Map, Value, json};

/// A family of wire formats, as far as the mapping has to know them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's chat completions, which most others copy.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// Amazon's Converse.
    Converse,
}

/// Keywords that OpenAI and Anthropic refuse at the root of a tool's schema.
const NOT_AT_ROOT: [&str; 8] = [
    "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum",
];

/// Whether OpenAI takes `schema` in its strict mode, which holds a model to it.
pub fn is_strict(schema: &Value) -> bool {
    crate::lint::fits_strict_mode(schema)
}

/// `schema` as it is sent to a provider that speaks `wire`.
pub fn sent_schema(wire: Wire, schema: &Value) -> Value {
    let mut root = match schema {
        Value::Object(root) => root.clone(),
        _ => Map::new(),
    };
    root.insert("type".to_owned(), json!("object"));
    root.entry("properties").or_insert_with(|| json!({}));
    root.remove("$schema");
    root.remove("$id");
    match wire {
        Wire::Chat | Wire::Responses | Wire::Anthropic | Wire::Converse => {
            describe_root_conditions(&mut root)
        }
        Wire::Gemini | Wire::Ollama => open_true_properties(&mut root),
    }
    Value::Object(root)
}

fn describe_root_conditions(root: &mut Map<String, Value>) {
    let moved: Map<String, Value> = NOT_AT_ROOT
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

fn open_true_properties(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Object(inner) => open_true_properties(inner),
                _ => {}
            }
        }
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        open_true_properties(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Wire; 6] = [
        Wire::Chat,
        Wire::Responses,
        Wire::Anthropic,
        Wire::Gemini,
        Wire::Ollama,
        Wire::Converse,
    ];

    #[test]
    fn an_ordinary_schema_is_left_alone() {
        let schema = json!({
            "type": "object", "required": ["a"], "additionalProperties": false, "$defs": {"x": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
        });
        for wire in ALL {
            assert_eq!(sent_schema(wire, &schema), schema);
        }
    }

    #[test]
    fn the_root_is_an_object_whatever_was_written() {
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
    fn conditions_at_the_root_become_text_where_they_are_refused() {
        let schema = json!({"type": "object", "properties": {}, "description": "d", "anyOf": [{"required": ["a"]}]});
        let sent = sent_schema(Wire::Anthropic, &schema);
        assert_eq!(sent.get("anyOf"), None);
        let text = "d\nThe arguments must also satisfy this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}";
        assert_eq!(sent["description"], text);
        assert_eq!(sent_schema(Wire::Gemini, &schema), schema);
    }

    #[test]
    fn a_property_that_allows_all_is_an_empty_schema_for_gemini() {
        let schema =
            json!({"properties": {"a": true, "b": {"type": "object", "properties": {"c": true}}}});
        let sent = sent_schema(Wire::Gemini, &schema);
        assert_eq!(
            sent["properties"],
            json!({"a": {}, "b": {"type": "object", "properties": {"c": {}}}})
        );
    }
}
