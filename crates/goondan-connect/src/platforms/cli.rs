//! `cli`: what people type where the swarm runs, a line an event, and the answers there.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::Platform;
use crate::console::Console;
use crate::desk::Desk;
use crate::event::{Event, plain_values, random_id};
use crate::http::Failure;

/// A terminal or a pipe.
pub(super) struct Cli {
    console: Arc<Console>,
}

impl Cli {
    pub(super) fn new(console: Option<Arc<Console>>) -> Result<Self, String> {
        let console = console.ok_or("Nobody can type here: it needs `gdn run` or `gdn serve`.")?;
        Ok(Cli { console })
    }
}

#[async_trait]
impl Platform for Cli {
    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        while let Some(line) = self.console.line().await {
            let Some(event) = event(&desk.bound.name, &line) else {
                continue;
            };
            if let Err(error) = desk.accept(event).await {
                self.console
                    .print(&format!("This line was not taken: {error}"));
            }
        }
        Ok(())
    }

    async fn send(&self, _origin: &Value, _number: usize, text: &str) -> Result<(), Failure> {
        self.console.print(text);
        Ok(())
    }
}

/// A line is the text, or an object that says more.
fn event(connection: &str, line: &str) -> Option<Event> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    let object: Value = serde_json::from_str(line).unwrap_or_default();
    let field = |names: [&str; 2]| {
        let texts = names.into_iter().filter_map(|name| object[name].as_str());
        texts.map(str::to_owned).find(|text| !text.is_empty())
    };
    Some(Event {
        name: field(["name", "event"]).unwrap_or_else(|| "stdin_message".to_owned()),
        id: random_id(),
        text: field(["text", "message"]).unwrap_or_else(|| line.to_owned()),
        key: field(["instanceKey", "instanceKey"]).unwrap_or_else(|| format!("cli:{connection}")),
        properties: object["properties"]
            .as_object()
            .map(plain_values)
            .unwrap_or_default(),
        origin: Some(json!({})),
        ..Event::default()
    })
}

pub(super) fn sample(connection: &str) -> Event {
    event(connection, "Hello").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_text_or_says_more() {
        let plain = event("desk", " Hello ").unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.text.as_str(), plain.key.as_str()),
            ("stdin_message", "Hello", "cli:desk")
        );
        let more = event(
            "desk",
            r#"{"event": "order", "message": "Tea", "instanceKey": "k", "properties": {"n": 2}}"#,
        )
        .unwrap();
        assert_eq!(
            (more.name.as_str(), more.text.as_str(), more.key.as_str()),
            ("order", "Tea", "k")
        );
        assert_eq!(more.properties["n"], "2");
        assert_eq!(event("desk", "[1]").unwrap().text, "[1]");
        assert_eq!(event("desk", "  "), None);
    }
}
