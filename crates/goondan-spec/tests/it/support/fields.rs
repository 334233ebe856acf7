//! The fields of a JSON Schema as rows of a table.

use serde_json::Value;

/// A field that a person may write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Where it is, such as `spec.tools[].ref` or `spec.events[].properties.<name>.type`.
    pub(crate) path: String,
    /// Its type in a few words.
    pub(crate) kind: String,
    /// Whether the map around it must have it.
    pub(crate) required: bool,
    /// What holds without it, where that is a value.
    pub(crate) default: Option<Value>,
    /// What it does.
    pub(crate) text: String,
    /// Its values with their descriptions, where there are only some.
    pub(crate) values: Vec<(String, String)>,
}

/// Definitions that have a section of their own, with the words that lead there.
const LINKED: [(&str, &str); 3] = [
    ("#/$defs/ObjectRef", "[reference](#references)"),
    ("#/$defs/ValueSource", "[value source](#value-sources)"),
    ("#/$defs/Kind", "kind"),
];

/// The fields of the map `schema`, those inside of other fields included. `root` holds the
/// definitions.
pub(crate) fn fields(root: &Value, schema: &Value, path: &str) -> Vec<Field> {
    let mut all = Vec::new();
    add_map(root, schema, path, &mut all);
    all
}

/// The fields of all maps that `schema` may be.
pub(crate) fn fields_inside(root: &Value, schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    add_inner(root, schema, "", &mut all);
    all
}

/// Adds the fields of a map that has one of several forms: none of them has to be there.
fn add_forms(root: &Value, forms: &[&Value], path: &str, all: &mut Vec<Field>) {
    let from = all.len();
    forms.iter().for_each(|form| add_map(root, form, path, all));
    let of_the_forms = all[from..]
        .iter_mut()
        .filter(|field| is_directly_in(path, &field.path));
    of_the_forms.for_each(|field| field.required = false);
}

fn is_directly_in(map: &str, path: &str) -> bool {
    !path
        .trim_start_matches(map)
        .trim_start_matches('.')
        .contains('.')
}

fn add_map(root: &Value, schema: &Value, path: &str, all: &mut Vec<Field>) {
    // A field with two names is required under one of them.
    let rules = schema["allOf"].as_array().into_iter().flatten();
    let alternatives = rules.filter_map(|rule| rule["oneOf"].as_array()).flatten();
    let required: Vec<&Value> = std::iter::once(schema)
        .chain(alternatives)
        .filter_map(|part| part["required"].as_array())
        .flatten()
        .collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // Each field is listed once, under its current name.
        if property["deprecated"] == true || property["x-goondan-same-as"].is_string() {
            continue;
        }
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        all.push(field(
            root,
            property,
            &path,
            required.iter().any(|required| *required == name),
        ));
        add_inner(root, property, &path, all);
    }
}

/// Adds what stands inside of a field.
fn add_inner(root: &Value, schema: &Value, path: &str, all: &mut Vec<Field>) {
    let forms: Vec<&Value> = alternatives(root, schema)
        .into_iter()
        .filter(|one| link(one).is_none())
        .collect();
    if forms.len() > 1 && forms.iter().all(|form| form["properties"].is_object()) {
        return add_forms(root, &forms, path, all);
    }
    for one in forms {
        if one["items"].is_object() {
            add_inner(root, &one["items"], &format!("{path}[]"), all);
        } else if one["additionalProperties"].is_object() {
            add_inner(
                root,
                &one["additionalProperties"],
                &format!("{path}.<name>"),
                all,
            );
        } else {
            add_map(root, one, path, all);
        }
    }
}

fn field(root: &Value, schema: &Value, path: &str, required: bool) -> Field {
    Field {
        path: path.to_owned(),
        kind: kind(root, schema),
        required,
        default: schema.get("default").cloned(),
        text: one_line(&schema["description"]),
        values: values(root, schema),
    }
}

/// Returns the alternatives of a schema, without null. References are followed, except those with
/// their own section.
fn alternatives<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return match link(schema) {
            Some(_) => vec![schema],
            None => alternatives(root, definition(root, reference)),
        };
    }
    match schema["anyOf"].as_array() {
        Some(all) => all
            .iter()
            .filter(|one| one["type"] != "null")
            .flat_map(|one| alternatives(root, one))
            .collect(),
        None => vec![schema],
    }
}

fn definition<'s>(root: &'s Value, reference: &str) -> &'s Value {
    root.pointer(reference.trim_start_matches('#'))
        .unwrap_or_else(|| panic!("{reference} is not there"))
}

fn link(schema: &Value) -> Option<&'static str> {
    let reference = schema["$ref"].as_str()?;
    LINKED
        .iter()
        .find(|(known, _)| *known == reference)
        .map(|(_, words)| *words)
}

/// The type in words.
fn kind(root: &Value, schema: &Value) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for one in alternatives(root, schema) {
        let words = kind_of_one(root, one);
        if !kinds.contains(&words) {
            kinds.push(words);
        }
    }
    one_of(&kinds)
}

fn kind_of_one(root: &Value, schema: &Value) -> String {
    if let Some(words) = link(schema) {
        return words.to_owned();
    }
    if let Some(value) = schema["const"].as_str() {
        return format!("`{value}`");
    }
    let values: Vec<String> = values(root, schema)
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    if !values.is_empty() && !schema["items"].is_object() {
        return one_of(&values);
    }
    match type_name(schema) {
        "string" => "string".to_owned(),
        "boolean" => "boolean".to_owned(),
        "integer" => format!("integer{}", range(schema)),
        "number" => format!("number{}", range(schema)),
        "array" => format!("list of {}", plural(&kind(root, &schema["items"]))),
        _ if schema["additionalProperties"].is_object() => {
            format!(
                "map of {}",
                plural(&kind(root, &schema["additionalProperties"]))
            )
        }
        _ => "map".to_owned(),
    }
}

/// The type beside null, which is what an optional field may be as well.
fn type_name(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null")
            .unwrap_or_default(),
        name => name.as_str().unwrap_or_default(),
    }
}

/// The values of an enumeration with what they mean, also of those that a list holds.
fn values(root: &Value, schema: &Value) -> Vec<(String, String)> {
    let [one] = alternatives(root, schema)[..] else {
        return Vec::new();
    };
    if one["items"].is_object() {
        return values(root, &one["items"]);
    }
    let value = |one: &Value| {
        Some((
            format!("`{}`", one["const"].as_str()?),
            one_line(&one["description"]),
        ))
    };
    one["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(value)
        .collect()
}

fn range(schema: &Value) -> String {
    match (
        &schema["minimum"],
        &schema["exclusiveMinimum"],
        &schema["maximum"],
    ) {
        (Value::Number(low), _, Value::Number(high)) => format!(", {low} to {high}"),
        (_, Value::Number(low), Value::Number(high)) => {
            format!(", more than {low}, at most {high}")
        }
        (Value::Number(low), _, _) => format!(", at least {low}"),
        _ => String::new(),
    }
}

fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first, last] => format!("{first} or {last}"),
        [first @ .., last] => format!("{}, or {last}", first.join(", ")),
    }
}

fn plural(words: &str) -> String {
    match words {
        "string" | "map" => format!("{words}s"),
        _ => words.replace("](", "s]("),
    }
}

fn one_line(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('\n', " ")
}
