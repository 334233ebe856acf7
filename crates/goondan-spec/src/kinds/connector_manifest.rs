//! Manifest of a built-in connector: its events and settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// Description of a built-in connector by the program that runs it.
#[derive(Debug, Clone, Default)]
pub struct ConnectorManifest {
    /// Name after the `builtin:` prefix.
    pub name: String,
    /// Events that it emits.
    pub events: Vec<EventDeclaration>,
    /// The sender chooses the event name, so a Connector may declare further events.
    pub takes_any_event: bool,
    /// Accepted keys of `config` in a Connection.
    pub config: Vec<ConnectorSetting>,
    /// Accepted keys of `secrets` in a Connection.
    pub secrets: Vec<ConnectorSetting>,
    /// `true` if it can send answers back.
    pub answers: bool,
    /// `true` if it can edit a message after sending it.
    pub streams: bool,
    /// `true` if it can send approval requests to the channel and identify the user who answers.
    pub asks: bool,
    /// `true` if its events identify their sender.
    pub knows_senders: bool,
    /// Built-in tool with which an agent can answer by itself.
    pub tool: Option<&'static str>,
}

/// Setting or secret that a Connection passes to its connector.
#[derive(Debug, Clone)]
pub struct ConnectorSetting {
    /// Key in `config` or `secrets`.
    pub name: &'static str,
    /// Aliases of the key.
    pub also: &'static [&'static str],
    /// Conventional environment variable, used if the Connection states no source.
    pub variable: Option<&'static str>,
    /// Key of another setting that replaces this one.
    pub unless: Option<&'static str>,
    /// Condition under which a value is required.
    pub need: SettingRequirement,
    /// Checks a value. The error completes a sentence: `must be …`.
    pub check: fn(&str) -> Result<(), String>,
}

impl ConnectorSetting {
    /// Returns a setting without aliases, variable or replacement.
    pub fn new(
        name: &'static str,
        need: SettingRequirement,
        check: fn(&str) -> Result<(), String>,
    ) -> Self {
        ConnectorSetting {
            name,
            also: &[],
            variable: None,
            unless: None,
            need,
            check,
        }
    }

    /// Adds aliases of the key.
    #[must_use]
    pub fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    /// Sets the conventional environment variable.
    #[must_use]
    pub fn with_variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// Makes the setting unnecessary if `other` is present.
    #[must_use]
    pub fn unless(mut self, other: &'static str) -> Self {
        self.unless = Some(other);
        self
    }

    /// Returns true if `key` is the name or an alias.
    pub fn matches_key(&self, key: &str) -> bool {
        self.name == key || self.also.contains(&key)
    }
}

/// Condition under which a setting is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingRequirement {
    /// Never: there is a default.
    Never,
    /// Always.
    Always,
    /// If answers are sent back.
    ForReplies,
}

/// Event that a connector may emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDeclaration {
    /// Name, unique in its connector.
    pub name: String,
    /// Property types by name. The flag marks an optional property.
    pub properties: BTreeMap<String, (PropertyType, bool)>,
}

/// The type of an event property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum PropertyType {
    /// A string.
    String,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
}

pub(super) const PROPERTY_TYPES: [(&str, PropertyType); 3] = [
    ("string", PropertyType::String),
    ("number", PropertyType::Number),
    ("boolean", PropertyType::Boolean),
];
