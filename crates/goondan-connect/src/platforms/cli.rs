//! `cli`: one event for each line typed where the swarm runs; answers are printed there.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::PlatformConnector;
use crate::connection_runtime::ConnectionRuntime;
use crate::console::LineConsole;
use crate::event::{PlatformEvent, plain_values, random_id};
use crate::http::PlatformFailure;

pub(super) struct CliConnector {
    console: Arc<LineConsole>,
}

impl CliConnector {
    /// Fails if the process has no console for the connection.
    pub(super) fn new(console: Option<Arc<LineConsole>>) -> Result<Self, String> {
        let console =
            console.ok_or("The connection needs a terminal: use `gdn run` or `gdn serve`.")?;
        Ok(CliConnector { console })
    }
}

#[async_trait]
impl PlatformConnector for CliConnector {
    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        while let Some(line) = self.console.line().await {
            let Some(event) = event(&runtime.bound.name, &line) else {
                continue;
            };
            if let Err(error) = runtime.accept(event).await {
                self.console
                    .print(&format!("The line was not accepted: {error}"));
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        _origin: &Value,
        _number: usize,
        text: &str,
    ) -> Result<(), PlatformFailure> {
        self.console.print(text);
        Ok(())
    }
}

/// Parses a line: plain text, or a JSON object with further fields.
fn event(connection: &str, line: &str) -> Option<PlatformEvent> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    let object: Value = serde_json::from_str(line).unwrap_or_default();
    let field = |names: [&str; 2]| {
        let texts = names.into_iter().filter_map(|name| object[name].as_str());
        texts.map(str::to_owned).find(|text| !text.is_empty())
    };
    Some(PlatformEvent {
        name: field(["name", "event"]).unwrap_or_else(|| "stdin_message".to_owned()),
        id: random_id(),
        text: field(["text", "message"]).unwrap_or_else(|| line.to_owned()),
        key: field(["instanceKey", "instanceKey"]).unwrap_or_else(|| format!("cli:{connection}")),
        properties: object["properties"]
            .as_object()
            .map(plain_values)
            .unwrap_or_default(),
        origin: Some(json!({})),
        ..PlatformEvent::default()
    })
}

/// Returns an event for tests and documentation.
pub(super) fn sample(connection: &str) -> PlatformEvent {
    event(connection, "Hello").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_plain_text_or_a_json_event() {
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
