//! `kind: Connector`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Scope;
use crate::decode::Field;
use crate::entry;
use crate::findings::Findings;

/// A source of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    /// A path in the bundle.
    pub entry: String,
    /// At least one.
    pub events: Vec<ConnectorEvent>,
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

const TYPES: [(&str, PropertyType); 3] =
    [("string", PropertyType::String), ("number", PropertyType::Number), ("boolean", PropertyType::Boolean)];

pub(crate) fn decode(spec: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Connector> {
    let mut fields = spec.fields(findings)?;
    let entry = fields.required("entry", findings).and_then(|field| entry::module(&field, &[], scope.folder, findings));
    let events = fields.required("events", findings).and_then(|field| read_events(&field, findings));
    fields.finish(findings);
    Some(Connector { entry: entry?, events: events? })
}

fn read_events(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<ConnectorEvent>> {
    let mut events: Vec<ConnectorEvent> = Vec::new();
    for item in field.filled_list("event", findings)? {
        let Some(mut fields) = item.fields(findings) else { continue };
        let name_field = fields.required("name", findings);
        let name = name_field.as_ref().and_then(|field| field.text(findings));
        let properties = fields.optional("properties").and_then(|field| read_properties(&field, findings));
        fields.finish(findings);
        let (Some(name), Some(name_field)) = (name, name_field) else { continue };
        if events.iter().any(|event| event.name == name) {
            findings.add(name_field.invalid(format!("The event `{name}` is declared twice.")));
            continue;
        }
        events.push(ConnectorEvent { name: name.to_owned(), properties: properties.unwrap_or_default() });
    }
    Some(events)
}

fn read_properties(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeMap<String, (PropertyType, bool)>> {
    let mut properties = BTreeMap::new();
    for entry in field.entries(findings)? {
        let Some(mut fields) = entry.fields(findings) else { continue };
        let kind = fields.required("type", findings).and_then(|field| field.one_of(&TYPES, findings));
        let optional = fields.optional("optional").and_then(|field| field.boolean(findings));
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
    /// The path of the connector's program in the project. Connectors are checked, and not run yet.
    #[schemars(length(min = 1))]
    entry: String,
    /// The events that the connector may send.
    #[schemars(length(min = 1))]
    events: Vec<EventShape>,
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
