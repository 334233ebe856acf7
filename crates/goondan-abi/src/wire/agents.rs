//! Payloads of `request` for other agents. The names are those of the tool API: request, send,
//! spawn, list, catalog.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;

/// The operation names of `request`.
pub mod operation {
    /// Sends a request to an agent and waits ([`super::AgentRequest`] → [`super::AgentRequestResult`]).
    pub const REQUEST: &str = "runtime.request";
    /// Sends a message to an agent ([`super::SendRequest`] → [`super::AgentSendResult`]).
    pub const SEND: &str = "runtime.send";
    /// Creates an instance ([`super::SpawnRequest`] → [`super::AgentSpawnResult`]).
    pub const SPAWN: &str = "runtime.spawn";
    /// Lists instances ([`super::ListRequest`] → [`super::AgentList`]).
    pub const LIST: &str = "runtime.list";
    /// Lists agents (an empty object → [`super::AgentCatalog`]).
    pub const CATALOG: &str = "runtime.catalog";
    /// All operations that a tool may request.
    pub const ALL: [&str; 5] = [REQUEST, SEND, SPAWN, LIST, CATALOG];
    /// Runs the operation that a layer wraps ([`super::super::NextRequest`] →
    /// [`super::super::NextResult`]).
    pub const LAYER_NEXT: &str = "layer.next";
    /// Sends a request to an agent for a layer and waits ([`super::AgentRequest`] → `{target,
    /// response, accepted}`).
    pub const LAYER_REQUEST: &str = "layer.request";
    /// Sends a message to an agent for a layer ([`super::SendRequest`] → `{accepted}`).
    pub const LAYER_SEND: &str = "layer.send";
    /// All operations that a layer may request.
    pub const OF_LAYERS: [&str; 3] = [LAYER_NEXT, LAYER_REQUEST, LAYER_SEND];
    /// Submits an event ([`super::super::ConnectorEvent`] → null, once it is durable).
    pub const CONNECTOR_EMIT: &str = "connector.emit";
    /// Waits for the next answer to send (an empty object → `{reply}`: `{number, origin, text}`, or
    /// null at the end).
    pub const CONNECTOR_REPLY: &str = "connector.reply";
    /// Reports the result of sending an answer (`{number, error}` → null). `error` is the reason if
    /// it was not sent.
    pub const CONNECTOR_REPLIED: &str = "connector.replied";
    /// Waits for the next typed line (an empty object → `{line}`, null at the end of the input).
    pub const CONNECTOR_LINE: &str = "connector.line";
    /// All operations that a connector may request.
    pub const OF_CONNECTORS: [&str; 4] = [
        CONNECTOR_EMIT,
        CONNECTOR_REPLY,
        CONNECTOR_REPLIED,
        CONNECTOR_LINE,
    ];
}

/// A request to another agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequest {
    /// The name of the agent that receives the input.
    pub target: String,
    /// The input text.
    #[serde(default)]
    pub input: String,
    /// The key of the target's conversation. Default: the caller's key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// The type of the event, if it is not the default one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_type: Option<String>,
    /// Arbitrary data that accompanies the input.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Maximum time to wait in milliseconds. Default: 60,000.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_ms: Option<u64>,
    /// If true, returns immediately; a later step of the caller receives the answer.
    #[serde(rename = "async", default)]
    pub asynchronous: bool,
}

/// A message to another agent without an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The name of the agent that receives the input.
    pub target: String,
    /// The input text.
    #[serde(default)]
    pub input: String,
    /// The key of the target's conversation. Default: the caller's key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// The type of the event, if it is not the default one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_type: Option<String>,
    /// Arbitrary data that accompanies the input.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
}

/// A request to create an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnRequest {
    /// The name of the agent to spawn.
    pub target: String,
    /// The conversation key of the new instance. Default: a generated key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_key: Option<String>,
    /// The working directory of the new instance's tools.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// A request to list instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListRequest {
    /// If true, lists all instances of the swarm, and not only the caller's.
    #[serde(default)]
    pub include_all: bool,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequestResult {
    /// The id of the answer's event, or of the request's event if it is asynchronous.
    pub event_id: String,
    /// The name of the agent that received the request.
    pub target: String,
    /// The answer; absent for an asynchronous request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<Value>,
    /// Identifies the request and its answer.
    pub correlation_id: String,
    /// True if the request is durable.
    #[serde(default)]
    pub accepted: bool,
    /// True if the answer arrives later.
    #[serde(rename = "async", default)]
    pub asynchronous: bool,
}

/// The result of a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSendResult {
    /// The id of the event.
    pub event_id: String,
    /// The name of the agent that receives the message.
    pub target: String,
    /// True if the message is durable.
    pub accepted: bool,
}

/// The result of a spawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpawnResult {
    /// The name of the spawned agent.
    pub target: String,
    /// The conversation key of the spawned instance.
    pub instance_key: String,
    /// False if the instance already existed.
    pub spawned: bool,
    /// The working directory of the instance's tools, if it was set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// The result of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentList {
    /// The instances in creation order.
    pub agents: Vec<SpawnedAgentInfo>,
}

/// Public facts about an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnedAgentInfo {
    /// The name of the instance's agent.
    pub target: String,
    /// The conversation key of the instance.
    pub instance_key: String,
    /// The agent that spawned the instance; empty if an external input created it.
    pub owner_agent: String,
    /// The key of the conversation that spawned the instance.
    pub owner_instance_key: String,
    /// Creation time in ISO 8601.
    pub created_at: String,
    /// The working directory of the instance's tools, if it was set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// The agents of a swarm, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCatalog {
    /// The name of the Swarm resource.
    pub swarm_name: String,
    /// The agent that gets inputs without a target.
    pub entry_agent: String,
    /// The calling agent.
    pub self_agent: String,
    /// All agents.
    pub available_agents: Vec<String>,
    /// All agents except the caller.
    pub callable_agents: Vec<String>,
    /// Purposes of the agents that state one, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub descriptions: BTreeMap<String, String>,
}

impl AgentRequest {
    /// Creates a request to `target` in the conversation with the caller's key.
    pub fn new(target: impl Into<String>, input: impl Into<String>) -> Self {
        AgentRequest {
            target: target.into(),
            input: input.into(),
            ..AgentRequest::default()
        }
    }
}

impl SendRequest {
    /// Creates a message to `target` in the conversation with the caller's key.
    pub fn new(target: impl Into<String>, input: impl Into<String>) -> Self {
        SendRequest {
            target: target.into(),
            input: input.into(),
            ..SendRequest::default()
        }
    }
}

impl SpawnRequest {
    /// Creates a spawn request for `target` with a generated key.
    pub fn new(target: impl Into<String>) -> Self {
        SpawnRequest {
            target: target.into(),
            ..SpawnRequest::default()
        }
    }
}
