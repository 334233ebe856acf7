//! Runs connectors that communicate in messages: in a runtime process, or in a library.
//!
//! The code runs as long as its connection. It sends requests while it runs: to accept an event,
//! for the next reply to send, for the next typed line. `plugin_session` transports the messages, and
//! [`run_connector`] handles them in the same way for all connectors. [`ConnectorHost`] abstracts the
//! handling of events.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
pub use goondan_abi::wire::ConnectorStart;
use goondan_abi::wire::operation::{
    CONNECTOR_EMIT, CONNECTOR_LINE, CONNECTOR_REPLIED, CONNECTOR_REPLY,
};
use goondan_spec::Code;
use serde_json::{Value, json};

use crate::JsonObject;
use crate::plugin_session::{
    CallUpdate, ExtensionMessage, PluginCall, PluginTransport, RunningMessage, log_arguments,
    short_name,
};
use crate::ports::tool::{HandlerError, LogLevel};

/// Events in progress at a time. Further messages are not read until there are fewer.
const MAX_EVENTS_IN_PROGRESS: usize = 256;
/// Maximum number of other open requests of a connector.
const MAX_OPEN_REQUESTS: usize = 64;

/// Request handler of a connector.
#[async_trait]
pub trait ConnectorHost: Send + Sync {
    /// Accepts an event; returns when it is durable.
    ///
    /// # Errors
    /// The event is not accepted.
    async fn emit(&self, event: Value) -> Result<(), HandlerError>;

    /// Returns the next line that is typed where the swarm runs; `None` at the end of the input.
    async fn line(&self) -> Option<String>;

    /// Returns the next reply to send, with its number; `None` if there are no more.
    async fn reply(&self) -> Option<Value>;

    /// Reports the outcome of the reply with this number: sent, or `error`.
    fn report_reply(&self, number: u64, error: Option<String>);

    /// Writes a log line.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

type PendingAnswers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, HandlerError>)>>;

/// Runs a connector and handles its requests until it ends. Events that it submitted before its end
/// are still accepted.
///
/// # Errors
/// The connector failed, or its code accepts no calls.
pub async fn run_connector(
    transport: Arc<dyn PluginTransport>,
    project: &Path,
    values: ConnectorStart,
    host: &dyn ConnectorHost,
) -> Result<(), HandlerError> {
    let message = ExtensionMessage::Connect(ConnectorStart {
        project_dir: project.to_string_lossy().into_owned(),
        ..values
    });
    let mut call = PluginCall::begin(transport, message.into())?;
    let (mut events, mut others): (PendingAnswers<'_>, PendingAnswers<'_>) =
        (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            biased;
            Some((operation, outcome)) = events.next() => call.answer(operation, outcome),
            Some((operation, outcome)) = others.next() => call.answer(operation, outcome),
            update = call.next(), if events.len() < MAX_EVENTS_IN_PROGRESS => match update {
                CallUpdate::Event(RunningMessage::Log(line)) => {
                    let (level, message, fields) = log_arguments(line);
                    host.log(level, &message, fields);
                }
                CallUpdate::Event(RunningMessage::Progress(progress)) => {
                    host.log(LogLevel::Info, &progress.title, progress.metadata)
                }
                CallUpdate::Event(RunningMessage::Request { operation, name, payload }) => {
                    let is_event = name == CONNECTOR_EMIT;
                    let queue = if is_event { &mut events } else { &mut others };
                    if queue.len() >= MAX_OPEN_REQUESTS && !is_event {
                        let error = format!("a connector may have at most {MAX_OPEN_REQUESTS} open \
                            requests");
                        call.answer(operation, Err(HandlerError::new(error).code(Code::CONNECTOR_FAILED)));
                    } else {
                        queue.push(Box::pin(async move {
                            (operation, handle_request(host, &name, payload).await)
                        }));
                    }
                }
                CallUpdate::Ended(ended) => {
                    // Accept the events that the connector did not wait for.
                    while events.next().await.is_some() {}
                    return ended.outcome.map(drop);
                }
            },
        }
    }
}

/// Executes the request `name` of the connector and returns its answer.
async fn handle_request(
    host: &dyn ConnectorHost,
    name: &str,
    payload: Value,
) -> Result<Value, HandlerError> {
    match name {
        CONNECTOR_EMIT => host.emit(payload).await.map(|()| Value::Null),
        CONNECTOR_REPLY => Ok(json!({"reply": host.reply().await})),
        CONNECTOR_REPLIED => {
            let error = payload["error"].as_str().map(str::to_owned);
            if let Some(number) = payload["number"].as_u64() {
                host.report_reply(number, error.clone());
            }
            Ok(Value::Null)
        }
        CONNECTOR_LINE => Ok(json!({"line": host.line().await})),
        other => {
            let name = short_name(other);
            Err(HandlerError::new(format!(
                "unknown connector request `{name}`"
            )))
        }
    }
}
