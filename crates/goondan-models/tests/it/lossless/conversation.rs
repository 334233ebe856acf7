//! A conversation as the engine keeps it.

use std::sync::Arc;

use goondan_core::history::{History, Kept};
use goondan_core::message::{Message, Part, Role, ToolCall};
use goondan_core::ports::model::{ModelClient, ModelRequest};
use serde_json::json;

use crate::common::{answer, message, request, result, text};

pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    kept: Kept,
}

impl Conversation {
    pub(super) fn begin(input: &str) -> Self {
        let mut conversation = Conversation {
            messages: Vec::new(),
            kept: Kept::default(),
        };
        conversation.add_input(input);
        conversation
    }

    pub(super) fn add_input(&mut self, input: &str) {
        self.messages.push(message(Role::User, vec![text(input)]));
    }

    /// Calls the model, and appends its answer and a result for each of its calls.
    pub(super) async fn step(&mut self, client: &Arc<dyn ModelClient>) {
        let parts = answer(client, self.request()).await.parts;
        let assistant = message(Role::Assistant, parts);
        let results: Vec<Part> = assistant
            .tool_calls()
            .map(|call| result(&call.tool_call_id, &call.tool_name, json!({"degrees": 7})))
            .collect();
        self.messages.push(assistant);
        if !results.is_empty() {
            self.messages.push(message(Role::Tool, results));
        }
    }

    pub(super) fn request(&self) -> ModelRequest {
        ModelRequest {
            messages: History::new(Arc::new(self.messages.clone()), self.kept.clone()),
            ..request(Vec::new())
        }
    }

    /// Removes reasoning and all opaque data, as a program without a place for them does.
    pub(super) fn forget_opaque_data(&mut self) {
        for message in &mut self.messages {
            let content = &mut Arc::make_mut(message).data.content;
            content.retain(|part| {
                matches!(
                    part,
                    Part::Text { .. } | Part::ToolCall(_) | Part::ToolResult(_)
                )
            });
            for part in content {
                if let Part::Text {
                    provider_metadata, ..
                }
                | Part::ToolCall(ToolCall {
                    provider_metadata, ..
                }) = part
                {
                    provider_metadata.clear();
                }
            }
        }
        self.kept = Kept::default();
    }

    /// Stores the messages as JSON and loads them.
    pub(super) fn restart(&mut self) {
        let stored = serde_json::to_string(&self.messages).expect("JSON");
        let loaded: Vec<Message> = serde_json::from_str(&stored).expect("messages");
        self.messages = loaded.into_iter().map(Arc::new).collect();
        self.kept = Kept::default();
    }

    /// Returns the text of the last message.
    pub(super) fn text(&self) -> String {
        self.messages
            .last()
            .map(|message| message.text())
            .unwrap_or_default()
    }
}
