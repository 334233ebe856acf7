//! `kind: Connector`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Scope;
use super::build::{self, Build, BuildShape};
use super::module::{Module, Runtime};
use crate::decode::Field;
use crate::entry::{self, BUILTIN};
use crate::findings::Findings;
use crate::text::alternatives;

/// A source of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    /// Where its code is.
    pub entry: ConnectorEntry,
    /// At least one.
    pub events: Vec<ConnectorEvent>,
    /// A file that sends answers.
    pub answers: bool,
    /// How the entry is made, where it is.
    pub build: Option<Build>,
}

/// Where the code of a connector is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectorEntry {
    /// A connector of this program.
    Builtin(String),
    /// A file in JavaScript, TypeScript or Python.
    Module(Box<Module>),
    /// A dynamic library, relative to the bundle.
    Library(String),
}

impl Connector {
    pub(crate) fn of_base(manifest: &ConnectorManifest) -> Self {
        Connector {
            entry: ConnectorEntry::Builtin(manifest.name.clone()),
            events: manifest.events.clone(),
            answers: false,
            build: None,
        }
    }

    /// The name of the connector of this program that it is; `None` for a file.
    pub fn builtin(&self) -> Option<&str> {
        match &self.entry {
            ConnectorEntry::Builtin(name) => Some(name),
            ConnectorEntry::Module(_) | ConnectorEntry::Library(_) => None,
        }
    }
}

/// A built-in connector, as the program that runs it describes it.
#[derive(Debug, Clone, Default)]
pub struct ConnectorManifest {
    /// The name behind `builtin:`.
    pub name: String,
    /// What it emits.
    pub events: Vec<ConnectorEvent>,
    /// The sender says which event it is: a Connector of one's own may name others.
    pub takes_any_event: bool,
    /// What `config` of a Connection may hold.
    pub config: Vec<Setting>,
    /// What `secrets` of a Connection may hold.
    pub secrets: Vec<Setting>,
    /// Whether it can send answers back.
    pub answers: bool,
    /// Whether it can change a message that it has sent.
    pub streams: bool,
    /// Whether it can ask somebody in the channel, and knows who answers.
    pub asks: bool,
    /// Whether its events say who has sent them.
    pub knows_senders: bool,
    /// The built-in tool by which an agent can answer itself.
    pub tool: Option<&'static str>,
}

/// A value that a Connection gives its connector.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// Other keys that mean the same.
    pub also: &'static [&'static str],
    /// The variable that customarily holds it, where the Connection does not say where it is.
    pub variable: Option<&'static str>,
    /// Another value that takes its place.
    pub unless: Option<&'static str>,
    /// When it has to be there.
    pub need: Need,
    /// What is wrong with a value, as the end of a sentence: `must be …`.
    pub check: fn(&str) -> Result<(), String>,
}

impl Setting {
    /// A value of that key.
    pub fn new(name: &'static str, need: Need, check: fn(&str) -> Result<(), String>) -> Self {
        Setting {
            name,
            also: &[],
            variable: None,
            unless: None,
            need,
            check,
        }
    }

    /// As it is, under these other keys, too.
    #[must_use]
    pub fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    /// As it is, customarily held by that variable.
    #[must_use]
    pub fn customarily(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// As it is, needed only where `other` is not there.
    #[must_use]
    pub fn unless(mut self, other: &'static str) -> Self {
        self.unless = Some(other);
        self
    }

    /// Whether `key` means it.
    pub fn is_called(&self, key: &str) -> bool {
        self.name == key || self.also.contains(&key)
    }
}

/// When a value has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Never: there is a default.
    Never,
    /// Always.
    Always,
    /// Where answers are sent back.
    ForReplies,
}

/// An event that a connector may emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorEvent {
    /// Unique in its connector.
    pub name: String,
    /// Each with its type and whether it may be absent.
    pub properties: BTreeMap<String, (PropertyType, bool)>,
}

/// The type of an event's property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum PropertyType {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
}

const TYPES: [(&str, PropertyType); 3] = [
    ("string", PropertyType::String),
    ("number", PropertyType::Number),
    ("boolean", PropertyType::Boolean),
];

pub(crate) fn decode(
    spec: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Connector> {
    let mut fields = spec.fields(findings)?;
    let names: Vec<&str> = scope
        .base
        .connectors
        .iter()
        .map(|connector| connector.name.as_str())
        .collect();
    let entry_field = fields.required("entry", findings);
    entry_field
        .iter()
        .for_each(|field| findings.note_place(field));
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
        // What is wrong with the entry was told.
        None => Some(()),
        Some(ConnectorEntry::Module(module)) => Runtime::lay_over(runtime, Some(module), findings),
        Some(_) => Runtime::lay_over(runtime, None, findings),
    };
    let events_field = fields.required("events", findings);
    let events = events_field
        .as_ref()
        .and_then(|field| read_events(field, findings));
    let answers_field = fields.optional("answers");
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
            "`{}` is for files: `{BUILTIN}{name}` knows by itself whether it answers.",
            field.path
        );
        findings.add(field.invalid(message).suggest("remove it"));
    }
    if let (Some(manifest), Some(field)) = (scope.base.connector(&connector), &events_field) {
        check_events(manifest, &connector.events, field, findings);
    }
    Some(connector)
}

/// An event that a built-in connector never emits would be waited for in vain.
fn check_events(
    manifest: &ConnectorManifest,
    events: &[ConnectorEvent],
    field: &Field<'_>,
    findings: &mut Findings,
) {
    if manifest.takes_any_event {
        return;
    }
    let known: Vec<&str> = manifest
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    for event in events
        .iter()
        .filter(|event| !known.contains(&event.name.as_str()))
    {
        let message = format!(
            "`{BUILTIN}{}` has no event `{}`.",
            manifest.name, event.name
        );
        findings.add(
            field
                .invalid(message)
                .suggest(format!("use {}", alternatives(&known))),
        );
    }
}

fn read_events(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<ConnectorEvent>> {
    let mut events: Vec<ConnectorEvent> = Vec::new();
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
            findings.add(name_field.invalid(format!("The event `{name}` is declared twice.")));
            continue;
        }
        events.push(ConnectorEvent {
            name: name.to_owned(),
            properties: properties.unwrap_or_default(),
        });
    }
    Some(events)
}

fn read_properties(
    field: &Field<'_>,
    findings: &mut Findings,
) -> Option<BTreeMap<String, (PropertyType, bool)>> {
    let mut properties = BTreeMap::new();
    for entry in field.entries(findings)? {
        let Some(mut fields) = entry.fields(findings) else {
            continue;
        };
        let kind = fields
            .required("type", findings)
            .and_then(|field| field.one_of(&TYPES, findings));
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

/// A source of events from outside.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Connector")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ConnectorSpec {
    /// A connector of this program, such as `builtin:webhook`; or the path of a file in JavaScript, TypeScript or Python, or of a
    /// dynamic library, whose function runs as long as the connection does. The prefix and suffix of a library may be left out.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: String,
    /// What runs an entry in JavaScript, TypeScript or Python. By default it is found as for a Tool.
    runtime: Option<Runtime>,
    /// The events that the connector may send.
    #[schemars(length(min = 1))]
    events: Vec<EventShape>,
    /// Whether a file sends answers: its function calls `ctx.onReply`, and its events have an `origin`.
    #[serde(default)]
    answers: bool,
    /// How `gdn build`, `gdn run --build` and `gdn run --watch` make the entry: a command, or a map with more settings.
    build: Option<BuildShape>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectorEvent")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct EventShape {
    /// The name of the event, unique in its connector.
    #[schemars(length(min = 1))]
    name: String,
    /// The properties that the event carries, by name.
    properties: Option<BTreeMap<String, PropertyShape>>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectorEventProperty")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct PropertyShape {
    /// The type of the property.
    r#type: PropertyType,
    /// Whether the property may be absent.
    #[serde(default)]
    optional: bool,
}
