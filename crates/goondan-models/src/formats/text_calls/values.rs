//! Values of arguments that are written as text.

use goondan_core::json_text;
use serde_json::Value;

/// Maximum number of references that are followed from one schema.
const MAX_REFERENCES: usize = 8;

/// Returns `text` as the type that `parameters` require for the argument `key`. Text of another type stays text.
pub(super) fn convert_argument(text: &str, key: &str, parameters: &Value) -> Value {
    let types = parameters
        .pointer("/properties")
        .and_then(|properties| properties.get(key));
    let types = types
        .map(|schema| types_of(schema, parameters))
        .unwrap_or_default();
    let accepts = |name: &str| types.contains(&name);
    let trimmed = text.trim();
    if accepts("null") && trimmed == "null" {
        return Value::Null;
    }
    if types.is_empty() || accepts("string") {
        return text.into();
    }
    let parsed = match trimmed {
        "True" => Some(true.into()),
        "False" => Some(false.into()),
        _ => json_text::parse::<Value>(trimmed).ok(),
    };
    parsed
        .filter(|value| type_names(value).iter().any(|name| accepts(name)))
        .unwrap_or_else(|| text.into())
}

/// Returns the JSON Schema types that `value` has.
fn type_names(value: &Value) -> &'static [&'static str] {
    match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(_) => &["number", "integer"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    }
}

/// Returns the types that `schema` accepts, as far as it names them.
fn types_of<'s>(schema: &'s Value, root: &'s Value) -> Vec<&'s str> {
    let schema = follow_references(schema, root);
    let variants = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema.get(key)?.as_array())
        .flatten();
    let variants = variants.map(|variant| follow_references(variant, root));
    [schema]
        .into_iter()
        .chain(variants)
        .filter_map(|schema| schema.get("type"))
        .flat_map(listed_types)
        .collect()
}

/// Returns the names in the keyword `type`, which is a string or a list.
fn listed_types(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the schema to which the keyword `$ref` of `schema` refers, or `schema` itself without a
/// reference. Follows only references within `root`, at most [`MAX_REFERENCES`] in a row.
fn follow_references<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let Some(pointer) = reference.and_then(|reference| reference.strip_prefix('#')) else {
            break;
        };
        let Some(target) = root.pointer(pointer) else {
            break;
        };
        schema = target;
    }
    schema
}

/// Returns a value without the line breaks that separate it from its tags.
pub(super) fn trim_line_breaks(value: &str) -> &str {
    match value.strip_prefix('\n') {
        Some(inner) => inner.strip_suffix('\n').unwrap_or(inner),
        None => value,
    }
}
