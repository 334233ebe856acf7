//! Placeholder values for the variables that a project reads.

use std::collections::BTreeSet;

use goondan::internal::yaml;
use goondan::spec::Bundle;
use serde_json::{Map, Value};

/// Returns a placeholder for each variable that a project file reads.
pub(super) fn placeholders(bundle: &Bundle) -> Value {
    let mut names = BTreeSet::new();
    let files = bundle
        .files()
        .iter()
        .filter(|file| file.ends_with(".yaml") || file.ends_with(".yml"));
    for file in files {
        // The bundle was loaded before, so a file that does not parse here is not a resource file
        // and reads no variables.
        let text = std::fs::read_to_string(bundle.root().join(file)).unwrap_or_default();
        let documents = yaml::documents_from_str::<Value>(&text).unwrap_or_default();
        for document in &documents {
            collect(document, &mut names);
        }
    }
    let value = |name: &String| (name.clone(), Value::from(format!("placeholder for {name}")));
    Value::Object(names.iter().map(value).collect::<Map<_, _>>())
}

/// Adds the names of all environment variables that `valueFrom.env` refers to.
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
