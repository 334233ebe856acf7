//! The tools of a server, prepared for a model.
//!
//! All contents are untrusted: they are limited in size and freed of invisible characters. Hints
//! can only make a policy stricter. A tool without hints counts as able to do everything its server
//! can.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rmcp::model::{Tool as ServerTool, ToolAnnotations};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::definition::{McpServerDefinition, ServerTransport};
use crate::listing::ToolListing;
use crate::prompts::CatalogPrompt;
use crate::resources;
use crate::tool_names;
use goondan_core::JsonObject;
use goondan_core::ids::hex;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::redact::SecretRedactor;
use goondan_spec::kinds::{ExportSpec, Permission, is_gdn_format};
use goondan_spec::untrusted_text::{KeptCharacters, TextEscaper, line};

/// Maximum number of tools per server.
pub(crate) const MAX_TOOLS: usize = 1_000;
/// Maximum number of characters in a description.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// Maximum size of a parameter schema in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// Maximum nesting depth of a schema.
const MAX_SCHEMA_DEPTH: usize = 64;
/// Maximum number of notes about changes to the server's list.
const MAX_NOTES: usize = 20;
/// Maximum number of characters of a name in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// Version of the cached format; other versions are ignored.
const CATALOG_FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCatalog {
    format: u32,
    /// The negotiated protocol revision.
    pub protocol: String,
    /// The server's own name.
    pub server: String,
    /// The tools in the server's order.
    pub tools: Vec<CatalogTool>,
    /// Sentences about changes to the server's list.
    pub notes: Vec<String>,
    /// The prompts in the server's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<CatalogPrompt>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogTool {
    /// The server's name of the tool.
    pub own: String,
    /// The tool as exported to agents.
    pub export: ExportSpec,
    pub hints: ToolHints,
    #[serde(default, skip_serializing_if = "CatalogToolKind::is_tool")]
    pub(crate) kind: CatalogToolKind,
}

/// The request that a call of an export becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CatalogToolKind {
    /// A call of the server's tool.
    #[default]
    Tool,
    /// A call of `resources/read` or `resources/list`. gdn adds this tool for servers with resources.
    Resources,
}

impl CatalogTool {
    /// Returns the identity of the definition, for an approval that covers only this definition.
    pub(crate) fn identity(&self, server: &McpServerDefinition) -> String {
        let mut hash = Sha256::new();
        hash.update(server.fingerprint());
        hash.update(serde_json::to_vec(self).unwrap_or_default());
        hex(&hash.finalize())
    }
}

impl CatalogToolKind {
    /// Returns true for a tool of the server, and false for the one that gdn adds.
    fn is_tool(&self) -> bool {
        *self == CatalogToolKind::Tool
    }
}

/// The server's description of a tool's effects. It is untrusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool may destroy data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Repeating a call has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool interacts with external systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl McpCatalog {
    /// Builds the catalog from a tool list. `protocol` is the protocol revision, and `server` is
    /// the name and version of the server. With `has_resources`, adds the export that reads
    /// resources. Errors in single tools become notes.
    pub(crate) fn new(
        definition: &McpServerDefinition,
        protocol: &str,
        server: &str,
        listing: ToolListing,
        has_resources: bool,
    ) -> McpCatalog {
        let ToolListing {
            tools: mut listed_tools,
            mut notes,
        } = listing;
        if listed_tools.len() > MAX_TOOLS {
            notes.push(format!(
                "The server has {} tools; only the first {MAX_TOOLS} are used.",
                listed_tools.len()
            ));
            listed_tools.truncate(MAX_TOOLS);
        }
        let server_names: Vec<&str> = listed_tools.iter().map(|tool| tool.name.as_ref()).collect();
        let assigned = tool_names::assign(definition.name(), &server_names);
        let mut tools = Vec::new();
        for (tool, name) in listed_tools.iter().zip(assigned) {
            let shown_name = shortened_name(&tool.name);
            let Some(name) = name else {
                notes.push(format!(
                    "The tool `{shown_name}` is listed twice; only the first is used."
                ));
                continue;
            };
            if name != tool_names::normalize_name(&tool.name) {
                notes.push(format!(
                    "The tool `{shown_name}` is renamed to `{name}`: its name is too long or \
                    already used."
                ));
            }
            match catalog_tool(definition, tool, name) {
                Ok(listed) => tools.push(listed),
                Err(why) => notes.push(format!("The tool `{shown_name}` is ignored: {why}.")),
            }
        }
        if has_resources {
            let used: Vec<&str> = tools.iter().map(|tool| tool.export.name.as_str()).collect();
            let name = tool_names::free_name(definition.name(), &used, &resources::EXPORT_NAMES);
            tools.extend(name.map(|name| resource_reader(definition, name)));
        }
        let more = notes.len().saturating_sub(MAX_NOTES);
        if more > 0 {
            notes.truncate(MAX_NOTES);
            notes.push(format!("{more} more notes are omitted."));
        }
        let server = line(server.chars().take(MAX_SHOWN_CHARS).collect::<String>()).to_string();
        McpCatalog {
            format: CATALOG_FORMAT,
            protocol: protocol.to_owned(),
            server,
            tools,
            notes,
            prompts: Vec::new(),
        }
    }

    /// Adds the prompts of the server.
    #[must_use]
    pub(crate) fn with_prompts(mut self, prompts: Vec<CatalogPrompt>) -> Self {
        self.prompts = prompts;
        self
    }

    /// Masks secrets: a server sees those in its own environment and headers, and may repeat them. A
    /// tool or prompt with a secret in its name is left out, because it can only be called by that name.
    #[must_use]
    pub(crate) fn mask_secrets(mut self, redactor: &SecretRedactor) -> McpCatalog {
        let has_secret = |text: &str| matches!(redactor.text(text), Cow::Owned(_));
        redactor.clean(&mut self.server);
        self.notes.iter_mut().for_each(|note| redactor.clean(note));
        let count = self.tools.len() + self.prompts.len();
        self.tools.retain(|tool| !has_secret(&tool.own));
        self.prompts.retain(|prompt| {
            let arguments = prompt.arguments.iter().map(|argument| &argument.name);
            !arguments.chain([&prompt.name]).any(|name| has_secret(name))
        });
        if self.tools.len() + self.prompts.len() < count {
            self.notes
                .push("A tool or prompt is ignored: its name contains a secret.".to_owned());
        }
        for tool in &mut self.tools {
            clean_text(redactor, &mut tool.export.description);
            redactor.clean_output(&mut tool.export.parameters);
        }
        for prompt in &mut self.prompts {
            clean_text(redactor, &mut prompt.description);
        }
        self
    }

    /// Estimates the number of tokens that the schemas add to each request.
    pub fn tokens(&self) -> usize {
        let size = |listed: &CatalogTool| {
            let ExportSpec {
                name,
                description,
                parameters,
                ..
            } = &listed.export;
            let (name, description) = (name.clone(), description.clone());
            ToolDefinition {
                name,
                description,
                parameters: parameters.clone(),
            }
            .tokens()
        };
        self.tools.iter().map(size).sum()
    }

    /// Returns true if this version of the program can read the format.
    pub(crate) fn is_readable(&self) -> bool {
        self.format == CATALOG_FORMAT
    }
}

/// Masks secrets, and parts of secrets where the text was cut.
fn clean_text(redactor: &SecretRedactor, text: &mut String) {
    let mut value = Value::String(std::mem::take(text));
    redactor.clean_output(&mut value);
    if let Value::String(clean) = value {
        *text = clean;
    }
}

/// Converts a listed tool to a catalog entry with the exported name `name`. Fails with a part of a
/// sentence if the schema is unusable.
fn catalog_tool(
    definition: &McpServerDefinition,
    tool: &ServerTool,
    name: String,
) -> Result<CatalogTool, String> {
    let hints = tool
        .annotations
        .as_ref()
        .map(ToolHints::from_annotations)
        .unwrap_or_default();
    let description = tool
        .description
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let title = tool
        .title
        .as_deref()
        .or_else(|| tool.annotations.as_ref()?.title.as_deref());
    let description = description.or(title).unwrap_or(&tool.name);
    let export = ExportSpec {
        name,
        description: clean_untrusted_text(description, MAX_DESCRIPTION_CHARS),
        parameters: Value::Object(sanitize_schema(&tool.input_schema)?),
        permissions: call_permissions(&definition.way, hints),
        // `read_only` and `idempotent` are not copied either: they permit repeated or unapproved
        // calls, and an untrusted hint does not justify that.
        ..ExportSpec::default()
    };
    Ok(CatalogTool {
        own: tool.name.to_string(),
        export,
        hints,
        kind: CatalogToolKind::Tool,
    })
}

/// Creates the entry of the export that reads resources. It needs the same permissions as the
/// server's tools.
fn resource_reader(definition: &McpServerDefinition, name: &str) -> CatalogTool {
    let hints = ToolHints::default();
    CatalogTool {
        own: resources::READ_METHOD.to_owned(),
        export: ExportSpec {
            name: name.to_owned(),
            description: resources::EXPORT_DESCRIPTION.to_owned(),
            parameters: resources::parameters_schema(),
            permissions: call_permissions(&definition.way, hints),
            ..ExportSpec::default()
        },
        hints,
        kind: CatalogToolKind::Resources,
    }
}

impl ToolHints {
    /// Copies the hints of the server. They are untrusted.
    fn from_annotations(annotations: &ToolAnnotations) -> ToolHints {
        ToolHints {
            read_only: annotations.read_only_hint,
            destructive: annotations.destructive_hint,
            idempotent: annotations.idempotent_hint,
            open_world: annotations.open_world_hint,
        }
    }
}

/// Returns the permissions of a call: network access, because results may come from any source, and
/// program execution for a local server. A destructive tool also needs write access.
fn call_permissions(way: &ServerTransport, hints: ToolHints) -> BTreeSet<Permission> {
    let mut permissions = BTreeSet::from([Permission::Network]);
    if matches!(way, ServerTransport::Program { .. }) {
        permissions.insert(Permission::Execute);
    }
    if hints.destructive == Some(true) && hints.read_only != Some(true) {
        permissions.insert(Permission::Write);
    }
    permissions
}

/// Returns a schema of type object without the `format` values that policies interpret. An
/// untrusted server must not set those.
fn sanitize_schema(schema: &JsonObject) -> Result<JsonObject, String> {
    let size = serde_json::to_vec(schema)
        .map(|text| text.len())
        .unwrap_or(usize::MAX);
    if size > MAX_SCHEMA_BYTES {
        return Err(format!(
            "the schema of its arguments has {size} bytes, more than {MAX_SCHEMA_BYTES}"
        ));
    }
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its arguments are not an object".to_owned()),
    }
    let mut parameters = schema.clone();
    parameters.insert("type".to_owned(), Value::from("object"));
    let mut value = Value::Object(parameters);
    clean_schema(&mut value, 0)?;
    match value {
        Value::Object(parameters) => Ok(parameters),
        _ => Err("its arguments are not an object".to_owned()),
    }
}

/// Escapes invisible characters in the texts of a schema, and removes formats that only gdn
/// defines. Fails if the schema is nested too deeply.
fn clean_schema(value: &mut Value, depth: usize) -> Result<(), String> {
    if depth > MAX_SCHEMA_DEPTH {
        return Err(format!(
            "the schema of its arguments is more than {MAX_SCHEMA_DEPTH} levels deep"
        ));
    }
    match value {
        Value::Object(fields) => {
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(is_gdn_format)
            {
                fields.shift_remove("format");
            }
            for (key, value) in fields.iter_mut() {
                match value {
                    Value::String(text)
                        if matches!(key.as_str(), "description" | "title" | "$comment") =>
                    {
                        *text = clean_untrusted_text(text, MAX_DESCRIPTION_CHARS);
                    }
                    other => clean_schema(other, depth + 1)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| clean_schema(item, depth + 1)),
        _ => Ok(()),
    }
}

/// Escapes invisible characters of untrusted text, and cuts the text after `max_chars` characters.
pub(crate) fn clean_untrusted_text(text: &str, max_chars: usize) -> String {
    let text = TextEscaper::new(KeptCharacters::Writing)
        .escape(text.trim())
        .into_owned();
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Shortens a name for a message.
pub(crate) fn shortened_name(name: &str) -> String {
    line(name.chars().take(MAX_SHOWN_CHARS).collect::<String>()).to_string()
}
