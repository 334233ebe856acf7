//! Schema lookup by position in a document.

use goondan_spec::Kind;
use goondan_spec::schema::schemas;
use serde_json::{Map, Value};

use crate::scan::PathStep;

/// Schema keyword for the target of a string: a kind, or `file`, `export` and similar.
const NAMES_KEYWORD: &str = "x-goondan-names";

/// Schema of a document of any kind.
#[derive(Debug)]
pub(crate) struct SchemaLookup {
    schema: Value,
}

/// Subschema at a position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaView<'s> {
    shapes: &'s SchemaLookup,
    /// Schema where it is used. Its keywords come before those of referenced schemas and
    /// alternatives.
    used: &'s Value,
    /// Value of [`NAMES_KEYWORD`], possibly inherited.
    names: Option<&'s str>,
}

/// Field of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSchema<'s> {
    pub(crate) name: &'s str,
    pub(crate) shape: SchemaView<'s>,
    pub(crate) required: bool,
}

/// Form of a value, which determines the inserted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueForm {
    Map,
    List,
    Scalar,
}

impl SchemaLookup {
    pub(crate) fn new() -> Self {
        let file = schemas()
            .into_iter()
            .find(|(name, _)| name == "goondan.schema.json");
        SchemaLookup {
            schema: file.map(|(_, schema)| schema).unwrap_or_default(),
        }
    }

    /// Returns the shape of a document, whose kind may be unknown.
    fn document(&self, kind: Option<Kind>) -> SchemaView<'_> {
        let used = kind.and_then(|kind| self.schema.pointer(&format!("/$defs/{kind}Document")));
        // A document without a kind only offers the fields around `spec`, which all kinds share.
        let any = self.schema.pointer("/$defs/AgentDocument");
        SchemaView {
            shapes: self,
            used: used.or(any).unwrap_or(&self.schema),
            names: None,
        }
    }

    /// Returns the shape at `path` in a document.
    pub(crate) fn view_at(&self, kind: Option<Kind>, path: &[PathStep]) -> Option<SchemaView<'_>> {
        let is_inside = path.len() > 1 && path.first() == Some(&PathStep::Key("spec".to_owned()));
        if kind.is_none() && is_inside {
            return None;
        }
        path.iter()
            .try_fold(self.document(kind), |shape, step| shape.step(step))
    }
}

impl<'s> SchemaView<'s> {
    /// Returns a view of the subschema `used`.
    fn with(self, used: &'s Value) -> Self {
        let names = used.get(NAMES_KEYWORD).and_then(Value::as_str);
        SchemaView {
            used,
            names,
            ..self
        }
    }

    /// Returns the view of the field `name`. A field `ref` inherits the target kind of its map.
    fn field_view(self, name: &str, used: &'s Value) -> Self {
        let field = self.with(used);
        SchemaView {
            names: field.names.or(self.names.filter(|_| name == "ref")),
            ..field
        }
    }

    /// Returns the schema of a field or of the list items; `None` if the schema does not describe
    /// it.
    fn step(self, step: &PathStep) -> Option<Self> {
        let parts = self.parts();
        match step {
            PathStep::Key(name) => {
                let field = parts
                    .iter()
                    .find_map(|part| part.get("properties")?.get(name));
                let other = || {
                    parts.iter().find_map(|part| {
                        part.get("additionalProperties")
                            .filter(|any| any.is_object())
                    })
                };
                field.or_else(other).map(|used| self.field_view(name, used))
            }
            PathStep::Item(_) => {
                let items = parts.iter().find_map(|part| part.get("items"))?;
                let item = self.with(items);
                // A list of references states the target kind on the list itself.
                Some(SchemaView {
                    names: item.names.or(self.names),
                    ..item
                })
            }
        }
    }

    /// Returns the schema with all its references and alternatives.
    fn parts(self) -> Vec<&'s Map<String, Value>> {
        let (mut parts, mut todo) = (Vec::new(), vec![(self.used, 0)]);
        while let Some((value, depth)) = todo.pop() {
            let Some(map) = value.as_object().filter(|_| depth < 16) else {
                continue;
            };
            parts.push(map);
            let referred = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|to| to.strip_prefix('#'));
            todo.extend(
                referred
                    .and_then(|to| self.shapes.schema.pointer(to))
                    .map(|to| (to, depth + 1)),
            );
            let choices = ["anyOf", "oneOf", "allOf"]
                .into_iter()
                .filter_map(|word| map.get(word)?.as_array());
            todo.extend(choices.flatten().rev().map(|choice| (choice, depth + 1)));
        }
        parts
    }

    /// Returns the target of a string here.
    pub(crate) fn names(self) -> Option<&'s str> {
        self.names
    }

    /// Returns the description of the field.
    pub(crate) fn description(self) -> Option<&'s str> {
        self.parts()
            .iter()
            .find_map(|part| part.get("description")?.as_str())
    }

    pub(crate) fn default(self) -> Option<&'s Value> {
        self.parts().iter().find_map(|part| part.get("default"))
    }

    /// Returns the fields of a map under their current names.
    pub(crate) fn fields(self) -> Vec<FieldSchema<'s>> {
        let mut fields: Vec<FieldSchema<'s>> = Vec::new();
        for part in self.parts() {
            let required = required_fields(part);
            for (name, used) in part
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                let is_older = used["deprecated"] == true;
                if !is_older && fields.iter().all(|field| field.name != name) {
                    fields.push(FieldSchema {
                        name,
                        shape: self.field_view(name, used),
                        required: required.contains(&name.as_str()),
                    });
                }
            }
        }
        fields
    }

    /// Returns the shape of a list item.
    pub(crate) fn item(self) -> Option<Self> {
        self.step(&PathStep::Item(0))
    }

    /// Returns the fields of the items, for a list of maps.
    pub(crate) fn fields_of_items(self) -> Option<Vec<FieldSchema<'s>>> {
        self.item().map(SchemaView::fields)
    }

    /// Returns the allowed values with their descriptions.
    pub(crate) fn values(self) -> Vec<(String, Option<&'s str>)> {
        let mut values: Vec<(String, Option<&'s str>)> = Vec::new();
        let plain = |value: &Value| match value {
            Value::String(text) => Some(goondan_spec::fix::scalar(text)),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        };
        for part in self.parts() {
            let description = part.get("description").and_then(Value::as_str);
            let one = part.get("const").map(|value| (value, description));
            let several = part
                .get("enum")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|value| (value, None));
            let is_boolean = part
                .get("type")
                .is_some_and(|kind| has_type(kind, "boolean"));
            values.extend(
                one.into_iter()
                    .chain(several)
                    .filter_map(|(value, means)| Some((plain(value)?, means))),
            );
            if is_boolean {
                values.extend(["true", "false"].map(|value| (value.to_owned(), None)));
            }
        }
        let mut seen = Vec::new();
        values.retain(|(value, _)| {
            !seen.contains(value) && {
                seen.push(value.clone());
                true
            }
        });
        values
    }

    /// Describes the constraints, such as `integer, at least 1`.
    pub(crate) fn limits(self) -> Vec<String> {
        let mut limits = Vec::new();
        for part in self.parts() {
            let kinds = match part.get("type") {
                Some(Value::String(kind)) => vec![kind.as_str()],
                Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            limits.extend(
                kinds
                    .into_iter()
                    .filter(|kind| *kind != "null")
                    .map(str::to_owned),
            );
            let words = [
                ("minimum", "at least"),
                ("exclusiveMinimum", "more than"),
                ("maximum", "at most"),
                ("minLength", "characters, at least"),
                ("maxLength", "characters, at most"),
                ("minItems", "items, at least"),
            ];
            let new_limits = words
                .into_iter()
                .filter_map(|(word, meaning)| Some(format!("{meaning} {}", part.get(word)?)));
            limits.extend(
                new_limits.filter(|limit| {
                    limit != "characters, at least 1" && limit != "items, at least 1"
                }),
            );
        }
        limits.dedup();
        limits
    }

    /// Returns how a value is usually written: as a list, a map or a scalar.
    pub(crate) fn value_form(self) -> ValueForm {
        let parts = self.parts();
        let is = |word: &str| {
            parts
                .iter()
                .any(|part| part.get("type").is_some_and(|kind| has_type(kind, word)))
        };
        match (
            is("array"),
            is("object"),
            is("string") || is("number") || is("integer") || is("boolean"),
        ) {
            (true, ..) => ValueForm::List,
            // A value that may be a string or a map is usually written as a string.
            (_, true, false) => ValueForm::Map,
            _ => ValueForm::Scalar,
        }
    }
}

/// Returns true if `type` is or contains the word.
fn has_type(kind: &Value, word: &str) -> bool {
    kind == word
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == word))
}

/// Returns the required fields of a map. A field with two names is required under one of them.
fn required_fields(map: &Map<String, Value>) -> Vec<&str> {
    let rules = map.get("allOf").and_then(Value::as_array);
    let alternatives = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule.get("oneOf")?.as_array())
        .flatten()
        .filter_map(|form| form.get("required"));
    let required = map.get("required").into_iter().chain(alternatives);
    required
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<PathStep> {
        let step = |part: &str| {
            part.parse()
                .map_or_else(|_| PathStep::Key(part.to_owned()), PathStep::Item)
        };
        text.split('.')
            .filter(|part| !part.is_empty())
            .map(step)
            .collect()
    }

    #[test]
    fn paths_resolve_to_schema_views() {
        let schemas = SchemaLookup::new();
        let at = |kind, text: &str| schemas.view_at(Some(kind), &path(text));
        let names = |kind, text: &str| at(kind, text).and_then(SchemaView::names);
        assert_eq!(names(Kind::Agent, "spec.tools.0.ref"), Some("Tool"));
        assert_eq!(names(Kind::Agent, "spec.tools.0.exports.1"), Some("export"));
        assert_eq!(
            names(Kind::Agent, "spec.modelConfig.modelRef"),
            Some("Model")
        );
        assert_eq!(names(Kind::Swarm, "spec.agents.3.ref"), Some("Agent"));
        assert_eq!(
            names(Kind::Agent, "spec.modelConfig.fallbacks.0.ref"),
            Some("Model")
        );
        assert_eq!(
            names(Kind::Model, "spec.apiKey.valueFrom.env"),
            Some("variable")
        );
        assert_eq!(
            names(Kind::Connection, "spec.ingress.rules.0.route.agentRef"),
            Some("Agent")
        );
        assert!(
            at(Kind::Agent, "spec.nothing").is_none()
                && schemas.view_at(None, &path("spec.tools")).is_none()
        );
        assert_eq!(
            at(Kind::Agent, "spec.tools").unwrap().value_form(),
            ValueForm::List
        );
        assert_eq!(
            at(Kind::Agent, "spec.prompt").unwrap().value_form(),
            ValueForm::Map
        );
        let action = at(Kind::Agent, "spec.permissions.default").unwrap();
        let words: Vec<String> = action.values().into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["allow", "ask", "deny"]);
        let parallel = at(Kind::Agent, "spec.maxParallelToolCalls").unwrap();
        assert_eq!(parallel.limits(), ["integer", "at least 1"]);
        assert_eq!(parallel.default(), Some(&Value::from(8)));
        assert!(
            parallel
                .description()
                .unwrap()
                .starts_with("The maximum number of tool calls")
        );
    }

    #[test]
    fn every_kind_has_schema_fields() {
        let schemas = SchemaLookup::new();
        for kind in Kind::ALL {
            let fields = schemas
                .view_at(Some(kind), &path("spec"))
                .map(SchemaView::fields)
                .unwrap_or_default();
            assert!(!fields.is_empty(), "{kind}");
        }
    }

    /// The schema states the kind of each reference, so that the reference can be completed.
    #[test]
    fn every_reference_states_its_kind_in_the_schema() {
        fn walk(view: SchemaView<'_>, field_path: &str, depth: usize, found: &mut Vec<String>) {
            for field in view.fields().into_iter().filter(|_| depth < 8) {
                let field_path = format!("{field_path}.{}", field.name);
                if field.shape.used.to_string().contains("#/$defs/ObjectRef\"") {
                    assert!(
                        field.shape.names().and_then(Kind::parse).is_some(),
                        "{field_path}"
                    );
                    found.push(field_path);
                    continue;
                }
                walk(field.shape, &field_path, depth + 1, found);
                if let Some(item) = field.shape.item() {
                    walk(item, &format!("{field_path}[]"), depth + 1, found);
                }
            }
        }
        let schemas = SchemaLookup::new();
        let mut found = Vec::new();
        for kind in Kind::ALL {
            walk(
                schemas.view_at(Some(kind), &path("spec")).unwrap(),
                kind.as_str(),
                0,
                &mut found,
            );
        }
        assert_eq!(found.len(), 9, "{found:#?}");
    }
}
