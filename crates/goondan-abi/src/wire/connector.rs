//! A connector: what it is told, what it hands in, and what it is to send.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;

/// What a connector is told of its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// The name of the Connection.
    pub connection: String,
    /// The name of the Connector.
    pub connector: String,
    /// The settings of the Connection.
    pub config: BTreeMap<String, String>,
    /// Its secrets, and no others.
    pub secrets: BTreeMap<String, String>,
}

/// An event, as a connector hands it in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorEvent {
    /// Which event it is.
    pub name: String,
    /// What the agent reads: a text, or `{type: "text", text}`, `{type: "image", url}` or `{type: "file", url, name}`.
    pub message: Value,
    /// The same id starts one turn. Without it, each event is a new one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The conversation, where no rule says otherwise; the Connection's name without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// Facts for the rules.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub properties: JsonObject,
    /// Where an answer goes, in the connector's own words. Without it there is no answer.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub origin: Value,
    /// Who has sent it: an id, or `{id, name}`.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub sender: Value,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<String>,
}

/// An answer that a connector is to send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectorReply {
    /// The origin of the event that it answers.
    pub origin: Value,
    /// What was said.
    pub text: String,
}

impl ConnectorEvent {
    /// An event of that name. `message` is what the agent reads, such as a text.
    pub fn new(name: impl Into<String>, message: impl Into<Value>) -> Self {
        ConnectorEvent {
            name: name.into(),
            message: message.into(),
            ..ConnectorEvent::default()
        }
    }

    /// Adds the id by which it is known again.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds the conversation.
    #[must_use]
    pub fn instance_key(mut self, key: impl Into<String>) -> Self {
        self.instance_key = Some(key.into());
        self
    }

    /// Adds a fact for the rules: a text, a number or a boolean.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Adds where an answer goes: any JSON of at most 4,096 bytes.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<Value>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Adds who has sent it: an id, or `{id, name}`.
    #[must_use]
    pub fn sender(mut self, sender: impl Into<Value>) -> Self {
        self.sender = sender.into();
        self
    }

    /// Adds where it was sent.
    #[must_use]
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }
}
