//! `kind: Connector`: reads and checks the spec of a connector.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::ResourceScope;
use super::build::{self, BuildShape};
use super::connector_manifest::{
    ConnectorManifest, EventDeclaration, PROPERTY_TYPES, PropertyType,
};
use super::script_language::ScriptRuntime;
use super::script_module::ScriptModule;
use super::tool_build::BuildSettings;
use crate::base_package::BasePackage;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::entry::{self, BUILTIN_PREFIX};
use crate::text::format_alternatives;

/// Source of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    /// Location of the code.
    pub entry: ConnectorEntry,
    /// Events that it emits, at least one.
    pub events: Vec<EventDeclaration>,
    /// `true` if a file entry sends answers.
    pub answers: bool,
    /// Build settings of the entry.
    pub build: Option<BuildSettings>,
}

/// Location of a connector's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectorEntry {
    /// Built-in connector.
    Builtin(String),
    /// File in JavaScript, TypeScript or Python.
    Module(Box<ScriptModule>),
    /// Dynamic library, relative to the bundle.
    Library(String),
}

impl Connector {
    /// Creates the Connector of a built-in connector.
    pub(crate) fn from_manifest(manifest: &ConnectorManifest) -> Self {
        Connector {
            entry: ConnectorEntry::Builtin(manifest.name.clone()),
            events: manifest.events.clone(),
            answers: false,
            build: None,
        }
    }

    /// Returns the name of the built-in connector, or `None` for a file.
    pub fn builtin(&self) -> Option<&str> {
        match &self.entry {
            ConnectorEntry::Builtin(name) => Some(name),
            ConnectorEntry::Module(_) | ConnectorEntry::Library(_) => None,
        }
    }
}

/// Decodes the spec of a Connector; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Connector> {
    let mut fields = spec.fields(findings)?;
    let names: Vec<&str> = scope
        .base
        .connectors
        .iter()
        .map(|connector| connector.name.as_str())
        .collect();
    let entry_field = fields.required("entry", findings);
    if let Some(field) = entry_field.as_ref() {
        findings.record_position(field);
    }
    let build = build::read(
        fields.optional("build").as_ref(),
        entry_field.as_ref(),
        scope,
        findings,
    );
    let mut entry =
        entry_field.and_then(|field| entry::connector(&field, &names, scope.folder, findings));
    let runtime = fields.optional("runtime");
    let runtime = match &mut entry {
        // Errors in the entry are already reported.
        None => Some(()),
        Some(ConnectorEntry::Module(module)) => {
            ScriptRuntime::apply_field(runtime, Some(module), findings)
        }
        Some(_) => ScriptRuntime::apply_field(runtime, None, findings),
    };
    let events_field = fields.required("events", findings);
    let events = events_field
        .as_ref()
        .and_then(|field| read_events(field, findings));
    let answers_field = fields.optional("replies");
    let answers = answers_field
        .as_ref()
        .map_or(Some(false), |field| field.boolean(findings));
    fields.finish(findings);
    runtime?;
    let connector = Connector {
        entry: entry?,
        events: events?,
        answers: answers?,
        build: build?,
    };
    if let (Some(field), Some(name)) = (&answers_field, connector.builtin()) {
        let message = format!(
            "`{}` is only for entries that are files, not for `{BUILTIN_PREFIX}{name}`.",
            field.path
        );
        findings.add(field.invalid_value(message).suggest("remove it"));
    }
    if let (Some(manifest), Some(field)) = (scope.base.connector(&connector), &events_field) {
        check_events(manifest, &connector.events, field, findings);
    }
    Some(connector)
}

/// Reports declared events that the built-in connector never emits.
fn check_events(
    manifest: &ConnectorManifest,
    events: &[EventDeclaration],
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) {
    if manifest.takes_any_event {
        return;
    }
    let emitted: Vec<&str> = manifest
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    for event in events
        .iter()
        .filter(|event| !emitted.contains(&event.name.as_str()))
    {
        let message = format!(
            "`{BUILTIN_PREFIX}{}` has no event `{}`.",
            manifest.name, event.name
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest(format!("use {}", format_alternatives(&emitted))),
        );
    }
}

/// Reads the declared events.
fn read_events(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<EventDeclaration>> {
    let mut events: Vec<EventDeclaration> = Vec::new();
    for item in field.filled_list("event", findings)? {
        let Some(mut fields) = item.fields(findings) else {
            continue;
        };
        let name_field = fields.required("name", findings);
        let name = name_field.as_ref().and_then(|field| field.text(findings));
        let properties = fields
            .optional("properties")
            .and_then(|field| read_properties(&field, findings));
        fields.finish(findings);
        let (Some(name), Some(name_field)) = (name, name_field) else {
            continue;
        };
        if events.iter().any(|event| event.name == name) {
            findings
                .add(name_field.invalid_value(format!("The event `{name}` is declared twice.")));
            continue;
        }
        events.push(EventDeclaration {
            name: name.to_owned(),
            properties: properties.unwrap_or_default(),
        });
    }
    Some(events)
}

/// Reads the declared properties of an event: the type, and whether it is required.
fn read_properties(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeMap<String, (PropertyType, bool)>> {
    let mut properties = BTreeMap::new();
    for entry in field.entries(findings)? {
        let Some(mut fields) = entry.fields(findings) else {
            continue;
        };
        let kind = fields
            .required("type", findings)
            .and_then(|field| field.one_of(&PROPERTY_TYPES, findings));
        let optional = fields
            .optional("optional")
            .and_then(|field| field.boolean(findings));
        fields.finish(findings);
        if let Some(kind) = kind {
            properties.insert(entry.key.to_owned(), (kind, optional.unwrap_or(false)));
        }
    }
    Some(properties)
}

/// A source of external events.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Connector")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ConnectorSpec {
    /// A built-in connector, such as `builtin:webhook`, or the path of a file. The file is written
    /// in JavaScript, TypeScript or Python, or is a dynamic library. Its function runs as long as
    /// the connection. The prefix and suffix of a library may be omitted.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: String,
    /// The runtime of an entry in JavaScript, TypeScript or Python. By default, it is chosen as for
    /// a Tool.
    runtime: Option<ScriptRuntime>,
    /// The events that the connector may send.
    #[schemars(length(min = 1))]
    events: Vec<ConnectorEventShape>,
    /// Declares that a file sends answers: its function calls `ctx.onReply`, and its events have an
    /// `origin`.
    #[serde(default)]
    answers: bool,
    /// The command that builds the entry for `gdn build`, `gdn run --build` and `gdn run --watch`,
    /// or a map with more settings.
    build: Option<BuildShape>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectorEvent")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ConnectorEventShape {
    /// The name of the event, unique in its connector.
    #[schemars(length(min = 1))]
    name: String,
    /// The properties that the event carries, by name.
    properties: Option<BTreeMap<String, EventPropertyShape>>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectorEventProperty")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct EventPropertyShape {
    /// The type of the property.
    r#type: PropertyType,
    /// Declares that the property may be absent.
    #[serde(default)]
    optional: bool,
}

impl BasePackage {
    /// Returns the manifest of `connector` if it is built in.
    pub fn connector(&self, connector: &Connector) -> Option<&ConnectorManifest> {
        let name = connector.builtin()?;
        self.connectors
            .iter()
            .find(|manifest| manifest.name == name)
    }
}
