//! What the schemas say about a place in a document.

use goondan_spec::Kind;
use goondan_spec::schema::schemas;
use serde_json::{Map, Value};

use crate::scan::Step;

/// What the schema says that a text names: a kind, or `file`, `export` and the like.
const NAMES: &str = "x-goondan-names";

/// The schema of a document of any kind.
#[derive(Debug)]
pub(crate) struct Shapes {
    schema: Value,
}

/// A part of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'s> {
    shapes: &'s Shapes,
    /// What is said where it is used. It is said again behind references and choices.
    used: &'s Value,
    names: Option<&'s str>,
}

/// A field that a map may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldShape<'s> {
    pub(crate) name: &'s str,
    pub(crate) shape: Shape<'s>,
    pub(crate) required: bool,
}

/// What a value is, as far as that decides how it is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Map,
    List,
    Scalar,
}

impl Shapes {
    pub(crate) fn new() -> Self {
        let file = schemas()
            .into_iter()
            .find(|(name, _)| name == "goondan.schema.json");
        Shapes {
            schema: file.map(|(_, schema)| schema).unwrap_or_default(),
        }
    }

    /// The shape of a document of that kind, or of one that does not say its kind yet.
    fn document(&self, kind: Option<Kind>) -> Shape<'_> {
        let used = kind.and_then(|kind| self.schema.pointer(&format!("/$defs/{kind}Document")));
        // Until it says its kind, a document has the fields around `spec` alone, which all kinds share.
        let any = self.schema.pointer("/$defs/AgentDocument");
        Shape {
            shapes: self,
            used: used.or(any).unwrap_or(&self.schema),
            names: None,
        }
    }

    /// What may stand at `path` in a document of that kind.
    pub(crate) fn at(&self, kind: Option<Kind>, path: &[Step]) -> Option<Shape<'_>> {
        let is_inside = path.len() > 1 && path.first() == Some(&Step::Key("spec".to_owned()));
        if kind.is_none() && is_inside {
            return None;
        }
        path.iter()
            .try_fold(self.document(kind), |shape, step| shape.step(step))
    }
}

impl<'s> Shape<'s> {
    fn with(self, used: &'s Value) -> Self {
        let names = used.get(NAMES).and_then(Value::as_str);
        Shape {
            used,
            names,
            ..self
        }
    }

    /// What a list of references names is said of the list.
    fn field(self, name: &str, used: &'s Value) -> Self {
        let field = self.with(used);
        Shape {
            names: field.names.or(self.names.filter(|_| name == "ref")),
            ..field
        }
    }

    fn step(self, step: &Step) -> Option<Self> {
        let parts = self.parts();
        match step {
            Step::Key(name) => {
                let field = parts
                    .iter()
                    .find_map(|part| part.get("properties")?.get(name));
                let other = || {
                    parts.iter().find_map(|part| {
                        part.get("additionalProperties")
                            .filter(|any| any.is_object())
                    })
                };
                field.or_else(other).map(|used| self.field(name, used))
            }
            Step::Item(_) => {
                let items = parts.iter().find_map(|part| part.get("items"))?;
                let item = self.with(items);
                Some(Shape {
                    names: item.names.or(self.names),
                    ..item
                })
            }
        }
    }

    /// The schema and everything that it refers to or chooses from.
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

    /// What a text here names.
    pub(crate) fn names(self) -> Option<&'s str> {
        self.names
    }

    /// What it means, in the words of the reference.
    pub(crate) fn description(self) -> Option<&'s str> {
        self.parts()
            .iter()
            .find_map(|part| part.get("description")?.as_str())
    }

    pub(crate) fn default(self) -> Option<&'s Value> {
        self.parts().iter().find_map(|part| part.get("default"))
    }

    /// The fields that it may have.
    pub(crate) fn fields(self) -> Vec<FieldShape<'s>> {
        let mut fields: Vec<FieldShape<'s>> = Vec::new();
        for part in self.parts() {
            let required = part.get("required").and_then(Value::as_array);
            let is_required =
                |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
            for (name, used) in part
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                if fields.iter().all(|field| field.name != name) {
                    fields.push(FieldShape {
                        name,
                        shape: self.field(name, used),
                        required: is_required(name),
                    });
                }
            }
        }
        fields
    }

    /// What an item of it is, where it is a list.
    pub(crate) fn item(self) -> Option<Self> {
        self.step(&Step::Item(0))
    }

    /// The fields that its items may have, where it is a list of maps.
    pub(crate) fn fields_of_items(self) -> Option<Vec<FieldShape<'s>>> {
        self.item().map(Shape::fields)
    }

    /// The values that it may be, each with what it means.
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
            let is_boolean = part.get("type").is_some_and(|kind| says(kind, "boolean"));
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

    /// What it must be, in words such as `integer, at least 1`.
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
            let said = words
                .into_iter()
                .filter_map(|(word, meaning)| Some(format!("{meaning} {}", part.get(word)?)));
            limits.extend(
                said.filter(|limit| {
                    limit != "characters, at least 1" && limit != "items, at least 1"
                }),
            );
        }
        limits.dedup();
        limits
    }

    pub(crate) fn form(self) -> Form {
        let parts = self.parts();
        let is = |word: &str| {
            parts
                .iter()
                .any(|part| part.get("type").is_some_and(|kind| says(kind, word)))
        };
        match (
            is("array"),
            is("object"),
            is("string") || is("number") || is("integer") || is("boolean"),
        ) {
            (true, ..) => Form::List,
            // What may be a text or a map is mostly written as a text.
            (_, true, false) => Form::Map,
            _ => Form::Scalar,
        }
    }
}

/// Whether `type` is or has that word.
fn says(kind: &Value, word: &str) -> bool {
    kind == word
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<Step> {
        let step = |part: &str| {
            part.parse()
                .map_or_else(|_| Step::Key(part.to_owned()), Step::Item)
        };
        text.split('.')
            .filter(|part| !part.is_empty())
            .map(step)
            .collect()
    }

    #[test]
    fn ways_lead_to_shapes() {
        let shapes = Shapes::new();
        let at = |kind, way: &str| shapes.at(Some(kind), &path(way));
        let names = |kind, way: &str| at(kind, way).and_then(Shape::names);
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
                && shapes.at(None, &path("spec.tools")).is_none()
        );
        assert_eq!(at(Kind::Agent, "spec.tools").unwrap().form(), Form::List);
        assert_eq!(at(Kind::Agent, "spec.prompt").unwrap().form(), Form::Map);
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
                .starts_with("How many tool calls")
        );
    }

    #[test]
    fn every_kind_has_a_shape() {
        let shapes = Shapes::new();
        for kind in Kind::ALL {
            let fields = shapes
                .at(Some(kind), &path("spec"))
                .map(Shape::fields)
                .unwrap_or_default();
            assert!(!fields.is_empty(), "{kind}");
        }
    }

    /// A reference of which the schema does not say what it names is completed with nothing.
    #[test]
    fn every_reference_says_what_it_names() {
        fn walk(shape: Shape<'_>, way: &str, depth: usize, found: &mut Vec<String>) {
            for field in shape.fields().into_iter().filter(|_| depth < 8) {
                let way = format!("{way}.{}", field.name);
                if field.shape.used.to_string().contains("#/$defs/ObjectRef\"") {
                    assert!(field.shape.names().and_then(Kind::parse).is_some(), "{way}");
                    found.push(way);
                    continue;
                }
                walk(field.shape, &way, depth + 1, found);
                if let Some(item) = field.shape.item() {
                    walk(item, &format!("{way}[]"), depth + 1, found);
                }
            }
        }
        let shapes = Shapes::new();
        let mut found = Vec::new();
        for kind in Kind::ALL {
            walk(
                shapes.at(Some(kind), &path("spec")).unwrap(),
                kind.as_str(),
                0,
                &mut found,
            );
        }
        assert_eq!(found.len(), 9, "{found:#?}");
    }
}
