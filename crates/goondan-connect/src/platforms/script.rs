//! A connector that is a file: its function runs in a process of its own, and hands events in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan::connectors::{Bound, ConnectorDesk};
use goondan::ports::tool::{LogLevel, ToolError};
use goondan::spec::{Code, JsonObject};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::Platform;
use crate::console::Console;
use crate::desk::Desk;
use crate::event::{Event, Sender, plain, plain_values, random_id};
use crate::http::Failure;

/// So many answers wait for the file. Further ones wait behind them.
const MOST_WAITING: usize = 32;
/// How long an answer waits for the file to take it. Then it is tried again later.
const TAKEN: Duration = Duration::from_secs(30);
/// How long the file may take to send an answer.
const SENT: Duration = Duration::from_secs(60);
/// The largest origin of an event, in bytes.
const LARGEST_ORIGIN: usize = 4_096;

/// A file.
pub(super) struct Scripted {
    console: Option<Arc<Console>>,
    replies: Arc<Replies>,
}

impl Scripted {
    pub(super) fn new(console: Option<Arc<Console>>) -> Self {
        Scripted {
            console,
            replies: Arc::default(),
        }
    }
}

/// Answers on their way to the file, and back from it.
struct Replies {
    queue: mpsc::Sender<Waiting>,
    waiting: tokio::sync::Mutex<mpsc::Receiver<Waiting>>,
    /// What the file has taken, by number.
    taken: Mutex<Taken>,
}

/// Why an answer was not sent, for who waits for that.
type Outcome = oneshot::Sender<Option<String>>;

#[derive(Default)]
struct Taken {
    last: u64,
    open: HashMap<u64, Outcome>,
}

/// An answer that the file has not taken.
struct Waiting {
    answer: Value,
    sent: Outcome,
    /// Says that it was taken.
    taken: oneshot::Sender<()>,
}

impl Default for Replies {
    fn default() -> Self {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        Replies {
            queue,
            waiting: tokio::sync::Mutex::new(waiting),
            taken: Mutex::default(),
        }
    }
}

impl Replies {
    async fn send(&self, answer: Value) -> Result<(), Failure> {
        let ((sent, outcome), (taken, is_taken)) = (oneshot::channel(), oneshot::channel());
        let waiting = async {
            // The receiver is in the same struct.
            let _ = self
                .queue
                .send(Waiting {
                    answer,
                    sent,
                    taken,
                })
                .await;
            is_taken.await
        };
        match tokio::time::timeout(TAKEN, waiting).await {
            Ok(Ok(())) => {}
            _ => {
                return Err(Failure::Unreached(
                    "the connector has called no `onReply`, or does not run".to_owned(),
                ));
            }
        }
        match tokio::time::timeout(SENT, outcome).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(why))) => Err(Failure::Refused(why)),
            Ok(Err(_)) => Err(Failure::Unknown("the connector has ended".to_owned())),
            Err(_) => Err(Failure::Unknown("the connector took too long".to_owned())),
        }
    }

    /// The next one that somebody still waits for.
    async fn next(&self) -> Option<Value> {
        let mut waiting = self.waiting.lock().await;
        loop {
            let Waiting {
                mut answer,
                sent,
                taken,
            } = waiting.recv().await?;
            if taken.send(()).is_err() {
                continue;
            }
            let mut state = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            state.last += 1;
            let number = state.last;
            state.open.insert(number, sent);
            answer["number"] = number.into();
            return Some(answer);
        }
    }

    fn done(&self, number: u64, error: Option<String>) {
        let mut state = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = state.open.remove(&number) {
            // Who has waited too long knows what to think of it.
            let _ = sent.send(error);
        }
    }

    /// The process has ended: nobody knows what came of what it has taken.
    fn ended(&self) {
        self.taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .clear();
    }
}

#[async_trait]
impl Platform for Scripted {
    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        let replies = Arc::clone(&self.replies);
        let counter = Arc::new(Counter {
            desk: Arc::clone(desk),
            console: self.console.clone(),
            replies,
        });
        let ended = desk.swarm.run_connector(&desk.bound, counter).await;
        self.replies.ended();
        ended.map_err(|error| match &error.code {
            Some(code) => format!("{} ({code})", error.message),
            None => error.message,
        })
    }

    /// As it is: only the file knows how long a message may be.
    async fn send(&self, origin: &Value, _number: usize, text: &str) -> Result<(), Failure> {
        self.replies
            .send(json!({"origin": origin, "text": text}))
            .await
    }
}

/// What the file talks with.
struct Counter {
    desk: Arc<Desk>,
    console: Option<Arc<Console>>,
    replies: Arc<Replies>,
}

#[async_trait]
impl ConnectorDesk for Counter {
    async fn emit(&self, event: Value) -> Result<(), ToolError> {
        let event = read(&event, &self.desk.bound.name)
            .map_err(|problem| ToolError::new(problem).code(Code::CONNECTOR_EVENT))?;
        match self.desk.accept(event).await {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(
                    connection = self.desk.bound.name,
                    "an event was not taken: {error}"
                );
                Err(ToolError::new(error.message).code(Code::CONNECTOR_EVENT))
            }
        }
    }

    async fn line(&self) -> Option<String> {
        match &self.console {
            Some(console) => console.line().await,
            None => None,
        }
    }

    async fn reply(&self) -> Option<Value> {
        self.replies.next().await
    }

    fn replied(&self, number: u64, error: Option<String>) {
        self.replies.done(number, error);
    }

    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        let (connection, fields) = (&self.desk.bound.name, Value::Object(fields));
        match level {
            LogLevel::Debug => {
                tracing::debug!(target: "gdn::connector", connection, %fields, "{message}")
            }
            LogLevel::Info => {
                tracing::info!(target: "gdn::connector", connection, %fields, "{message}")
            }
            LogLevel::Warn => {
                tracing::warn!(target: "gdn::connector", connection, %fields, "{message}")
            }
            LogLevel::Error => {
                tracing::error!(target: "gdn::connector", connection, %fields, "{message}")
            }
        }
    }
}

/// What a file hands in. One without an id is a new event each time.
fn read(event: &Value, connection: &str) -> Result<Event, String> {
    let text = |name: &str| {
        event[name]
            .as_str()
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
    };
    if !event.is_object() {
        return Err(
            "an event must be an object with `name`, `message` and `instanceKey`".to_owned(),
        );
    }
    let origin = Some(&event["origin"]).filter(|origin| !origin.is_null());
    if origin.is_some_and(|origin| origin.to_string().len() > LARGEST_ORIGIN) {
        return Err(format!(
            "the `origin` of an event has at most {LARGEST_ORIGIN} bytes"
        ));
    }
    let sender = match &event["sender"] {
        Value::Object(sender) => sender.get("id").and_then(plain).map(|id| Sender {
            id,
            name: sender
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        }),
        other => plain(other).map(|id| Sender {
            id,
            name: String::new(),
        }),
    };
    Ok(Event {
        name: text("name").ok_or("an event needs a `name`")?,
        id: plain(&event["id"])
            .filter(|id| !id.is_empty())
            .unwrap_or_else(random_id),
        text: said(&event["message"])?,
        key: text("instanceKey").unwrap_or_else(|| connection.to_owned()),
        properties: event["properties"]
            .as_object()
            .map(plain_values)
            .unwrap_or_default(),
        sender,
        channel: plain(&event["channel"]),
        quotes: false,
        files: Vec::new(),
        origin: origin.cloned(),
    })
}

/// What the agent reads. Pictures and files are named, and not fetched.
fn said(message: &Value) -> Result<String, String> {
    let field = |name: &str| message[name].as_str().unwrap_or_default().trim();
    let text = match (message.as_str(), message["type"].as_str()) {
        (Some(text), _) => text.trim().to_owned(),
        (None, Some("text")) => field("text").to_owned(),
        (None, Some("image")) if !field("url").is_empty() => {
            format!("[a picture] {}", field("url"))
        }
        (None, Some("file")) if !field("url").is_empty() => {
            format!("[a file: {}] {}", field("name"), field("url"))
        }
        _ => String::new(),
    };
    match text.is_empty() {
        true => Err(
            "an event needs a `message`: a text, or {type: 'text', text}, {type: 'image', url} or {type: 'file', url, \
                     name}"
                .to_owned(),
        ),
        false => Ok(text),
    }
}

pub(super) fn sample(bound: &Bound) -> Event {
    Event {
        name: bound.events.first().cloned().unwrap_or_default(),
        id: "1".to_owned(),
        text: "Hello".to_owned(),
        key: bound.name.clone(),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_event_may_say_little_or_much() {
        let whole = json!({
            "name": "order", "id": 7, "message": {"type": "text", "text": "Tea"}, "instanceKey": "table:4",
            "properties": {"table": 4, "deep": {}}, "sender": {"id": "ada", "name": "Ada"}, "channel": "bar",
        });
        let event = read(&whole, "c").unwrap();
        assert_eq!(
            (event.id.as_str(), event.text.as_str(), event.key.as_str()),
            ("7", "Tea", "table:4")
        );
        assert_eq!(
            event.properties,
            [("table".to_owned(), "4".to_owned())].into()
        );
        assert_eq!(
            event.sender,
            Some(Sender {
                id: "ada".to_owned(),
                name: "Ada".to_owned()
            })
        );
        let bare = || read(&json!({"name": "order", "message": "Tea"}), "c").unwrap();
        assert_eq!(bare().key, "c");
        assert_ne!(bare().id, bare().id, "each is a new event");
        let file = json!({"name": "n", "message": {"type": "file", "url": "https://x.example/a", "name": "a"}});
        assert_eq!(
            read(&file, "c").unwrap().text,
            "[a file: a] https://x.example/a"
        );
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for wrong in [
            json!(null),
            json!("x"),
            json!({"name": "n"}),
            json!({"message": "x"}),
            json!({"name": "n", "message": {}}),
        ] {
            assert!(read(&wrong, "c").is_err(), "{wrong}");
        }
    }
}
