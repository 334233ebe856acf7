//! Runtime operations that handlers can request: the five ways to reach other agents.

use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    AgentEventInput, AgentToolRuntime, RequestOptions, SpawnOptions, SpawnedInstanceInfo, ToolError,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An input for an agent, with options for its answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToAgent {
    target: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    event_type: Option<String>,
    #[serde(default)]
    instance_key: Option<String>,
    #[serde(default)]
    metadata: JsonObject,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default, rename = "async")]
    asynchronous: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpawnArguments {
    target: String,
    #[serde(default)]
    instance_key: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListArguments {
    #[serde(default)]
    include_all: bool,
}

#[derive(Serialize)]
struct AgentsReply {
    agents: Vec<SpawnedInstanceInfo>,
}

/// Performs the operation `name` with the arguments `payload`. Returns the result as JSON.
pub(crate) async fn perform(
    runtime: &dyn AgentToolRuntime,
    name: &str,
    payload: Value,
) -> Result<Value, ToolError> {
    match name {
        "request" => {
            let request: ToAgent = read(name, payload)?;
            let options = RequestOptions {
                timeout_ms: request.timeout_ms,
                async_: request.asynchronous,
            };
            let (target, event) = request.into_event();
            answer(runtime.request(&target, event, options).await)
        }
        "send" => {
            let (target, event) = read::<ToAgent>(name, payload)?.into_event();
            answer(runtime.send(&target, event).await)
        }
        "spawn" => {
            let SpawnArguments {
                target,
                instance_key,
                cwd,
            } = read(name, payload)?;
            let options = SpawnOptions {
                instance_key,
                cwd,
                ..SpawnOptions::default()
            };
            answer(runtime.spawn(&target, options).await)
        }
        "list" => {
            let arguments: ListArguments = read(name, payload)?;
            answer(
                runtime
                    .list(arguments.include_all)
                    .await
                    .map(|agents| AgentsReply { agents }),
            )
        }
        "catalog" => answer(runtime.catalog().await),
        _ => Err(ToolError::new(format!("unknown operation `{name}`"))
            .suggest("use request, send, spawn, list or catalog")),
    }
}

impl ToAgent {
    /// Returns the target agent and the event.
    fn into_event(self) -> (String, AgentEventInput) {
        let event = AgentEventInput {
            event_type: self.event_type,
            input: self.input,
            instance_key: self.instance_key,
            metadata: self.metadata,
            ..AgentEventInput::default()
        };
        (self.target, event)
    }
}

/// Decodes the arguments of the operation `name`.
fn read<T: DeserializeOwned>(name: &str, payload: Value) -> Result<T, ToolError> {
    serde_json::from_value(payload)
        .map_err(|mistake| ToolError::new(format!("invalid arguments for `{name}`: {mistake}")))
}

/// Encodes the result of an operation.
fn answer<T: Serialize>(result: Result<T, ToolError>) -> Result<Value, ToolError> {
    serde_json::to_value(result?)
        .map_err(|mistake| ToolError::new(format!("cannot encode the answer: {mistake}")))
}
