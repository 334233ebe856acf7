//! The fields of a JSON Schema as rows of a table.

use serde_json::Value;

/// A field of a resource.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Path, such as `spec.tools[].ref` or `spec.events[].properties.<name>.type`.
    pub(crate) path: String,
    /// Type in a few words.
    pub(crate) kind: String,
    /// True if the containing map must have the field.
    pub(crate) required: bool,
    /// Default value; `None` if there is none.
    pub(crate) default: Option<Value>,
    /// Description.
    pub(crate) text: String,
    /// Values of an enumeration with their descriptions; empty for other types.
    pub(crate) values: Vec<(String, String)>,
}

/// Definitions with their own section, and the Markdown link to it.
const LINKED: [(&str, &str); 3] = [
    ("#/$defs/ObjectRef", "[reference](#references)"),
    ("#/$defs/ValueSource", "[value source](#value-sources)"),
    ("#/$defs/Kind", "kind"),
];

/// Returns the fields of the map `schema`, including nested fields. `root` contains the
/// definitions.
pub(crate) fn fields(root: &Value, schema: &Value, path: &str) -> Vec<Field> {
    let mut all = Vec::new();
    add_map(root, schema, path, &mut all);
    all
}

/// Returns the fields of all alternatives of `schema`.
pub(crate) fn fields_inside(root: &Value, schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    add_inner(root, schema, "", &mut all);
    all
}

/// Adds the fields of a map with several alternative forms. These fields are not required.
fn add_forms(root: &Value, forms: &[&Value], path: &str, all: &mut Vec<Field>) {
    let from = all.len();
    forms.iter().for_each(|form| add_map(root, form, path, all));
    let form_fields = all[from..]
        .iter_mut()
        .filter(|field| is_directly_in(path, &field.path));
    form_fields.for_each(|field| field.required = false);
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

/// Adds the nested fields of a field.
fn add_inner(root: &Value, schema: &Value, path: &str, all: &mut Vec<Field>) {
    let forms: Vec<&Value> = alternatives(root, schema)
        .into_iter()
        .filter(|form| link(form).is_none())
        .collect();
    if forms.len() > 1 && forms.iter().all(|form| form["properties"].is_object()) {
        return add_forms(root, &forms, path, all);
    }
    for form in forms {
        if form["items"].is_object() {
            add_inner(root, &form["items"], &format!("{path}[]"), all);
        } else if form["additionalProperties"].is_object() {
            add_inner(
                root,
                &form["additionalProperties"],
                &format!("{path}.<name>"),
                all,
            );
        } else {
            add_map(root, form, path, all);
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
        .unwrap_or_else(|| panic!("{reference} does not exist"))
}

fn link(schema: &Value) -> Option<&'static str> {
    let reference = schema["$ref"].as_str()?;
    LINKED
        .iter()
        .find(|(known, _)| *known == reference)
        .map(|(_, words)| *words)
}

/// Returns the type in words.
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

/// Returns the type; for optional fields, the type other than null.
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

/// Returns the values of an enumeration, or of a list of an enumeration, with their descriptions.
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
