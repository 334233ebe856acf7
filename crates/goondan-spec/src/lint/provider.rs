//! Warns about tool schemas that a model's provider rejects or does not understand (rule L9b).
//!
//! The checks cover rules that the providers document, with the provider's own reasons. Built-in
//! tools are skipped, because their schemas suit all providers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::SpecPositions;
use super::schema_walk::walk;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Code, Diagnostic};
use crate::kinds::{Agent, ExportSpec, Model, Tool, ToolUse, qualified_name};
use crate::resource::Resource;
use crate::sent_schema::{ProviderWireFormat, sent_schema};
use crate::text::{excerpt, format_list};

/// Maximum object nesting in OpenAI's strict mode.
const MAX_STRICT_DEPTH: usize = 10;
/// Maximum number of values of all enumerations together in OpenAI's strict mode.
const MAX_STRICT_ENUM_VALUES: usize = 1_000;
/// String formats that OpenAI's strict mode supports.
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
/// String formats that Gemini supports.
const GEMINI_FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];
/// Maximum number of properties of a whole schema in OpenAI's strict mode.
const MAX_STRICT_PROPERTIES: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SchemaRefusal {
    /// Segments of the JSON pointer into `parameters`.
    road: Vec<String>,
    /// Message part after the provider's name.
    reason: String,
    remedy: &'static str,
}

type SchemaCheck = fn(&Value, &Model) -> Vec<SchemaRefusal>;

/// Maximum length of the sent schema in a message, in characters.
const MAX_SHOWN_SCHEMA_CHARS: usize = 400;

/// Schema rules of a provider.
struct ProviderRules {
    /// Values of `Model.provider`.
    names: &'static [&'static str],
    /// Display name.
    title: &'static str,
    /// Wire format, which determines the sent schema.
    wire: ProviderWireFormat,
    check: SchemaCheck,
}

const PROVIDERS: [ProviderRules; 3] = [
    ProviderRules {
        names: &["openai", "azure", "openai-compatible"],
        title: "OpenAI",
        wire: ProviderWireFormat::Chat,
        check: openai_refusals,
    },
    ProviderRules {
        names: &["anthropic"],
        title: "Anthropic",
        wire: ProviderWireFormat::Anthropic,
        check: anthropic_refusals,
    },
    ProviderRules {
        names: &["gemini", "google", "vertex"],
        title: "Gemini",
        wire: ProviderWireFormat::Gemini,
        check: gemini_refusals,
    },
];

/// Returns a warning for each export whose parameters a provider of the agent does not accept.
pub(super) fn lint(decoded: &DecodedResources, places: &SpecPositions<'_>) -> Vec<Diagnostic> {
    let mut seen_parts = BTreeSet::new();
    let mut diagnostics = Vec::new();
    for agent in decoded.agents.values() {
        for model in agent.spec.models().filter_map(|id| decoded.models.get(id)) {
            let name = model.spec.provider.to_lowercase();
            let Some(provider) = PROVIDERS
                .iter()
                .find(|known| known.names.contains(&name.as_str()))
            else {
                continue;
            };
            for (tool, export) in callable_exports(&agent.spec, decoded) {
                for refusal in (provider.check)(&export.model_parameters(), &model.spec) {
                    let key = (
                        provider.title,
                        qualified_name(&tool.id.name, &export.name),
                        refusal.clone(),
                    );
                    if seen_parts.insert(key) {
                        diagnostics.push(schema_warning(provider, tool, export, &refusal, places));
                    }
                }
            }
        }
    }
    diagnostics
}

/// Returns the exports of the project's own tools that the agent can call.
fn callable_exports<'d>(
    agent: &'d Agent,
    decoded: &'d DecodedResources,
) -> impl Iterator<Item = (&'d Resource<Tool>, &'d ExportSpec)> {
    agent.tools.iter().flat_map(|used| {
        let tool = decoded
            .tools
            .get(&used.tool)
            .filter(|tool| !tool.id.is_base());
        tool.into_iter()
            .flat_map(move |tool| selected_exports(tool, used).map(move |export| (&**tool, export)))
    })
}

/// Returns the exports of a tool that the agent can call and whose schema is known.
fn selected_exports<'t>(
    tool: &'t Resource<Tool>,
    used: &ToolUse,
) -> impl Iterator<Item = &'t ExportSpec> {
    let names = used.exports.clone();
    let is_selected = move |export: &&ExportSpec| {
        names
            .as_ref()
            .is_none_or(|names| names.contains(&export.name))
    };
    tool.spec
        .exports
        .iter()
        .filter(|export| export.parameters.is_object())
        .filter(is_selected)
}

/// Creates the warning with the position of the schema, if the Tool is in a file.
fn schema_warning(
    provider: &ProviderRules,
    tool: &Resource<Tool>,
    export: &ExportSpec,
    refusal: &SchemaRefusal,
    places: &SpecPositions<'_>,
) -> Diagnostic {
    let name = qualified_name(&tool.id.name, &export.name);
    let place = places.parameters_position(&tool.id, &export.name, &refusal.road);
    let sent = sent_schema(provider.wire, &export.model_parameters()).to_string();
    let diagnostic = Diagnostic::new(
        Code::PROVIDER_SCHEMA,
        format!(
            "{} does not accept the parameters of `{name}` unchanged: {}. gdn sends: {}",
            provider.title,
            refusal.reason,
            excerpt(&sent, MAX_SHOWN_SCHEMA_CHARS)
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

/// Creates a reason why a provider rejects the schema at the path `road`.
fn schema_refusal(
    road: &[String],
    reason: impl Into<String>,
    remedy: &'static str,
) -> SchemaRefusal {
    SchemaRefusal {
        road: road.to_vec(),
        reason: reason.into(),
        remedy,
    }
}

/// Rejects the given keywords at the root of the schema.
fn keywords_at_root(schema: &Value, keywords: &[&str]) -> Vec<SchemaRefusal> {
    let is_present = |keyword: &&&str| schema.get(**keyword).is_some();
    let reject = |keyword: &&str| {
        let path = [(*keyword).to_owned()];
        schema_refusal(
            &path,
            format!("the root must not have `{keyword}`"),
            "move it into a property",
        )
    };
    keywords.iter().filter(is_present).map(reject).collect()
}

/// Returns the reasons why OpenAI rejects the schema.
fn openai_refusals(schema: &Value, model: &Model) -> Vec<SchemaRefusal> {
    let mut refusals = keywords_at_root(schema, &["oneOf", "anyOf", "allOf", "enum", "not"]);
    refusals.extend(arrays_without_items(schema));
    if model.options.strict == Some(true) {
        refusals.extend(openai_strict(schema));
    }
    refusals
}

/// Returns true if `schema` satisfies OpenAI's strict mode.
pub(crate) fn fits_strict_mode(schema: &Value) -> bool {
    keywords_at_root(schema, &["oneOf", "anyOf", "allOf", "enum", "not"]).is_empty()
        && openai_strict(schema).is_empty()
}

/// Returns the reasons why OpenAI rejects the schema in strict mode.
fn openai_strict(schema: &Value) -> Vec<SchemaRefusal> {
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
    let mut refusals = Vec::new();
    let mut properties = 0;
    let mut values = 0;
    walk(schema, &mut |object, path| {
        refusals.extend(unsupported_format(
            object,
            path,
            &STRICT_FORMATS,
            "strict mode does not support",
        ));
        values += object
            .get("enum")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        refusals.extend(unsupported_keywords(
            object,
            path,
            &UNSUPPORTED,
            "strict mode does not support",
        ));
        let Some(named) = object.get("properties").and_then(Value::as_object) else {
            return;
        };
        properties += named.len();
        if object.get("additionalProperties") != Some(&Value::Bool(false)) {
            refusals.push(schema_refusal(
                path,
                "strict mode requires `additionalProperties: false` in every object",
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
                "in strict mode, `required` must list every property, but {} is not listed",
                format_list(&optional, 5)
            );
            refusals.push(schema_refusal(
                path,
                reason,
                "add it to `required`, and allow null: `type: [string, \"null\"]`",
            ));
        }
        if path
            .iter()
            .filter(|segment| *segment == "properties")
            .count()
            >= MAX_STRICT_DEPTH
        {
            let reason = format!("strict mode allows at most {MAX_STRICT_DEPTH} levels of objects");
            refusals.push(schema_refusal(path, reason, "flatten the parameters"));
        }
    });
    if values > MAX_STRICT_ENUM_VALUES {
        let reason = format!(
            "strict mode allows at most {MAX_STRICT_ENUM_VALUES} enum values, but there are \
            {values}"
        );
        refusals.push(schema_refusal(
            &[],
            reason,
            "make the longest enum a plain string, and check it in the tool",
        ));
    }
    if properties > MAX_STRICT_PROPERTIES {
        let reason = format!(
            "strict mode allows at most {MAX_STRICT_PROPERTIES} properties, but there are \
            {properties}"
        );
        refusals.push(schema_refusal(&[], reason, "split the tool"));
    }
    refusals
}

/// Returns the reasons why Anthropic rejects the schema.
fn anthropic_refusals(schema: &Value, _: &Model) -> Vec<SchemaRefusal> {
    let mut refusals = keywords_at_root(schema, &["oneOf", "anyOf", "allOf"]);
    walk(schema, &mut |object, path| {
        let properties = object.get("properties").and_then(Value::as_object);
        for name in properties
            .into_iter()
            .flat_map(Map::keys)
            .filter(|name| !is_anthropic_key(name))
        {
            let path: Vec<String> = path
                .iter()
                .cloned()
                .chain(["properties".to_owned(), name.clone()])
                .collect();
            let reason = format!(
                "property names contain at most 64 letters, digits, `_`, `.` and `-`; `{}` does \
                not match",
                excerpt(name, 80)
            );
            refusals.push(schema_refusal(&path, reason, "rename the property"));
        }
    });
    refusals
}

/// Returns true if Anthropic accepts the property name.
fn is_anthropic_key(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

const GEMINI_UNSUPPORTED_KEYWORDS: [&str; 20] = [
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

/// Returns the reasons why Gemini rejects the schema; it ignores `additionalProperties` and `$schema`.
fn gemini_refusals(schema: &Value, _: &Model) -> Vec<SchemaRefusal> {
    let mut refusals = arrays_without_items(schema);
    walk(schema, &mut |object, path| {
        refusals.extend(unsupported_format(
            object,
            path,
            &GEMINI_FORMATS,
            "the provider does not support",
        ));
        refusals.extend(unsupported_keywords(
            object,
            path,
            &GEMINI_UNSUPPORTED_KEYWORDS,
            "the provider does not support",
        ));
        let kind = object.get("type");
        if kind.is_some_and(Value::is_array) {
            refusals.push(schema_refusal(
                path,
                "`type` must be one type, not a list",
                "choose one; for null, write `nullable: true`",
            ));
        }
        if object.contains_key("enum") && kind.is_some_and(|kind| kind != "string") {
            refusals.push(schema_refusal(
                path,
                "`enum` is allowed only for strings",
                "write the values as strings, with `type: string`",
            ));
        }
        let empty = object
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty);
        if !path.is_empty() && kind.is_some_and(|kind| kind == "object") && empty {
            refusals.push(schema_refusal(
                path,
                "an object must have properties",
                "declare its properties, or make it a string",
            ));
        }
    });
    refusals
}

/// Rejects the given keywords of an object; `says` begins the reason.
fn unsupported_keywords(
    object: &Map<String, Value>,
    path: &[String],
    keywords: &[&str],
    says: &str,
) -> Vec<SchemaRefusal> {
    let present = object
        .keys()
        .filter(|keyword| keywords.contains(&keyword.as_str()));
    let reject = |keyword: &String| {
        let path: Vec<String> = path.iter().cloned().chain([keyword.clone()]).collect();
        schema_refusal(
            &path,
            format!("{says} `{keyword}`"),
            "state it in the description, and check it in the tool",
        )
    };
    present.map(reject).collect()
}

/// Rejects a `format` that is not in `known`; `says` begins the reason.
fn unsupported_format(
    object: &Map<String, Value>,
    path: &[String],
    known: &[&str],
    says: &str,
) -> Option<SchemaRefusal> {
    let format = object
        .get("format")
        .and_then(Value::as_str)
        .filter(|format| !known.contains(format))?;
    let path: Vec<String> = path.iter().cloned().chain(["format".to_owned()]).collect();
    let reason = format!("{says} the format `{}`", excerpt(format, 40));
    Some(schema_refusal(
        &path,
        reason,
        "state it in the description, and check it in the tool",
    ))
}

/// Rejects arrays that do not declare the type of their items.
fn arrays_without_items(schema: &Value) -> Vec<SchemaRefusal> {
    let mut pointers = Vec::new();
    walk(schema, &mut |object, path| {
        let is_array = object.get("type").is_some_and(|kind| {
            kind == "array"
                || kind
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
        });
        if is_array && !object.contains_key("items") && !object.contains_key("prefixItems") {
            pointers.push(schema_refusal(
                path,
                "an array must declare the type of its items",
                "add `items`",
            ));
        }
    });
    pointers
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

    fn refusal_paths(check: SchemaCheck, schema: &Value, strict: bool) -> Vec<String> {
        check(schema, &model(strict))
            .into_iter()
            .map(|refusal| refusal.road.join("/"))
            .collect()
    }

    #[test]
    fn a_plain_schema_is_accepted_by_all_providers() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"type": "array", "items": {"type": "integer"}}},
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        for provider in PROVIDERS {
            assert!(refusal_paths(provider.check, &schema, true).is_empty());
        }
    }

    #[test]
    fn each_provider_has_its_own_rules() {
        let schema = json!({
            "type": "object",
            "properties": {"user name": {"type": ["string", "null"]}, "tags": {"type": "array"}},
            "anyOf": [{"required": ["tags"]}],
        });
        assert_eq!(
            refusal_paths(openai_refusals, &schema, false),
            ["anyOf", "properties/tags"]
        );
        assert_eq!(
            refusal_paths(openai_refusals, &schema, true),
            ["anyOf", "properties/tags", "", ""]
        );
        assert_eq!(
            refusal_paths(anthropic_refusals, &schema, false),
            ["anyOf", "properties/user name"]
        );
        assert_eq!(
            refusal_paths(gemini_refusals, &schema, false),
            ["properties/tags", "properties/user name"]
        );
        let formats = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "format": "uri"}, "b": {"type": "string", "format": "date-time"}},
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        assert!(
            refusal_paths(openai_refusals, &formats, false).is_empty()
                && refusal_paths(anthropic_refusals, &formats, false).is_empty()
        );
        assert_eq!(
            refusal_paths(openai_refusals, &formats, true),
            ["properties/a/format"]
        );
        assert_eq!(
            refusal_paths(gemini_refusals, &formats, false),
            ["properties/a/format"]
        );
        let values: Vec<u32> = (0..1_001).collect();
        let many = json!({
            "type": "object",
            "properties": {"a": {"enum": values}},
            "required": ["a"],
            "additionalProperties": false,
        });
        assert_eq!(refusal_paths(openai_refusals, &many, true), [""]);
        let deep = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"const": 1}}});
        assert_eq!(
            refusal_paths(gemini_refusals, &deep, false),
            ["$defs", "properties/a/$ref", "$defs/x/const"]
        );
    }
}
