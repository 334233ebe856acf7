//! Advice about fields that belong elsewhere, and about the field names of other programs.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::field_advisor::FieldAdvice;
use crate::fix::Fix;
use crate::foreign_terms;
use crate::meta::Kind;
use crate::node::{MapEntry, NodeContent};
use crate::only_field::last_segment;
use crate::schema;
use crate::text::{closest, excerpt};

/// Maximum depth of the fields that are indexed.
const MAX_DEPTH: usize = 8;

/// Field names of other programs, without `_` and `-` and in lower case, with our field.
const SYNONYMS: &[(Kind, &[&str], &str)] = &[
    (
        Kind::Agent,
        &[
            "instruction",
            "instructions",
            "systemprompt",
            "systemmessage",
            "systeminstruction",
            "developerinstructions",
            "system",
            "role",
        ],
        "spec.prompt.system",
    ),
    (
        Kind::Agent,
        &["systempromptfile", "promptfile"],
        "spec.prompt.systemRef",
    ),
    (
        Kind::Agent,
        &["model", "modelref", "llm"],
        "spec.modelConfig.modelRef",
    ),
    (Kind::Agent, &["topp"], "spec.modelConfig.params.topP"),
    (
        Kind::Agent,
        &["maxtokens", "maxoutputtokens"],
        "spec.modelConfig.params.maxTokens",
    ),
    (
        Kind::Agent,
        &["handoffdescription", "purpose"],
        "spec.description",
    ),
    (
        Kind::Agent,
        &["outputschema", "outputtype", "responseformat"],
        "spec.output.schema",
    ),
    (
        Kind::Agent,
        &["workingdir", "workingdirectory", "cwd"],
        "spec.workdir",
    ),
    (
        Kind::Model,
        &["baseurl", "apibase", "apiurl", "url"],
        "spec.endpoint",
    ),
    (Kind::Model, &["modelname", "modelid"], "spec.model"),
    (Kind::Model, &["key", "token"], "spec.apiKey"),
    (Kind::Tool, &["command"], "spec.mcp.command"),
    (Kind::Tool, &["url"], "spec.mcp.url"),
    (
        Kind::Swarm,
        &["entrypoint", "entry", "rootagent", "manager"],
        "spec.entryAgent",
    ),
    (Kind::Connection, &["connector"], "spec.connectorRef"),
    (Kind::Connection, &["swarm"], "spec.swarmRef"),
];

/// Known fields of each kind by normalized name. Paths omit list items.
static FIELDS: LazyLock<HashMap<Kind, HashMap<String, Vec<String>>>> = LazyLock::new(|| {
    Kind::ALL
        .into_iter()
        .zip(schema::schemas())
        .map(|(kind, (_, schema))| {
            let mut fields = HashMap::new();
            index(&schema, &schema, "", 0, &mut fields);
            (kind, fields)
        })
        .collect()
});

/// Returns the advice about the unknown field `entry` in the map at `path`: the place where the
/// field, or a field with the same meaning, belongs. `None` for a misspelled name.
pub(crate) fn find_advice(
    kind: Kind,
    path: &str,
    siblings: &[&'static str],
    entry: &MapEntry,
) -> Option<FieldAdvice> {
    let path = without_items(path);
    let name = normalize_name(&entry.key);
    if let Some(suggestion) = foreign_terms::suggestion(kind, &path, &name) {
        return Some(FieldAdvice {
            suggestion: suggestion.to_owned(),
            fix: None,
        });
    }
    let synonym = SYNONYMS
        .iter()
        .find(|(of, names, _)| *of == kind && names.contains(&name.as_str()))
        .map(|(_, _, target)| (*target).to_owned());
    if synonym.is_none() && closest(&entry.key, siblings).is_some() {
        return None;
    }
    let target = synonym
        .filter(|target| *target != format!("{path}.{}", entry.key))
        .or_else(|| nearest_field(kind, &path, &name))?;
    let (parent, field) = target.rsplit_once('.')?;
    if parent == path && closest(&entry.key, siblings).is_some() {
        return None;
    }
    let base = common_ancestor(&path, parent);
    let rest: Vec<&str> = target[base.len()..]
        .trim_start_matches('.')
        .split('.')
        .collect();
    if kind == Kind::Agent && field == "modelRef" && names_provider(entry) {
        let text = entry.value.text().unwrap_or_default();
        return Some(FieldAdvice {
            suggestion: format!("write `model: {}`", excerpt(text, 60)),
            fix: None,
        });
    }
    let line = nested_fields(&rest, &shown_value(field, entry));
    if base == path {
        let fix = yaml_value(field, entry).map(|value| {
            let mut fix = Fix::replace_raw(entry.value.at, &nested_value(&rest[1..], &value));
            fix.edits.extend(Fix::replace(entry.key_at, rest[0]).edits);
            fix.edits.sort_by_key(|edit| edit.start);
            fix.title = format!("Change to `{}`", rest[0]);
            (rest[0].to_owned(), fix)
        });
        return Some(FieldAdvice {
            suggestion: format!("write `{line}`"),
            fix,
        });
    }
    let suggestion = match rest.len() {
        1 if field == entry.key => {
            format!(
                "move it to `{base}`: `{field}` belongs directly below `{}:`",
                last_segment(&base)
            )
        }
        _ if base.is_empty() => format!("write `{line}` at the top level of the document"),
        _ => format!("write `{line}` in `{base}`"),
    };
    Some(FieldAdvice {
        suggestion,
        fix: None,
    })
}

/// Returns the known field of that name that is nearest to `path`.
fn nearest_field(kind: Kind, path: &str, name: &str) -> Option<String> {
    let candidates = FIELDS.get(&kind)?.get(name)?;
    let distance = |target: &&String| {
        let shared = common_ancestor(path, target).len();
        (usize::MAX - shared, target.len())
    };
    candidates.iter().min_by_key(distance).cloned()
}

/// Adds the properties of `schema` to `fields`.
fn index(
    document: &Value,
    schema: &Value,
    path: &str,
    depth: usize,
    fields: &mut HashMap<String, Vec<String>>,
) {
    if depth > MAX_DEPTH {
        return;
    }
    let target = schema["$ref"]
        .as_str()
        .and_then(|reference| document.pointer(reference.trim_start_matches('#')));
    if let Some(target) = target {
        index(document, target, path, depth + 1, fields);
    }
    for choice in ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| schema[word].as_array())
        .flatten()
    {
        index(document, choice, path, depth + 1, fields);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // Advice names each field once, under its current name.
        if property["deprecated"] == true || property["x-goondan-same-as"].is_string() {
            continue;
        }
        let place = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        let paths = fields.entry(normalize_name(name)).or_default();
        if !paths.contains(&place) {
            paths.push(place.clone());
        }
        index(document, property, &place, depth + 1, fields);
    }
}

/// Returns a field name in lower case, without `_` and `-`.
fn normalize_name(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Removes the indexes of list items from a path.
fn without_items(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| {
        path + part.split_once(']').map_or("", |(_, rest)| rest)
    })
}

/// Returns the longest path that contains both fields.
fn common_ancestor(one: &str, other: &str) -> String {
    let pairs = one.split('.').zip(other.split('.'));
    let shared: Vec<&str> = pairs
        .take_while(|(one, other)| one == other)
        .map(|(part, _)| part)
        .collect();
    shared.join(".")
}

/// Returns `a: {b: value}` for the fields `a` and `b`.
fn nested_fields(fields: &[&str], value: &str) -> String {
    let (first, inner) = fields.split_first().unwrap_or((&"", &[]));
    format!("{first}: {}", nested_value(inner, value))
}

/// Returns `{b: value}` for the field `b`, and the value itself without fields.
fn nested_value(fields: &[&str], value: &str) -> String {
    let wrap_in_map = |value: String, field: &&str| format!("{{{field}: {value}}}");
    fields.iter().rev().fold(value.to_owned(), wrap_in_map)
}

/// Returns true if the value has the form `provider/model` and names no Model.
fn names_provider(entry: &MapEntry) -> bool {
    let text = entry.value.text().unwrap_or_default();
    text.contains('/') && !text.starts_with("Model/")
}

/// Returns the value as a part of a suggestion. Text is only shown if it cannot be a secret.
fn shown_value(field: &str, entry: &MapEntry) -> String {
    match &entry.value.content {
        NodeContent::Number(number) => number.to_string(),
        NodeContent::Bool(value) => value.to_string(),
        NodeContent::Text(_) if field.ends_with("Ref") || field == "entryAgent" => {
            yaml_value(field, entry).unwrap_or_else(|| "…".to_owned())
        }
        _ => "…".to_owned(),
    }
}

/// Returns the scalar as YAML for a flow map; `None` for other values and for long text.
fn yaml_value(field: &str, entry: &MapEntry) -> Option<String> {
    match &entry.value.content {
        NodeContent::Number(number) => Some(number.to_string()),
        NodeContent::Bool(value) => Some(value.to_string()),
        NodeContent::Text(text) if field == "modelRef" && !text.contains(char::is_whitespace) => {
            let name = text.trim_start_matches("Model/");
            Some(format!("Model/{name}"))
        }
        NodeContent::Text(text) if !text.contains('\n') => {
            Some(Value::from(text.as_str()).to_string())
        }
        _ => None,
    }
}
