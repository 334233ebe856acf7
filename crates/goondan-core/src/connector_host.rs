//! Runs connectors that communicate in messages: in a runtime process, or in a library.
//!
//! The code runs as long as its connection. It sends requests while it runs: to accept an event,
//! for the next reply to send, for the next typed line. An adapter transports the messages
//! ([`CodeChannel`]). Their handling is the same for all connectors ([`attend`]).
//!
//! [`CodeChannel`] abstracts the transport of messages, and [`ConnectorHost`] the handling of events.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_spec::Code;
use serde_json::{Value, json};

use crate::JsonObject;
use crate::extension_protocol::{CodeChannel, CodeMessage, RunningMessage};
use crate::ports::tool::{LogLevel, ToolError};

/// Request with which a connector submits an event.
const EMIT_REQUEST: &str = "emit";
/// Events in progress at a time. Further messages are not read until there are fewer.
const MAX_EVENTS_IN_PROGRESS: usize = 256;
/// Maximum number of other open requests of a connector.
const MAX_OPEN_REQUESTS: usize = 64;

/// Data of the connection that a connector receives at its start.
#[derive(Default)]
pub struct ConnectorValues {
    /// Name of the Connection.
    pub connection: String,
    /// Name of the Connector.
    pub connector: String,
    /// Settings.
    pub config: BTreeMap<String, String>,
    /// Secrets that the Connection declares, and no others.
    pub secrets: BTreeMap<String, String>,
}

/// Request handler of a connector.
#[async_trait]
pub trait ConnectorHost: Send + Sync {
    /// Accepts an event; returns when it is durable.
    ///
    /// # Errors
    /// The event is not accepted.
    async fn emit(&self, event: Value) -> Result<(), ToolError>;

    /// Returns the next line that is typed where the swarm runs; `None` at the end of the input.
    async fn line(&self) -> Option<String>;

    /// Returns the next reply to send, with its number; `None` if there are no more.
    async fn reply(&self) -> Option<Value>;

    /// Reports the outcome of the reply with this number: sent, or `error`.
    fn replied(&self, number: u64, error: Option<String>);

    /// Writes a log line.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

type PendingAnswers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, ToolError>)>>;

/// Handles the requests of the connector until it ends. Events that it submitted before its end are
/// still accepted.
///
/// # Errors
/// The connector failed. The error always has a code.
pub async fn run_connector(
    line: &mut dyn CodeChannel,
    host: &dyn ConnectorHost,
) -> Result<(), ToolError> {
    let (mut events, mut others): (PendingAnswers<'_>, PendingAnswers<'_>) =
        (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            biased;
            Some((ask, outcome)) = events.next() => line.answer(ask, outcome),
            Some((ask, outcome)) = others.next() => line.answer(ask, outcome),
            message = line.hear(), if events.len() < MAX_EVENTS_IN_PROGRESS => match message {
                CodeMessage::Said(RunningMessage::Log(level, message, fields)) => host.log(level, &message, fields),
                CodeMessage::Said(RunningMessage::Progress(title, fields)) => host.log(LogLevel::Info, &title, fields),
                CodeMessage::Said(RunningMessage::Ask { ask, name, payload }) => {
                    let queue = if name == EMIT_REQUEST { &mut events } else { &mut others };
                    if queue.len() >= MAX_OPEN_REQUESTS && name != EMIT_REQUEST {
                        let error = format!("a connector may have at most {MAX_OPEN_REQUESTS} open \
                            requests");
                        line.answer(ask, Err(ToolError::new(error).code(Code::CONNECTOR_FAILED)));
                    } else {
                        queue.push(Box::pin(async move { (ask, handle_request(host, &name, payload).await) }));
                    }
                }
                CodeMessage::Ended(ended) => {
                    // Accept the events that the connector did not wait for.
                    while events.next().await.is_some() {}
                    return ended.outcome.map(drop).map_err(|error| match error.code {
                        Some(_) => error,
                        None => error.code(Code::CONNECTOR_FAILED),
                    });
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
) -> Result<Value, ToolError> {
    match name {
        EMIT_REQUEST => host.emit(payload).await.map(|()| Value::Null),
        "reply" => Ok(json!({"reply": host.reply().await})),
        "replied" => {
            let error = payload["error"].as_str().map(str::to_owned);
            payload["number"]
                .as_u64()
                .into_iter()
                .for_each(|number| host.replied(number, error.clone()));
            Ok(Value::Null)
        }
        "line" => Ok(json!({"line": host.line().await})),
        other => Err(ToolError::new(format!(
            "unknown connector request `{other}`"
        ))),
    }
}
