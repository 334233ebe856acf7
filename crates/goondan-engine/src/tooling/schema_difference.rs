//! Whether two schemas ask for the same arguments, and what sets them apart where they do not.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What a schema says to people and models without asking for anything.
const WORDS: [&str; 6] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "examples",
    "default",
];
/// Keywords whose keys are names of the author's own.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// In a few words, how the arguments that `stated` asks for differ from those of `own`; `None` where they are the same.
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
        (lacking, "it lacks"),
        (strange, "the library does not know"),
        (changed, "another type or range for"),
    ];
    let told: Vec<String> = parts
        .into_iter()
        .filter(|(found, _)| !found.is_empty())
        .map(|(found, what)| format!("{what} {}", names(found)))
        .collect();
    Some(if told.is_empty() {
        "another list of required arguments or the like".to_owned()
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

/// The schema without its words, and with `required` in order.
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
        _ if WORDS.contains(&key.as_str()) => None,
        Value::Object(named) if NAMED.contains(&key.as_str()) => {
            let bare = named
                .iter()
                .map(|(name, schema)| (name.clone(), bare(schema)))
                .collect();
            Some((key.clone(), Value::Object(bare)))
        }
        Value::Array(names) if key == "required" => {
            let mut names = names.clone();
            names.sort_by_key(Value::to_string);
            // An empty list asks for nothing, as no list does.
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
                "it lacks `text`; the library does not know `txt`; another type or range for `times`"
            )
        );
        let mut stated = own.clone();
        stated["required"] = json!([]);
        assert_eq!(
            difference(&own, &stated).as_deref(),
            Some("another list of required arguments or the like")
        );
    }
}
