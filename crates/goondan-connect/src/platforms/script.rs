//! A connector file: its function runs in a separate process and emits events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan::adapters::connectors::{BoundConnection, ConnectorHost};
use goondan::ports::tool::{HandlerError, LogLevel};
use goondan::spec::{Code, JsonObject};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::PlatformConnector;
use crate::connection_runtime::ConnectionRuntime;
use crate::console::LineConsole;
use crate::event::{EventSender, PlatformEvent, plain_values, random_id, scalar_text};
use crate::http::PlatformFailure;

/// Maximum number of answers queued for the connector file; further senders wait.
const MAX_QUEUED_REPLIES: usize = 32;
/// Time limit until the connector file takes an answer. The delivery is then retried later.
const REPLY_PICKUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for sending an answer.
const REPLY_SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of an event's origin.
const MAX_ORIGIN_BYTES: usize = 4_096;

pub(super) struct ScriptConnector {
    console: Option<Arc<LineConsole>>,
    replies: Arc<ScriptReplies>,
}

impl ScriptConnector {
    /// Creates the connector. `console` is the terminal of `gdn`.
    pub(super) fn new(console: Option<Arc<LineConsole>>) -> Self {
        ScriptConnector {
            console,
            replies: Arc::default(),
        }
    }
}

/// Answers queued for the connector file, and answers in progress.
struct ScriptReplies {
    queue_sender: mpsc::Sender<QueuedScriptReply>,
    queue_receiver: tokio::sync::Mutex<mpsc::Receiver<QueuedScriptReply>>,
    /// Answers that the connector file has taken, by number.
    taken: Mutex<TakenReplies>,
}

/// Sender of the result: `None` for success, or the error message.
type ReplyResultSender = oneshot::Sender<Option<String>>;

/// Answers that the connector file took and did not finish.
#[derive(Default)]
struct TakenReplies {
    last: u64,
    open: HashMap<u64, ReplyResultSender>,
}

/// An answer that the connector file has not taken yet.
struct QueuedScriptReply {
    answer: Value,
    sent: ReplyResultSender,
    /// Signals that the answer was taken.
    taken: oneshot::Sender<()>,
}

impl Default for ScriptReplies {
    fn default() -> Self {
        let (queue_sender, queue_receiver) = mpsc::channel(MAX_QUEUED_REPLIES);
        ScriptReplies {
            queue_sender,
            queue_receiver: tokio::sync::Mutex::new(queue_receiver),
            taken: Mutex::default(),
        }
    }
}

impl ScriptReplies {
    /// Passes an answer to the connector file and waits for its result.
    async fn send(&self, answer: Value) -> Result<(), PlatformFailure> {
        let ((result_sender, outcome), (taken, is_taken)) =
            (oneshot::channel(), oneshot::channel());
        let pickup = async {
            // The receiver is in the same struct, so sending cannot fail.
            let _ = self
                .queue_sender
                .send(QueuedScriptReply {
                    answer,
                    sent: result_sender,
                    taken,
                })
                .await;
            is_taken.await
        };
        match tokio::time::timeout(REPLY_PICKUP_TIMEOUT, pickup).await {
            Ok(Ok(())) => {}
            _ => {
                return Err(PlatformFailure::Unreached(
                    "the connector did not call `onReply` or is not running".to_owned(),
                ));
            }
        }
        match tokio::time::timeout(REPLY_SEND_TIMEOUT, outcome).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(why))) => Err(PlatformFailure::Refused(why)),
            Ok(Err(_)) => Err(PlatformFailure::Unknown("the connector exited".to_owned())),
            Err(_) => Err(PlatformFailure::Unknown(
                "the connector took too long".to_owned(),
            )),
        }
    }

    /// Returns the next answer whose sender still waits.
    async fn next(&self) -> Option<Value> {
        let mut queue = self.queue_receiver.lock().await;
        loop {
            let QueuedScriptReply {
                mut answer,
                sent: result_sender,
                taken,
            } = queue.recv().await?;
            if taken.send(()).is_err() {
                continue;
            }
            let mut state = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            state.last += 1;
            let number = state.last;
            state.open.insert(number, result_sender);
            answer["number"] = number.into();
            return Some(answer);
        }
    }

    /// Records the result of the answer with this number.
    fn done(&self, number: u64, error: Option<String>) {
        let mut state = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result_sender) = state.open.remove(&number) {
            // The sender may have timed out.
            let _ = result_sender.send(error);
        }
    }

    /// Drops the senders of taken answers after the process has ended: their results are unknown.
    fn drop_open_answers(&self) {
        self.taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .clear();
    }
}

#[async_trait]
impl PlatformConnector for ScriptConnector {
    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        let replies = Arc::clone(&self.replies);
        let counter = Arc::new(ScriptConnectorHost {
            runtime: Arc::clone(runtime),
            console: self.console.clone(),
            replies,
        });
        let ended = runtime.swarm().run_connector(&runtime.bound, counter).await;
        self.replies.drop_open_answers();
        ended.map_err(|error| match &error.code {
            Some(code) => format!("{} ({code})", error.message),
            None => error.message,
        })
    }

    /// Sends the answer undivided: only the connector file knows the platform's message limit.
    async fn send(
        &self,
        origin: &Value,
        _number: usize,
        text: &str,
    ) -> Result<(), PlatformFailure> {
        self.replies
            .send(json!({"origin": origin, "text": text}))
            .await
    }
}

/// Host interface of the connector file.
struct ScriptConnectorHost {
    runtime: Arc<ConnectionRuntime>,
    console: Option<Arc<LineConsole>>,
    replies: Arc<ScriptReplies>,
}

#[async_trait]
impl ConnectorHost for ScriptConnectorHost {
    async fn emit(&self, event: Value) -> Result<(), HandlerError> {
        let event = read(&event, &self.runtime.bound.name)
            .map_err(|problem| HandlerError::new(problem).code(Code::CONNECTOR_EVENT))?;
        match self.runtime.accept(event).await {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(
                    connection = self.runtime.bound.name,
                    "could not accept an event: {error}"
                );
                Err(HandlerError::new(error.message).code(Code::CONNECTOR_EVENT))
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

    fn report_reply(&self, number: u64, error: Option<String>) {
        self.replies.done(number, error);
    }

    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        let (connection, fields) = (&self.runtime.bound.name, Value::Object(fields));
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

/// Parses an emitted event. An event without an id is always new.
fn read(event: &Value, connection: &str) -> Result<PlatformEvent, String> {
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
    if origin.is_some_and(|origin| origin.to_string().len() > MAX_ORIGIN_BYTES) {
        return Err(format!(
            "the `origin` of an event may have at most {MAX_ORIGIN_BYTES} bytes"
        ));
    }
    let sender = match &event["sender"] {
        Value::Object(sender) => sender
            .get("id")
            .and_then(scalar_text)
            .map(|id| EventSender {
                id,
                name: sender
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            }),
        other => scalar_text(other).map(|id| EventSender {
            id,
            name: String::new(),
        }),
    };
    Ok(PlatformEvent {
        name: text("name").ok_or("an event needs a `name`")?,
        id: scalar_text(&event["id"])
            .filter(|id| !id.is_empty())
            .unwrap_or_else(random_id),
        text: message_text(&event["message"])?,
        key: text("instanceKey").unwrap_or_else(|| connection.to_owned()),
        properties: event["properties"]
            .as_object()
            .map(plain_values)
            .unwrap_or_default(),
        sender,
        channel: scalar_text(&event["channel"]),
        origin: origin.cloned(),
        ..PlatformEvent::default()
    })
}

/// Returns the text of the message. Images and files are mentioned but not fetched.
fn message_text(message: &Value) -> Result<String, String> {
    let field = |name: &str| message[name].as_str().unwrap_or_default().trim();
    let text = match (message.as_str(), message["type"].as_str()) {
        (Some(text), _) => text.trim().to_owned(),
        (None, Some("text")) => field("text").to_owned(),
        (None, Some("image")) if !field("url").is_empty() => {
            format!("[image] {}", field("url"))
        }
        (None, Some("file")) if !field("url").is_empty() => {
            format!("[a file: {}] {}", field("name"), field("url"))
        }
        _ => String::new(),
    };
    if text.is_empty() {
        Err(
            "an event needs a `message`: a string, or {type: 'text', text}, {type: 'image', url} \
            or {type: 'file', url, name}"
                .to_owned(),
        )
    } else {
        Ok(text)
    }
}

/// Returns an event for tests and documentation.
pub(super) fn sample(bound: &BoundConnection) -> PlatformEvent {
    PlatformEvent {
        name: bound.events.first().cloned().unwrap_or_default(),
        id: "1".to_owned(),
        text: "Hello".to_owned(),
        key: bound.name.clone(),
        ..PlatformEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_fields_are_read_and_defaults_are_applied() {
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
            Some(EventSender {
                id: "ada".to_owned(),
                name: "Ada".to_owned()
            })
        );
        let bare = || read(&json!({"name": "order", "message": "Tea"}), "c").unwrap();
        assert_eq!(bare().key, "c");
        assert_ne!(
            bare().id,
            bare().id,
            "events without an id get different ids"
        );
        let file = json!({"name": "n", "message": {"type": "file", "url": "https://x.example/a", "name": "a"}});
        assert_eq!(
            read(&file, "c").unwrap().text,
            "[a file: a] https://x.example/a"
        );
    }

    #[test]
    fn invalid_script_events_are_rejected() {
        for invalid in [
            json!(null),
            json!("x"),
            json!({"name": "n"}),
            json!({"message": "x"}),
            json!({"name": "n", "message": {}}),
        ] {
            assert!(read(&invalid, "c").is_err(), "{invalid}");
        }
    }
}
