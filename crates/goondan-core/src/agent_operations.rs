//! Runtime operations that the code of a tool can request by name: the five ways to reach other
//! agents. Tool libraries and handler files in JavaScript and Python send the same payloads.

use goondan_abi::wire::operation::{ALL, CATALOG, LIST, REQUEST, SEND, SPAWN};
use goondan_abi::wire::{AgentList, AgentRequest, ListRequest, SendRequest, SpawnRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plugin_session::short_name;
use crate::ports::tool::{
    AgentEventInput, AgentToolRuntime, HandlerError, RequestOptions, SpawnOptions,
};

/// Performs the operation `name` with the arguments `payload`. Returns the result as JSON.
///
/// # Errors
///
/// Fails if the operation is unknown, if the arguments are invalid, or with the error of the
/// operation.
pub async fn perform(
    runtime: &dyn AgentToolRuntime,
    name: &str,
    payload: Value,
) -> Result<Value, HandlerError> {
    match name {
        REQUEST => {
            let request: AgentRequest = read(name, payload)?;
            let options = RequestOptions {
                timeout_ms: request.timeout_ms,
                async_: request.asynchronous,
            };
            let event = AgentEventInput {
                event_type: request.event_type,
                input: request.input,
                instance_key: request.instance_key,
                metadata: request.metadata,
                ..AgentEventInput::default()
            };
            answer(runtime.request(&request.target, event, options).await)
        }
        SEND => {
            let message: SendRequest = read(name, payload)?;
            let event = AgentEventInput {
                event_type: message.event_type,
                input: message.input,
                instance_key: message.instance_key,
                metadata: message.metadata,
                ..AgentEventInput::default()
            };
            answer(runtime.send(&message.target, event).await)
        }
        SPAWN => {
            let request: SpawnRequest = read(name, payload)?;
            let options = SpawnOptions {
                instance_key: request.instance_key,
                cwd: request.cwd,
                ..SpawnOptions::default()
            };
            answer(runtime.spawn(&request.target, options).await)
        }
        LIST => {
            let ListRequest { include_all } = read(name, payload)?;
            let agents = runtime.list_instances(include_all).await;
            answer(agents.map(|agents| AgentList { agents }))
        }
        CATALOG => answer(runtime.catalog().await),
        _ => {
            let known_operations = ALL.map(short_name).join(", ");
            let name = short_name(name);
            Err(HandlerError::new(format!("unknown operation `{name}`"))
                .suggest(format!("use one of {known_operations}")))
        }
    }
}

/// Decodes the arguments of the operation `name`.
fn read<T: DeserializeOwned>(name: &str, payload: Value) -> Result<T, HandlerError> {
    serde_json::from_value(payload).map_err(|mistake| {
        let name = short_name(name);
        HandlerError::new(format!("invalid arguments for `{name}`: {mistake}"))
    })
}

/// Encodes the result of an operation.
fn answer<T: Serialize>(result: Result<T, HandlerError>) -> Result<Value, HandlerError> {
    serde_json::to_value(result?)
        .map_err(|mistake| HandlerError::new(format!("cannot encode the answer: {mistake}")))
}
