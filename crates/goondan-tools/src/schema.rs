//! Schemas for models: everything inline, without titles and Rust-specific formats.

use goondan_spec::kinds::is_gdn_format;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Returns the description and the parameter schema of `T`: an object that rejects unknown
/// properties.
pub(crate) fn describe<T: JsonSchema>() -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut root = Schema::to_value(settings.into_generator().into_root_schema_for::<T>());
    clean_schema(&mut root);
    let description = match root
        .as_object_mut()
        .and_then(|root| root.shift_remove("description"))
    {
        Some(Value::String(description)) => description,
        _ => String::new(),
    };
    if let Some(root) = root.as_object_mut() {
        root.entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    (description, root)
}

/// Removes titles, foreign formats and `null` from a derived schema, and joins the lines of
/// descriptions.
fn clean_schema(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    schema.shift_remove("title");
    if !schema
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(is_gdn_format)
    {
        schema.shift_remove("format");
    }
    without_null(schema);
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for keyword in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = schema.get_mut(keyword) {
            properties.values_mut().for_each(clean_schema);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword) {
            clean_schema(inner);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(inner)) = schema.get_mut(keyword) {
            inner.iter_mut().for_each(clean_schema);
        }
    }
}

/// Optional parameters can be omitted; permitting `null` as well only confuses models.
fn without_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.shift_remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}
