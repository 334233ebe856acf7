//! Comparison of two argument schemas, with a description of the differences.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Annotations that do not affect validation.
const ANNOTATION_KEYWORDS: [&str; 6] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "examples",
    "default",
];
/// Keywords whose keys are names chosen by the author.
const NAMED_SCHEMA_KEYWORDS: [&str; 4] =
    ["properties", "patternProperties", "$defs", "definitions"];

/// Describes how the arguments of `stated` differ from those of `declared`, or returns `None` if they
/// are equal.
pub(crate) fn describe_difference(declared: &Value, stated: &Value) -> Option<String> {
    let (declared, stated) = (without_annotations(declared), without_annotations(stated));
    if declared == stated {
        return None;
    }
    let (declared_properties, stated_properties) =
        (schema_properties(&declared), schema_properties(&stated));
    let names = |names: BTreeSet<&String>| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (declared_names, stated_names) = (
        declared_properties.keys().collect::<BTreeSet<_>>(),
        stated_properties.keys().collect::<BTreeSet<_>>(),
    );
    let missing_names: BTreeSet<&String> =
        declared_names.difference(&stated_names).copied().collect();
    let unknown: BTreeSet<&String> = stated_names.difference(&declared_names).copied().collect();
    let changed: BTreeSet<&String> = declared_names
        .intersection(&stated_names)
        .copied()
        .filter(|name| declared_properties[*name] != stated_properties[*name])
        .collect();
    let parts = [
        (missing_names, "missing"),
        (unknown, "unknown to the library:"),
        (changed, "different type or range for"),
    ];
    let differences: Vec<String> = parts
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, label)| format!("{label} {}", names(group)))
        .collect();
    Some(if differences.is_empty() {
        "different required arguments or other keywords".to_owned()
    } else {
        differences.join("; ")
    })
}

/// Returns the properties of a schema; empty if it declares none.
fn schema_properties(schema: &Value) -> Map<String, Value> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// Removes annotations from a schema and sorts `required`.
fn without_annotations(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter_map(|(key, value)| strip_keyword(key, value))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_annotations).collect()),
        other => other.clone(),
    }
}

/// Removes annotations from a schema keyword; `None` for a keyword that is itself an annotation.
fn strip_keyword(key: &String, value: &Value) -> Option<(String, Value)> {
    match value {
        _ if ANNOTATION_KEYWORDS.contains(&key.as_str()) => None,
        Value::Object(schemas) if NAMED_SCHEMA_KEYWORDS.contains(&key.as_str()) => {
            let bare = schemas
                .iter()
                .map(|(name, schema)| (name.clone(), without_annotations(schema)))
                .collect();
            Some((key.clone(), Value::Object(bare)))
        }
        Value::Array(names) if key == "required" => {
            let mut names = names.clone();
            names.sort_by_key(Value::to_string);
            // An empty list is equivalent to no list.
            (!names.is_empty()).then(|| (key.clone(), Value::Array(names)))
        }
        value => Some((key.clone(), without_annotations(value))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_and_order_make_no_difference() {
        let own = json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string", "description": "A"},
            "title": {"type": "string"}}, "required": ["a", "title"]});
        let stated = json!({"required": ["title", "a"], "properties": {"title": {"type": "string"},
            "a": {"type": "string", "title": "An a"}}, "type": "object", "description": "Better words"});
        assert_eq!(describe_difference(&own, &stated), None);
        assert_eq!(
            describe_difference(
                &json!({"type": "object"}),
                &json!({"type": "object", "required": []})
            ),
            None
        );
    }

    #[test]
    fn schema_differences_are_described() {
        let own = json!({"properties": {"text": {"type": "string"}, "times": {"type": "integer"}}, "required": ["text"]});
        let stated = json!({"properties": {"txt": {"type": "string"}, "times": {"type": "string"}}, "required": ["txt"]});
        assert_eq!(
            describe_difference(&own, &stated).as_deref(),
            Some(
                "missing `text`; unknown to the library: `txt`; different type or range for \
                    `times`"
            )
        );
        let mut stated = own.clone();
        stated["required"] = json!([]);
        assert_eq!(
            describe_difference(&own, &stated).as_deref(),
            Some("different required arguments or other keywords")
        );
    }
}
