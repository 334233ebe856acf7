//! The variables that a project looks up, with values that mean nothing.

use std::collections::BTreeSet;

use goondan::inside::yaml;
use goondan::spec::Bundle;
use serde_json::{Map, Value};

/// Every variable that a file of the project takes a value from.
pub(super) fn placeholders(bundle: &Bundle) -> Value {
    let mut names = BTreeSet::new();
    let files = bundle
        .files()
        .iter()
        .filter(|file| file.ends_with(".yaml") || file.ends_with(".yml"));
    for file in files {
        // A file of the bundle was read before; what is no YAML for this purpose looks nothing up.
        let text = std::fs::read_to_string(bundle.root().join(file)).unwrap_or_default();
        let documents = yaml::documents_from_str::<Value>(&text).unwrap_or_default();
        documents
            .iter()
            .for_each(|document| collect(document, &mut names));
    }
    let value = |name: &String| (name.clone(), Value::from(format!("placeholder for {name}")));
    Value::Object(names.iter().map(value).collect::<Map<_, _>>())
}

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields
                .get("valueFrom")
                .and_then(|source| source.get("env"))
                .and_then(Value::as_str);
            names.extend(name.map(str::to_owned));
            fields.values().for_each(|value| collect(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}
