//! JSON Schemas of the YAML format, for editors and other programs.
//!
//! They are derived from the shape types next to the decoders. A test reads the documented examples
//! with both.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::envelope::MAX_NAME_CHARS;
use crate::field_names;
use crate::kinds::{
    AgentSpec, ConnectionSpec, ConnectorSpec, ExtensionSpec, ModelSpec, PackageSpec, SwarmSpec,
    ToolSpec,
};
use crate::meta::{API_VERSION, Kind};

/// Base URL of the published schemas.
const SCHEMA_BASE_URL: &str = "https://goondan.ai/schemas";
/// Schema of a whole file.
const FILE_SCHEMA: &str = "goondan.schema.json";
/// JSON Schema dialect.
const SCHEMA_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// Rule L6.
const NAME_PATTERN: &str = "^[a-z][a-z0-9-]{0,62}$";
/// Rule L6, with the optional scope of a Package.
const PACKAGE_NAME_PATTERN: &str = "^(@[a-z][a-z0-9-]{0,62}/)?[a-z][a-z0-9-]{0,62}$";

/// Returns file names and schemas: one per kind, and `goondan.schema.json` for a document of any
/// kind.
///
/// Editors check a file with several documents document by document, so the last schema also fits
/// whole files.
pub fn schemas() -> Vec<(String, Value)> {
    let kinds = Kind::ALL.map(|kind| (file_name(kind), document(kind)));
    kinds
        .into_iter()
        .chain([(FILE_SCHEMA.to_owned(), any_document())])
        .collect()
}

/// Returns the file name of the JSON Schema of a kind.
fn file_name(kind: Kind) -> String {
    format!("{}.schema.json", kind.as_str().to_lowercase())
}

/// Builds a self-contained schema, so that an editor needs only one file. `if`/`then` by kind makes
/// errors refer to the document's kind only.
fn any_document() -> Value {
    let mut definitions = Map::new();
    let mut kind_conditions = Vec::new();
    for kind in Kind::ALL {
        let Value::Object(mut document) = document(kind) else {
            continue;
        };
        if let Some(Value::Object(shared)) = document.remove("$defs") {
            definitions.extend(shared);
        }
        document.remove("$schema");
        document.remove("$id");
        definitions.insert(format!("{kind}Document"), Value::Object(document));
        kind_conditions.push(json!({
            "if": { "properties": { "kind": { "const": kind.as_str() } }, "required": ["kind"] },
            "then": { "$ref": format!("#/$defs/{kind}Document") },
        }));
    }
    json!({
        "$schema": SCHEMA_DIALECT,
        "$id": format!("{SCHEMA_BASE_URL}/{FILE_SCHEMA}"),
        "title": "A document of a bundle",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": { "kind": { "enum": Kind::ALL.map(Kind::as_str), "description": "The kind of \
            the resource." } },
        "allOf": kind_conditions,
        "$defs": definitions,
    })
}

/// Creates the JSON Schema of a whole resource document.
fn document(kind: Kind) -> Value {
    let mut spec = spec_schema(kind);
    let definitions = spec.remove("$defs").unwrap_or_else(|| json!({}));
    spec.remove("$schema");
    let title = spec.remove("title").unwrap_or_else(|| json!(kind.as_str()));
    let required: &[&str] = match kind {
        Kind::Package => &["apiVersion", "kind", "metadata"],
        _ => &["apiVersion", "kind", "metadata", "spec"],
    };
    let mut schema = json!({
        "$schema": SCHEMA_DIALECT,
        "$id": format!("{SCHEMA_BASE_URL}/{}", file_name(kind)),
        "title": title,
        "description": spec.get("description").cloned().unwrap_or_default(),
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": {
            "apiVersion": { "const": API_VERSION, "description": "The version of the format." },
            "kind": { "const": kind.as_str(), "description": "The kind of the resource." },
            "metadata": metadata(kind),
            "spec": spec,
        },
        "$defs": definitions,
    });
    field_names::add_names(kind, &mut schema);
    schema
}

/// Creates the JSON Schema of `metadata`.
fn metadata(kind: Kind) -> Value {
    let pattern = if kind == Kind::Package {
        PACKAGE_NAME_PATTERN
    } else {
        NAME_PATTERN
    };
    let texts = |description: &str| json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description });
    let form = format!(
        "lower-case letters, digits and hyphens, beginning with a letter, at most {MAX_NAME_CHARS} \
        characters"
    );
    let name = match kind {
        Kind::Package => format!("The name of the package, `name` or `@scope/name`: {form} each."),
        _ => format!(
            "The name of the resource, unique among the resources of its kind: {form}. References \
            use it."
        ),
    };
    json!({
        "type": "object",
        "description": "The name of the resource, with labels and annotations.",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "pattern": pattern, "description": name },
            "labels": texts("Short strings by name, for sorting resources. `gdn` does not use \
                them."),
            "annotations": texts("Strings by name, for people and other programs. An Agent's \
                `description` here counts if `spec.description` is absent."),
        },
    })
}

/// Creates the JSON Schema of `spec`.
fn spec_schema(kind: Kind) -> Map<String, Value> {
    match kind {
        Kind::Model => schema_of::<ModelSpec>(),
        Kind::Agent => schema_of::<AgentSpec>(),
        Kind::Swarm => schema_of::<SwarmSpec>(),
        Kind::Tool => schema_of::<ToolSpec>(),
        Kind::Extension => schema_of::<ExtensionSpec>(),
        Kind::Connector => schema_of::<ConnectorSpec>(),
        Kind::Connection => schema_of::<ConnectionSpec>(),
        Kind::Package => schema_of::<PackageSpec>(),
    }
}

/// Creates the JSON Schema of a type.
fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let generator: SchemaGenerator = SchemaSettings::draft2020_12().into_generator();
    match generator.into_root_schema_for::<T>().to_value() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}
