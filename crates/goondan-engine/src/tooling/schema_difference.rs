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

/// Describes how the arguments of `stated` differ from those of `own`, or returns `None` if they
/// are equal.
pub(crate) fn difference(own: &Value, stated: &Value) -> Option<String> {
    let (own, stated) = (bare(own), bare(stated));
    if own == stated {
        return None;
    }
    let (owns, states) = (properties(&own), properties(&stated));
    let names = |names: BTreeSet<&String>| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (has, says) = (
        owns.keys().collect::<BTreeSet<_>>(),
        states.keys().collect::<BTreeSet<_>>(),
    );
    let lacking: BTreeSet<&String> = has.difference(&says).copied().collect();
    let strange: BTreeSet<&String> = says.difference(&has).copied().collect();
    let changed: BTreeSet<&String> = has
        .intersection(&says)
        .copied()
        .filter(|name| owns[*name] != states[*name])
        .collect();
    let parts = [
        (lacking, "missing"),
        (strange, "unknown to the library:"),
        (changed, "different type or range for"),
    ];
    let told: Vec<String> = parts
        .into_iter()
        .filter(|(found, _)| !found.is_empty())
        .map(|(found, what)| format!("{what} {}", names(found)))
        .collect();
    Some(if told.is_empty() {
        "different required arguments or other keywords".to_owned()
    } else {
        told.join("; ")
    })
}

fn properties(schema: &Value) -> Map<String, Value> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// Removes annotations from a schema and sorts `required`.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter_map(|(key, value)| keyword(key, value))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
        other => other.clone(),
    }
}

fn keyword(key: &String, value: &Value) -> Option<(String, Value)> {
    match value {
        _ if ANNOTATION_KEYWORDS.contains(&key.as_str()) => None,
        Value::Object(named) if NAMED_SCHEMA_KEYWORDS.contains(&key.as_str()) => {
            let bare = named
                .iter()
                .map(|(name, schema)| (name.clone(), bare(schema)))
                .collect();
            Some((key.clone(), Value::Object(bare)))
        }
        Value::Array(names) if key == "required" => {
            let mut names = names.clone();
            names.sort_by_key(Value::to_string);
            // An empty list is equivalent to no list.
            (!names.is_empty()).then(|| (key.clone(), Value::Array(names)))
        }
        value => Some((key.clone(), bare(value))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_order_make_no_difference() {
        let own = json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string", "description": "A"},
            "title": {"type": "string"}}, "required": ["a", "title"]});
        let stated = json!({"required": ["title", "a"], "properties": {"title": {"type": "string"},
            "a": {"type": "string", "title": "An a"}}, "type": "object", "description": "Better words"});
        assert_eq!(difference(&own, &stated), None);
        assert_eq!(
            difference(
                &json!({"type": "object"}),
                &json!({"type": "object", "required": []})
            ),
            None
        );
    }

    #[test]
    fn what_sets_them_apart_is_told() {
        let own = json!({"properties": {"text": {"type": "string"}, "times": {"type": "integer"}}, "required": ["text"]});
        let stated = json!({"properties": {"txt": {"type": "string"}, "times": {"type": "string"}}, "required": ["txt"]});
        assert_eq!(
            difference(&own, &stated).as_deref(),
            Some(
                "missing `text`; unknown to the library: `txt`; different type or range for \
                    `times`"
            )
        );
        let mut stated = own.clone();
        stated["required"] = json!([]);
        assert_eq!(
            difference(&own, &stated).as_deref(),
            Some("different required arguments or other keywords")
        );
    }
}
