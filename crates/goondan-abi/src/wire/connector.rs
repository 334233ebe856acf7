//! Messages of connectors: their connection, their events and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;

/// The data of the connection that a connector receives at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConnectorStart {
    /// The directory of the project.
    pub project_dir: String,
    /// The name of the Connection.
    pub connection: String,
    /// The name of the Connector.
    pub connector: String,
    /// The settings of the Connection.
    pub config: BTreeMap<String, String>,
    /// The secrets of the Connection.
    pub secrets: BTreeMap<String, String>,
}

/// An event that a connector submits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorEvent {
    /// The name of the event.
    pub name: String,
    /// The input for the agent: a string, or `{type: "text", text}`, `{type: "image", url}` or
    /// `{type: "file", url, name}`.
    pub message: Value,
    /// A deduplication id: equal ids start only one turn. Without an id, each event is new.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The conversation, unless a rule sets another one. Default: the Connection's name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// Properties for the rules.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub properties: JsonObject,
    /// The destination of an answer, in a format of the connector. Without it, no answer is sent.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub origin: Value,
    /// The sender: an id, or `{id, name}`.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub sender: Value,
    /// The channel of the event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<String>,
}

/// An answer that a connector must send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectorReply {
    /// The origin of the answered event.
    pub origin: Value,
    /// The text of the answer.
    pub text: String,
}

impl ConnectorEvent {
    /// Creates an event with that name. `message` is the input for the agent, such as a string.
    pub fn new(name: impl Into<String>, message: impl Into<Value>) -> Self {
        ConnectorEvent {
            name: name.into(),
            message: message.into(),
            ..ConnectorEvent::default()
        }
    }

    /// Sets the deduplication id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the conversation.
    #[must_use]
    pub fn instance_key(mut self, key: impl Into<String>) -> Self {
        self.instance_key = Some(key.into());
        self
    }

    /// Adds a property for the rules: a string, a number or a boolean.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Sets the destination of an answer: any JSON of at most 4,096 bytes.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<Value>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Sets the sender: an id, or `{id, name}`.
    #[must_use]
    pub fn sender(mut self, sender: impl Into<Value>) -> Self {
        self.sender = sender.into();
        self
    }

    /// Sets the channel of the event.
    #[must_use]
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }
}
