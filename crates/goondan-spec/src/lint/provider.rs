//! Tool schemas that a model's provider refuses or does not understand (rule L9b).
//!
//! A modest set of rules that the providers document, each with the provider's own reason. Built-in tools are left out:
//! their schemas are written for all providers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Places;
use super::schema_walk::walk;
use crate::bundle::{Decoded, Resource};
use crate::diagnostic::{Code, Diagnostic};
use crate::kinds::{Agent, ExportSpec, Model, Tool, ToolUse, qualified_name};
use crate::sent_schema::{Wire, sent_schema};
use crate::text::{excerpt, list};

/// How many object levels OpenAI's strict mode takes.
const STRICT_DEPTH: usize = 10;
/// How many values all enumerations together may have in OpenAI's strict mode.
const STRICT_ENUM_VALUES: usize = 1_000;
/// The formats that OpenAI's strict mode knows.
const STRICT_FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];
/// The formats that Gemini knows.
const GEMINI_FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];
/// How many properties OpenAI's strict mode takes, over the whole schema.
const STRICT_PROPERTIES: usize = 5_000;

/// Something that a provider will not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Refusal {
    /// Segments of the JSON pointer into `parameters`.
    road: Vec<String>,
    /// Follows the provider's name.
    reason: String,
    remedy: &'static str,
}

type Check = fn(&Value, &Model) -> Vec<Refusal>;

/// How much of the schema that is sent is shown, in characters.
const SHOWN: usize = 400;

/// A provider, as far as schemas go.
struct Provider {
    /// What `Model.provider` may be.
    names: &'static [&'static str],
    /// Its name for people.
    title: &'static str,
    /// What decides how a schema is sent.
    wire: Wire,
    check: Check,
}

const PROVIDERS: [Provider; 3] = [
    Provider {
        names: &["openai", "azure", "openai-compatible"],
        title: "OpenAI",
        wire: Wire::Chat,
        check: openai,
    },
    Provider {
        names: &["anthropic"],
        title: "Anthropic",
        wire: Wire::Anthropic,
        check: anthropic,
    },
    Provider {
        names: &["gemini", "google", "vertex"],
        title: "Gemini",
        wire: Wire::Gemini,
        check: gemini,
    },
];

pub(super) fn lint(decoded: &Decoded, places: &Places<'_>) -> Vec<Diagnostic> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for agent in decoded.agents.values() {
        for model in agent.spec.models().filter_map(|id| decoded.models.get(id)) {
            let name = model.spec.provider.to_lowercase();
            let Some(provider) = PROVIDERS
                .iter()
                .find(|known| known.names.contains(&name.as_str()))
            else {
                continue;
            };
            for (tool, export) in offered(&agent.spec, decoded) {
                for refusal in (provider.check)(&export.shown_parameters(), &model.spec) {
                    let key = (
                        provider.title,
                        qualified_name(&tool.id.name, &export.name),
                        refusal.clone(),
                    );
                    if seen.insert(key) {
                        found.push(warning(provider, tool, export, &refusal, places));
                    }
                }
            }
        }
    }
    found
}

/// What an agent is offered by the project's own tools.
fn offered<'d>(
    agent: &'d Agent,
    decoded: &'d Decoded,
) -> impl Iterator<Item = (&'d Resource<Tool>, &'d ExportSpec)> {
    agent.tools.iter().flat_map(|used| {
        let tool = decoded
            .tools
            .get(&used.tool)
            .filter(|tool| !tool.id.is_base());
        tool.into_iter()
            .flat_map(move |tool| selected(tool, used).map(move |export| (&**tool, export)))
    })
}

/// The exports whose schema is known and that the agent is offered.
fn selected<'t>(tool: &'t Resource<Tool>, used: &ToolUse) -> impl Iterator<Item = &'t ExportSpec> {
    let names = used.exports.clone();
    let chosen = move |export: &&ExportSpec| {
        names
            .as_ref()
            .is_none_or(|names| names.contains(&export.name))
    };
    tool.spec
        .exports
        .iter()
        .filter(|export| export.parameters.is_object())
        .filter(chosen)
}

fn warning(
    provider: &Provider,
    tool: &Resource<Tool>,
    export: &ExportSpec,
    refusal: &Refusal,
    places: &Places<'_>,
) -> Diagnostic {
    let name = qualified_name(&tool.id.name, &export.name);
    let place = places.parameters(&tool.id, &export.name, &refusal.road);
    let sent = sent_schema(provider.wire, &export.shown_parameters()).to_string();
    let diagnostic = Diagnostic::new(
        Code::PROVIDER_SCHEMA,
        format!(
            "{} does not take the parameters of `{name}` as they are: {}. What is sent: {}",
            provider.title,
            refusal.reason,
            excerpt(&sent, SHOWN)
        ),
    );
    let diagnostic = diagnostic
        .of(&tool.id)
        .field(place.field)
        .suggest(refusal.remedy);
    match (tool.origin.as_ref(), place.at) {
        (Some((file, _)), Some(at)) => diagnostic.in_file(file.clone()).at(at),
        (Some((file, name_at)), None) => diagnostic.in_file(file.clone()).at(*name_at),
        (None, _) => diagnostic,
    }
}

fn refusal(road: &[String], reason: impl Into<String>, remedy: &'static str) -> Refusal {
    Refusal {
        road: road.to_vec(),
        reason: reason.into(),
        remedy,
    }
}

fn at_root(schema: &Value, keywords: &[&str]) -> Vec<Refusal> {
    let present = |keyword: &&&str| schema.get(**keyword).is_some();
    let named = |keyword: &&str| {
        let road = [(*keyword).to_owned()];
        refusal(
            &road,
            format!("the root must not have `{keyword}`"),
            "move it into a property",
        )
    };
    keywords.iter().filter(present).map(named).collect()
}

fn openai(schema: &Value, model: &Model) -> Vec<Refusal> {
    let mut found = at_root(schema, &["oneOf", "anyOf", "allOf", "enum", "not"]);
    found.extend(arrays_without_items(schema));
    if model.options.strict == Some(true) {
        found.extend(openai_strict(schema));
    }
    found
}

/// Whether OpenAI's strict mode has nothing against `schema`.
pub(crate) fn fits_strict_mode(schema: &Value) -> bool {
    at_root(schema, &["oneOf", "anyOf", "allOf", "enum", "not"]).is_empty()
        && openai_strict(schema).is_empty()
}

fn openai_strict(schema: &Value) -> Vec<Refusal> {
    const UNSUPPORTED: [&str; 8] = [
        "allOf",
        "not",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "then",
        "else",
        "patternProperties",
    ];
    let mut found = Vec::new();
    let (mut properties, mut values) = (0, 0);
    walk(schema, &mut |object, road| {
        found.extend(unknown_format(
            object,
            road,
            &STRICT_FORMATS,
            "strict mode does not know",
        ));
        values += object
            .get("enum")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        found.extend(unsupported(
            object,
            road,
            &UNSUPPORTED,
            "strict mode does not know",
        ));
        let Some(named) = object.get("properties").and_then(Value::as_object) else {
            return;
        };
        properties += named.len();
        if object.get("additionalProperties") != Some(&Value::Bool(false)) {
            found.push(refusal(
                road,
                "strict mode wants `additionalProperties: false` in every object",
                "add it",
            ));
        }
        let required = object
            .get("required")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let optional: Vec<&String> = named
            .keys()
            .filter(|name| !required.iter().any(|one| one == *name))
            .collect();
        if !optional.is_empty() {
            let reason = format!(
                "strict mode wants every property in `required`, and {} is not",
                list(&optional, 5)
            );
            found.push(refusal(
                road,
                reason,
                "add it to `required`, and let it be null: `type: [string, \"null\"]`",
            ));
        }
        if road
            .iter()
            .filter(|segment| *segment == "properties")
            .count()
            >= STRICT_DEPTH
        {
            let reason = format!("strict mode takes {STRICT_DEPTH} levels of objects");
            found.push(refusal(road, reason, "flatten the parameters"));
        }
    });
    if values > STRICT_ENUM_VALUES {
        let reason = format!(
            "strict mode takes {STRICT_ENUM_VALUES} values of enumerations, and here are {values}"
        );
        found.push(refusal(
            &[],
            reason,
            "make the longest enumeration a text, and check it in the tool",
        ));
    }
    if properties > STRICT_PROPERTIES {
        let reason =
            format!("strict mode takes {STRICT_PROPERTIES} properties, and here are {properties}");
        found.push(refusal(&[], reason, "split the tool"));
    }
    found
}

fn anthropic(schema: &Value, _: &Model) -> Vec<Refusal> {
    let mut found = at_root(schema, &["oneOf", "anyOf", "allOf"]);
    walk(schema, &mut |object, road| {
        let named = object.get("properties").and_then(Value::as_object);
        for name in named
            .into_iter()
            .flat_map(Map::keys)
            .filter(|name| !is_anthropic_key(name))
        {
            let road: Vec<String> = road
                .iter()
                .cloned()
                .chain(["properties".to_owned(), name.clone()])
                .collect();
            let reason = format!(
                "property names hold letters, digits, `_`, `.` and `-`, at most 64; `{}` does not",
                excerpt(name, 80)
            );
            found.push(refusal(&road, reason, "rename the property"));
        }
    });
    found
}

fn is_anthropic_key(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

const GEMINI_UNKNOWN: [&str; 20] = [
    "$ref",
    "$defs",
    "$dynamicRef",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "const",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
    "prefixItems",
    "contains",
];

/// Its schemas are a subset of OpenAPI 3.0. `additionalProperties` and `$schema` mean nothing there and are lost without
/// harm, so nothing is said about them.
fn gemini(schema: &Value, _: &Model) -> Vec<Refusal> {
    let mut found = arrays_without_items(schema);
    walk(schema, &mut |object, road| {
        found.extend(unknown_format(
            object,
            road,
            &GEMINI_FORMATS,
            "it does not know",
        ));
        found.extend(unsupported(
            object,
            road,
            &GEMINI_UNKNOWN,
            "it does not know",
        ));
        let kind = object.get("type");
        if kind.is_some_and(Value::is_array) {
            found.push(refusal(
                road,
                "`type` must be one type, not a list",
                "choose one; for null, write `nullable: true`",
            ));
        }
        if object.contains_key("enum") && kind.is_some_and(|kind| kind != "string") {
            found.push(refusal(
                road,
                "`enum` is for texts alone",
                "write the values as texts, with `type: string`",
            ));
        }
        let empty = object
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty);
        if !road.is_empty() && kind.is_some_and(|kind| kind == "object") && empty {
            found.push(refusal(
                road,
                "an object must have properties",
                "name its properties, or make it a text",
            ));
        }
    });
    found
}

fn unsupported(
    object: &Map<String, Value>,
    road: &[String],
    keywords: &[&str],
    says: &str,
) -> Vec<Refusal> {
    let present = object
        .keys()
        .filter(|keyword| keywords.contains(&keyword.as_str()));
    let named = |keyword: &String| {
        let road: Vec<String> = road.iter().cloned().chain([keyword.clone()]).collect();
        refusal(
            &road,
            format!("{says} `{keyword}`"),
            "say it in the description, and check it in the tool",
        )
    };
    present.map(named).collect()
}

fn unknown_format(
    object: &Map<String, Value>,
    road: &[String],
    known: &[&str],
    says: &str,
) -> Option<Refusal> {
    let format = object
        .get("format")
        .and_then(Value::as_str)
        .filter(|format| !known.contains(format))?;
    let road: Vec<String> = road.iter().cloned().chain(["format".to_owned()]).collect();
    let reason = format!("{says} the format `{}`", excerpt(format, 40));
    Some(refusal(
        &road,
        reason,
        "say it in the description, and check it in the tool",
    ))
}

fn arrays_without_items(schema: &Value) -> Vec<Refusal> {
    let mut found = Vec::new();
    walk(schema, &mut |object, road| {
        let is_array = object.get("type").is_some_and(|kind| {
            kind == "array"
                || kind
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
        });
        if is_array && !object.contains_key("items") && !object.contains_key("prefixItems") {
            found.push(refusal(
                road,
                "an array must say what it holds",
                "add `items`",
            ));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::ModelOptions;

    fn model(strict: bool) -> Model {
        let options = ModelOptions {
            strict: Some(strict),
            ..ModelOptions::default()
        };
        Model {
            provider: "openai".into(),
            model: "x".into(),
            api_key: None,
            endpoint: None,
            options,
            capabilities: Default::default(),
            pricing: None,
            limits: Default::default(),
        }
    }

    fn roads(check: Check, schema: &Value, strict: bool) -> Vec<String> {
        check(schema, &model(strict))
            .into_iter()
            .map(|refusal| refusal.road.join("/"))
            .collect()
    }

    #[test]
    fn a_plain_schema_suits_all() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"type": "array", "items": {"type": "integer"}}},
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        for provider in PROVIDERS {
            assert!(roads(provider.check, &schema, true).is_empty());
        }
    }

    #[test]
    fn each_provider_has_its_own_rules() {
        let schema = json!({
            "type": "object",
            "properties": {"user name": {"type": ["string", "null"]}, "tags": {"type": "array"}},
            "anyOf": [{"required": ["tags"]}],
        });
        assert_eq!(roads(openai, &schema, false), ["anyOf", "properties/tags"]);
        assert_eq!(
            roads(openai, &schema, true),
            ["anyOf", "properties/tags", "", ""]
        );
        assert_eq!(
            roads(anthropic, &schema, false),
            ["anyOf", "properties/user name"]
        );
        assert_eq!(
            roads(gemini, &schema, false),
            ["properties/tags", "properties/user name"]
        );
        let formats = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "format": "uri"}, "b": {"type": "string", "format": "date-time"}},
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        assert!(
            roads(openai, &formats, false).is_empty()
                && roads(anthropic, &formats, false).is_empty()
        );
        assert_eq!(roads(openai, &formats, true), ["properties/a/format"]);
        assert_eq!(roads(gemini, &formats, false), ["properties/a/format"]);
        let values: Vec<u32> = (0..1_001).collect();
        let many = json!({
            "type": "object",
            "properties": {"a": {"enum": values}},
            "required": ["a"],
            "additionalProperties": false,
        });
        assert_eq!(roads(openai, &many, true), [""]);
        let deep = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"const": 1}}});
        assert_eq!(
            roads(gemini, &deep, false),
            ["$defs", "properties/a/$ref", "$defs/x/const"]
        );
    }
}
