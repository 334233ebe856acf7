//! Runtime operations that a library can request, by name.

use goondan_abi::wire::{self, operation};
use goondan_core::ports::tool::{
    AgentEventInput, AgentToolRuntime, RequestOptions, SpawnOptions, SpawnedInstanceInfo, ToolError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::library_messages::Outcome;

/// Performs the operation `name` with the arguments `payload`. Returns the result as JSON.
pub(crate) async fn perform(
    runtime: &dyn AgentToolRuntime,
    name: &str,
    payload: Value,
) -> Outcome<Value> {
    match name {
        operation::REQUEST => request(runtime, read(name, payload)?).await,
        operation::SEND => send(runtime, read(name, payload)?).await,
        operation::SPAWN => spawn(runtime, read(name, payload)?).await,
        operation::LIST => list(runtime, read(name, payload)?).await,
        operation::CATALOG => answer(runtime.catalog().await),
        _ => Err(wire::ToolError::new(format!("unknown operation `{name}`"))
            .suggest(format!("use one of {}", operation::ALL.join(", ")))),
    }
}

async fn request(runtime: &dyn AgentToolRuntime, request: wire::AgentRequest) -> Outcome<Value> {
    let event = AgentEventInput {
        event_type: request.event_type,
        input: request.input,
        instance_key: request.instance_key,
        metadata: request.metadata,
        ..AgentEventInput::default()
    };
    let options = RequestOptions {
        timeout_ms: request.timeout_ms,
        async_: request.asynchronous,
    };
    answer(runtime.request(&request.target, event, options).await)
}

async fn send(runtime: &dyn AgentToolRuntime, message: wire::SendRequest) -> Outcome<Value> {
    let event = AgentEventInput {
        event_type: message.event_type,
        input: message.input,
        instance_key: message.instance_key,
        metadata: message.metadata,
        ..AgentEventInput::default()
    };
    answer(runtime.send(&message.target, event).await)
}

async fn spawn(runtime: &dyn AgentToolRuntime, request: wire::SpawnRequest) -> Outcome<Value> {
    let options = SpawnOptions {
        instance_key: request.instance_key,
        cwd: request.cwd,
        ..SpawnOptions::default()
    };
    answer(runtime.spawn(&request.target, options).await)
}

async fn list(runtime: &dyn AgentToolRuntime, request: wire::ListRequest) -> Outcome<Value> {
    #[derive(Serialize)]
    struct List {
        agents: Vec<SpawnedInstanceInfo>,
    }
    answer(
        runtime
            .list(request.include_all)
            .await
            .map(|agents| List { agents }),
    )
}

/// Decodes the arguments of the operation `name`.
fn read<T: DeserializeOwned>(name: &str, payload: Value) -> Outcome<T> {
    serde_json::from_value(payload).map_err(|mistake| {
        wire::ToolError::new(format!(
            "invalid arguments for `{name}`: \
            {mistake}"
        ))
    })
}

/// Encodes the result of an operation.
fn answer<T: Serialize>(result: Result<T, ToolError>) -> Outcome<Value> {
    match result {
        Ok(value) => Ok(serde_json::to_value(value)?),
        Err(error) => Err(wire::ToolError {
            name: error.name,
            message: error.message,
            code: error.code,
            suggestion: error.suggestion,
            help_url: error.help_url,
        }),
    }
}
