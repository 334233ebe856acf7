//! Traversal of all subschemas of a JSON Schema.

use serde_json::{Map, Value};

/// Keywords with one subschema.
const SINGLE_SCHEMA_KEYWORDS: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];
/// Keywords with a list of subschemas.
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords with a map of subschemas.
const SCHEMA_MAP_KEYWORDS: [&str; 4] = [
    "properties",
    "patternProperties",
    "$defs",
    "dependentSchemas",
];

/// Calls `visit` with every subschema and its JSON pointer segments, starting with the root.
pub(super) fn walk<'s>(
    schema: &'s Value,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    walk_at(schema, &mut Vec::new(), visit);
}

/// Visits a schema and its subschemas; `path` is the path of the schema.
fn walk_at<'s>(
    schema: &'s Value,
    path: &mut Vec<String>,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    let Some(object) = schema.as_object() else {
        return;
    };
    visit(object, path);
    for (keyword, value) in object {
        path.push(keyword.clone());
        match value {
            Value::Object(_) if SINGLE_SCHEMA_KEYWORDS.contains(&keyword.as_str()) => {
                walk_at(value, path, visit)
            }
            Value::Array(items) if SCHEMA_LIST_KEYWORDS.contains(&keyword.as_str()) => {
                for (index, item) in items.iter().enumerate() {
                    walk_child(item, index.to_string(), path, visit);
                }
            }
            Value::Object(named) if SCHEMA_MAP_KEYWORDS.contains(&keyword.as_str()) => {
                for (name, item) in named {
                    walk_child(item, name.clone(), path, visit);
                }
            }
            _ => {}
        }
        path.pop();
    }
}

/// Visits a subschema at `segment` below `path`.
fn walk_child<'s>(
    schema: &'s Value,
    segment: String,
    path: &mut Vec<String>,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    path.push(segment);
    walk_at(schema, path, visit);
    path.pop();
}
