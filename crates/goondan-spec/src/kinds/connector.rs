//! `kind: Connector`.

use std::collections::BTreeMap;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyType {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
}
