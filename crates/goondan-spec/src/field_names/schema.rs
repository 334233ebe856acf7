//! Adds the current names of fields to JSON Schemas, which are derived from the other names.

use serde_json::{Map, Value, json};

use crate::field_names::quantity::ValueUnit;
use crate::field_names::{FIELD_NAMES, FieldName, NameStanding};
use crate::meta::Kind;

/// Adds all fields with two names to the schema of a document of `kind`. An older name is marked as
/// deprecated.
pub(crate) fn add_names(kind: Kind, document: &mut Value) {
    for row in FIELD_NAMES.iter().filter(|row| row.kind == kind) {
        let Some(pointer) = pointer_to_map(document, row.map) else {
            continue;
        };
        if let Some(map) = document
            .pointer_mut(&pointer)
            .and_then(Value::as_object_mut)
        {
            row.add_to(map);
        }
    }
}

/// Returns the JSON pointer of the schema of a map; `None` for maps with arbitrary fields.
fn pointer_to_map(document: &Value, map: &str) -> Option<String> {
    map.split('.').try_fold(String::new(), |pointer, step| {
        let name = step.trim_end_matches("[]");
        let field = FIELD_NAMES
            .iter()
            .filter(|row| row.name == name && row.standing == NameStanding::Renamed)
            .map(|row| row.other);
        let pointer = std::iter::once(name)
            .chain(field)
            .map(|name| format!("{pointer}/properties/{name}"))
            .find(|pointer| document.pointer(pointer).is_some())?;
        if step.ends_with("[]") {
            let list = follow_schema(document, pointer, "items")?;
            follow_schema(document, format!("{list}/items"), "properties")
        } else {
            follow_schema(document, pointer, "properties")
        }
    })
}

/// Follows references and alternatives to the schema with the keyword: `properties` for a map,
/// `items` for a list.
fn follow_schema(document: &Value, pointer: String, keyword: &str) -> Option<String> {
    let schema = document.pointer(&pointer)?;
    if let Some(reference) = schema["$ref"].as_str() {
        return follow_schema(
            document,
            reference.trim_start_matches('#').to_owned(),
            keyword,
        );
    }
    if schema[keyword].is_object() {
        return Some(pointer);
    }
    let alternatives = schema["anyOf"].as_array()?.len();
    (0..alternatives)
        .find_map(|index| follow_schema(document, format!("{pointer}/anyOf/{index}"), keyword))
}

impl FieldName {
    /// Adds the field to the schema of its map, next to its other name.
    fn add_to(&self, map: &mut Map<String, Value>) {
        let Some(Value::Object(properties)) = map.get_mut("properties") else {
            return;
        };
        if properties.contains_key(self.name) || !properties.contains_key(self.other) {
            return;
        }
        let mut all_fields = Map::new();
        for (name, mut property) in std::mem::take(properties) {
            if name != self.other {
                all_fields.insert(name, property);
                continue;
            }
            let current = self.current_schema(&property);
            if self.standing == NameStanding::Additional {
                self.mention_second_name(&mut property);
                all_fields.insert(name, property);
                all_fields.insert(self.name.to_owned(), current);
            } else {
                all_fields.insert(self.name.to_owned(), current);
                let description = format!("The older name of `{}`.", self.name);
                property["description"] = description.into();
                property["deprecated"] = true.into();
                all_fields.insert(name, property);
            }
        }
        *properties = all_fields;
        let rule = if take_required(map, self.other) {
            json!({"oneOf": [{"required": [self.name]}, {"required": [self.other]}]})
        } else {
            json!({"not": {"required": [self.name, self.other]}})
        };
        match map.get_mut("allOf").and_then(Value::as_array_mut) {
            Some(rules) => rules.push(rule),
            None => drop(map.insert("allOf".to_owned(), json!([rule]))),
        }
    }

    /// Adds to a description that a second name accepts the value in another form.
    fn mention_second_name(&self, property: &mut Value) {
        let text = property["description"].as_str().unwrap_or_default();
        let text = match self.unit.example() {
            Some(example) => format!("{text} Or `{}` with a unit: `{example}`.", self.name),
            None => format!("{text} Also named `{}`.", self.name),
        };
        property["description"] = text.into();
    }

    /// Returns the schema of the field under its current name.
    fn current_schema(&self, other: &Value) -> Value {
        let mut schema = other.clone();
        if self.standing == NameStanding::Additional {
            schema["x-goondan-same-as"] = self.other.into();
        }
        let Some(fields) = schema
            .as_object_mut()
            .filter(|_| self.unit != ValueUnit::None)
        else {
            return schema;
        };
        for keyword in ["minimum", "maximum", "exclusiveMinimum", "format"] {
            fields.remove(keyword);
        }
        let is_optional = fields["type"].is_array();
        let kinds = if is_optional {
            json!(["string", "null"])
        } else {
            json!("string")
        };
        fields.insert("type".to_owned(), kinds);
        fields.insert("pattern".to_owned(), self.unit.pattern().into());
        if let Some(default) = fields.get_mut("default") {
            let number = default.as_number().cloned();
            let text = number
                .and_then(|number| self.unit.format(&crate::node::NodeContent::Number(number)));
            *default = text.into();
        }
        let description = fields.get("description").and_then(Value::as_str);
        if let Some(text) = description.map(without_unit) {
            fields.insert("description".to_owned(), text.into());
        }
        schema
    }
}

/// Removes a field from the required fields of a map, and returns true if it was one of them.
fn take_required(map: &mut Map<String, Value>, field: &str) -> bool {
    let Some(Value::Array(required)) = map.get_mut("required") else {
        return false;
    };
    let before = required.len();
    required.retain(|name| name != field);
    let is_taken = required.len() < before;
    if required.is_empty() {
        map.remove("required");
    }
    is_taken
}

/// Removes the unit from a description, because the value states its own.
fn without_unit(text: &str) -> String {
    [", in milliseconds", ", in seconds"]
        .iter()
        .fold(text.replace('\n', " "), |text, unit| text.replace(unit, ""))
}
