//! How connectors whose code is spoken with in messages are run: in a process of a runtime, or in a library.
//!
//! The code runs as long as its connection does, and asks for things meanwhile: to take an event, for the next answer that it
//! is to send, for the next line that somebody types. An adapter passes the messages on ([`Line`]); what follows from them is
//! the same for all ([`attend`]).
//!
//! What this module does not know: how a message travels, and what becomes of an event. That is behind [`Line`] and
//! [`ConnectorDesk`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_spec::Code;
use serde_json::{Value, json};

use crate::JsonObject;
use crate::layering::{Event, Heard, Line};
use crate::ports::tool::{LogLevel, ToolError};

/// The question by which a connector hands an event in.
const EMIT: &str = "emit";
/// Events that are taken at a time. What the connector says further is heard when there are fewer.
const MOST_EVENTS: usize = 256;
/// Other questions that a connector may have open at a time.
const MOST_QUESTIONS: usize = 64;

/// What a connector is told of its connection.
#[derive(Default)]
pub struct ConnectorValues {
    /// The name of the Connection.
    pub connection: String,
    /// The name of the Connector.
    pub connector: String,
    /// Settings.
    pub config: BTreeMap<String, String>,
    /// The secrets that the Connection states, and no others.
    pub secrets: BTreeMap<String, String>,
}

/// Whom a connector talks with.
#[async_trait]
pub trait ConnectorDesk: Send + Sync {
    /// Takes an event; returns once it is accepted for good.
    async fn emit(&self, event: Value) -> Result<(), ToolError>;

    /// The next line that is typed where the swarm runs; `None` where there are no more.
    async fn line(&self) -> Option<String>;

    /// The next answer that is to be sent, with a number; `None` where there will be none.
    async fn reply(&self) -> Option<Value>;

    /// What has become of the answer of that number: it was sent, or why not.
    fn replied(&self, number: u64, error: Option<String>);

    /// Writes a log line.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

type Answers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, ToolError>)>>;

/// Answers what the connector asks, until it has ended. What it has handed in before its end counts.
///
/// # Errors
/// It has failed. The error has a code.
pub async fn attend(line: &mut dyn Line, desk: &dyn ConnectorDesk) -> Result<(), ToolError> {
    let (mut events, mut others): (Answers<'_>, Answers<'_>) =
        (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            biased;
            Some((ask, outcome)) = events.next() => line.answer(ask, outcome),
            Some((ask, outcome)) = others.next() => line.answer(ask, outcome),
            heard = line.hear(), if events.len() < MOST_EVENTS => match heard {
                Heard::Said(Event::Log(level, message, fields)) => desk.log(level, &message, fields),
                Heard::Said(Event::Progress(title, fields)) => desk.log(LogLevel::Info, &title, fields),
                Heard::Said(Event::Ask { ask, name, payload }) => {
                    let queue = if name == EMIT { &mut events } else { &mut others };
                    if queue.len() >= MOST_QUESTIONS && name != EMIT {
                        let many = format!("a connector may have {MOST_QUESTIONS} questions open at a time");
                        line.answer(ask, Err(ToolError::new(many).code(Code::CONNECTOR_FAILED)));
                    } else {
                        queue.push(Box::pin(async move { (ask, perform(desk, &name, payload).await) }));
                    }
                }
                Heard::Ended(ended) => {
                    // Events that it did not wait for are taken all the same.
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

async fn perform(desk: &dyn ConnectorDesk, name: &str, payload: Value) -> Result<Value, ToolError> {
    match name {
        EMIT => desk.emit(payload).await.map(|()| Value::Null),
        "reply" => Ok(json!({"reply": desk.reply().await})),
        "replied" => {
            let error = payload["error"].as_str().map(str::to_owned);
            payload["number"]
                .as_u64()
                .into_iter()
                .for_each(|number| desk.replied(number, error.clone()));
            Ok(Value::Null)
        }
        "line" => Ok(json!({"line": desk.line().await})),
        other => Err(ToolError::new(format!(
            "a connector can't ask for `{other}`"
        ))),
    }
}
