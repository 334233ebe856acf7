//! A connector that is a file: its function runs in a process of its own, and hands events in.

use std::sync::Arc;

use async_trait::async_trait;
use goondan::connectors::{Bound, ConnectorDesk};
use goondan::ports::tool::{LogLevel, ToolError};
use goondan::spec::{Code, JsonObject};
use serde_json::Value;

use super::Platform;
use crate::console::Console;
use crate::desk::Desk;
use crate::event::{Event, Sender, plain, plain_values, random_id};

/// A file.
pub(super) struct Scripted {
    console: Option<Arc<Console>>,
}

impl Scripted {
    pub(super) fn new(console: Option<Arc<Console>>) -> Self {
        Scripted { console }
    }
}

#[async_trait]
impl Platform for Scripted {
    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        let counter = Arc::new(Counter { desk: Arc::clone(desk), console: self.console.clone() });
        let ended = desk.swarm.run_connector(&desk.bound, counter).await;
        ended.map_err(|error| match &error.code {
            Some(code) => format!("{} ({code})", error.message),
            None => error.message,
        })
    }
}

/// What the file talks with.
struct Counter {
    desk: Arc<Desk>,
    console: Option<Arc<Console>>,
}

#[async_trait]
impl ConnectorDesk for Counter {
    async fn emit(&self, event: Value) -> Result<(), ToolError> {
        let event = read(&event, &self.desk.bound.name)
            .map_err(|problem| ToolError::new(problem).code(Code::CONNECTOR_EVENT))?;
        match self.desk.accept(event).await {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(connection = self.desk.bound.name, "an event was not taken: {error}");
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

    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        let (connection, fields) = (&self.desk.bound.name, Value::Object(fields));
        match level {
            LogLevel::Debug => tracing::debug!(target: "gdn::connector", connection, %fields, "{message}"),
            LogLevel::Info => tracing::info!(target: "gdn::connector", connection, %fields, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "gdn::connector", connection, %fields, "{message}"),
            LogLevel::Error => tracing::error!(target: "gdn::connector", connection, %fields, "{message}"),
        }
    }
}

/// What a file hands in. One without an id is a new event each time.
fn read(event: &Value, connection: &str) -> Result<Event, String> {
    let text = |name: &str| event[name].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    if !event.is_object() {
        return Err("an event must be an object with `name`, `message` and `instanceKey`".to_owned());
    }
    let sender = match &event["sender"] {
        Value::Object(sender) => sender
            .get("id")
            .and_then(plain)
            .map(|id| Sender { id, name: sender.get("name").and_then(Value::as_str).unwrap_or_default().to_owned() }),
        other => plain(other).map(|id| Sender { id, name: String::new() }),
    };
    Ok(Event {
        name: text("name").ok_or("an event needs a `name`")?,
        id: plain(&event["id"]).filter(|id| !id.is_empty()).unwrap_or_else(random_id),
        text: said(&event["message"])?,
        key: text("instanceKey").unwrap_or_else(|| connection.to_owned()),
        properties: event["properties"].as_object().map(plain_values).unwrap_or_default(),
        sender,
        channel: plain(&event["channel"]),
        origin: None,
    })
}

/// What the agent reads. Pictures and files are named, and not fetched.
fn said(message: &Value) -> Result<String, String> {
    let field = |name: &str| message[name].as_str().unwrap_or_default().trim();
    let text = match (message.as_str(), message["type"].as_str()) {
        (Some(text), _) => text.trim().to_owned(),
        (None, Some("text")) => field("text").to_owned(),
        (None, Some("image")) if !field("url").is_empty() => format!("[a picture] {}", field("url")),
        (None, Some("file")) if !field("url").is_empty() => format!("[a file: {}] {}", field("name"), field("url")),
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
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_may_say_little_or_much() {
        let whole = json!({
            "name": "order", "id": 7, "message": {"type": "text", "text": "Tea"}, "instanceKey": "table:4",
            "properties": {"table": 4, "deep": {}}, "sender": {"id": "ada", "name": "Ada"}, "channel": "bar",
        });
        let event = read(&whole, "c").unwrap();
        assert_eq!((event.id.as_str(), event.text.as_str(), event.key.as_str()), ("7", "Tea", "table:4"));
        assert_eq!(event.properties, [("table".to_owned(), "4".to_owned())].into());
        assert_eq!(event.sender, Some(Sender { id: "ada".to_owned(), name: "Ada".to_owned() }));
        let bare = || read(&json!({"name": "order", "message": "Tea"}), "c").unwrap();
        assert_eq!(bare().key, "c");
        assert_ne!(bare().id, bare().id, "each is a new event");
        let file = json!({"name": "n", "message": {"type": "file", "url": "https://x.example/a", "name": "a"}});
        assert_eq!(read(&file, "c").unwrap().text, "[a file: a] https://x.example/a");
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
