//! Every subschema of a JSON Schema, with the road to it.

use serde_json::{Map, Value};

/// Keywords that hold one schema.
const ONE: [&str; 9] = [
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
/// Keywords that hold a list of schemas.
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords that hold a map of schemas.
const NAMED: [&str; 4] = [
    "properties",
    "patternProperties",
    "$defs",
    "dependentSchemas",
];

/// Calls `visit` with every subschema, the root first, and with the segments of the JSON pointer to it.
pub(super) fn walk<'s>(
    schema: &'s Value,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    go(schema, &mut Vec::new(), visit);
}

fn go<'s>(
    schema: &'s Value,
    road: &mut Vec<String>,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    let Some(object) = schema.as_object() else {
        return;
    };
    visit(object, road);
    for (keyword, value) in object {
        road.push(keyword.clone());
        match value {
            Value::Object(_) if ONE.contains(&keyword.as_str()) => go(value, road, visit),
            Value::Array(items) if LIST.contains(&keyword.as_str()) => {
                for (index, item) in items.iter().enumerate() {
                    step(item, index.to_string(), road, visit);
                }
            }
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                for (name, item) in named {
                    step(item, name.clone(), road, visit);
                }
            }
            _ => {}
        }
        road.pop();
    }
}

fn step<'s>(
    schema: &'s Value,
    segment: String,
    road: &mut Vec<String>,
    visit: &mut impl FnMut(&'s Map<String, Value>, &[String]),
) {
    road.push(segment);
    go(schema, road, visit);
    road.pop();
}
