//! What `request` carries about other agents. All names are those of the tool API: request, send, spawn, list, catalog.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;

/// The names that `request` knows.
pub mod operation {
    /// Asks an agent and waits ([`super::AgentRequest`] → [`super::RequestResult`]).
    pub const REQUEST: &str = "runtime.request";
    /// Tells an agent something ([`super::SendRequest`] → [`super::SendResult`]).
    pub const SEND: &str = "runtime.send";
    /// Prepares an instance ([`super::SpawnRequest`] → [`super::SpawnResult`]).
    pub const SPAWN: &str = "runtime.spawn";
    /// Lists instances ([`super::ListRequest`] → [`super::AgentList`]).
    pub const LIST: &str = "runtime.list";
    /// Lists agents (an empty object → [`super::AgentCatalog`]).
    pub const CATALOG: &str = "runtime.catalog";
    /// All of them that a tool may ask for.
    pub const ALL: [&str; 5] = [REQUEST, SEND, SPAWN, LIST, CATALOG];
    /// Runs what a layer wraps ([`super::super::NextRequest`] → [`super::super::Wrapped`]).
    pub const LAYER_NEXT: &str = "layer.next";
    /// Asks an agent on behalf of a layer and waits ([`super::AgentRequest`] → `{target, response, accepted}`).
    pub const LAYER_REQUEST: &str = "layer.request";
    /// Tells an agent something on behalf of a layer ([`super::SendRequest`] → `{accepted}`).
    pub const LAYER_SEND: &str = "layer.send";
    /// All of them that a layer may ask for.
    pub const OF_LAYERS: [&str; 3] = [LAYER_NEXT, LAYER_REQUEST, LAYER_SEND];
    /// Hands an event in ([`super::super::ConnectorEvent`] → null, once it is on disk).
    pub const CONNECTOR_EMIT: &str = "connector.emit";
    /// Waits for the next answer to send (an empty object → `{reply}`: `{number, origin, text}`, or null where there will be
    /// none).
    pub const CONNECTOR_REPLY: &str = "connector.reply";
    /// Says what has become of an answer (`{number, error}`, where an error says why it was not sent → null).
    pub const CONNECTOR_REPLIED: &str = "connector.replied";
    /// Waits for the next line that somebody types (an empty object → `{line}`, null where there are no more).
    pub const CONNECTOR_LINE: &str = "connector.line";
    /// All of them that a connector may ask for.
    pub const OF_CONNECTORS: [&str; 4] = [
        CONNECTOR_EMIT,
        CONNECTOR_REPLY,
        CONNECTOR_REPLIED,
        CONNECTOR_LINE,
    ];
}

/// A question to another agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequest {
    /// The agent.
    pub target: String,
    /// The text.
    pub input: String,
    /// The target's conversation; the caller's key by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// The type of the event, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_type: Option<String>,
    /// Free data that travels along.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// How long to wait, in milliseconds; 60,000 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_ms: Option<u64>,
    /// Return at once; the answer comes before a later step of the caller.
    #[serde(rename = "async", default)]
    pub asynchronous: bool,
}

/// A message to another agent that wants no answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The agent.
    pub target: String,
    /// The text.
    pub input: String,
    /// The target's conversation; the caller's key by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// The type of the event, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_type: Option<String>,
    /// Free data that travels along.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
}

/// An instance that should be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnRequest {
    /// The agent.
    pub target: String,
    /// Its key; made up by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// Where its tools work.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// Which instances to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListRequest {
    /// All of the swarm, not the caller's own alone.
    #[serde(default)]
    pub include_all: bool,
}

/// What a request brings back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestResult {
    /// The id of the answer's event, or for an asynchronous request the request's own.
    pub event_id: String,
    /// The agent that was asked.
    pub target: String,
    /// Its answer; absent for an asynchronous request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<Value>,
    /// Ties question and answer together.
    pub correlation_id: String,
    /// The question is on disk.
    #[serde(default)]
    pub accepted: bool,
    /// The answer comes later.
    #[serde(rename = "async", default)]
    pub asynchronous: bool,
}

/// What a send brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    /// The id of the event.
    pub event_id: String,
    /// The agent that was told.
    pub target: String,
    /// It is on disk.
    pub accepted: bool,
}

/// What a spawn brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnResult {
    /// The agent.
    pub target: String,
    /// The instance's key.
    pub instance_key: String,
    /// False where the instance was there already.
    pub spawned: bool,
    /// Where its tools work, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// What a list brings back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentList {
    /// In the order in which they were made.
    pub agents: Vec<SpawnedAgentInfo>,
}

/// An instance as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnedAgentInfo {
    /// The agent.
    pub target: String,
    /// The instance's key.
    pub instance_key: String,
    /// Who spawned it; empty for one that an input from outside made.
    pub owner_agent: String,
    /// In which conversation.
    pub owner_instance_key: String,
    /// ISO 8601.
    pub created_at: String,
    /// Where its tools work, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// The agents of a swarm, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCatalog {
    /// The Swarm resource.
    pub swarm_name: String,
    /// Who gets inputs that name nobody.
    pub entry_agent: String,
    /// The caller.
    pub self_agent: String,
    /// All agents.
    pub available_agents: Vec<String>,
    /// All but the caller.
    pub callable_agents: Vec<String>,
}

impl AgentRequest {
    /// Asks `target` with `input`, in the conversation of the caller's key.
    pub fn new(target: impl Into<String>, input: impl Into<String>) -> Self {
        AgentRequest {
            target: target.into(),
            input: input.into(),
            ..AgentRequest::default()
        }
    }
}

impl SendRequest {
    /// Tells `target` `input`, in the conversation of the caller's key.
    pub fn new(target: impl Into<String>, input: impl Into<String>) -> Self {
        SendRequest {
            target: target.into(),
            input: input.into(),
            ..SendRequest::default()
        }
    }
}

impl SpawnRequest {
    /// Prepares an instance of `target` under a key that is made up.
    pub fn new(target: impl Into<String>) -> Self {
        SpawnRequest {
            target: target.into(),
            ..SpawnRequest::default()
        }
    }
}
