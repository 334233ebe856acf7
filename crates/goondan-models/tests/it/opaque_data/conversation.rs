//! A conversation in the form that the engine stores.

use std::sync::Arc;

use goondan_core::history::{DerivedCache, MessageHistory};
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::{ModelClient, ModelRequest};
use serde_json::json;

use crate::common::{answer, message, request, result, text};

pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    cache: DerivedCache,
}

impl Conversation {
    pub(super) fn begin(input: &str) -> Self {
        let mut conversation = Conversation {
            messages: Vec::new(),
            cache: DerivedCache::default(),
        };
        conversation.add_input(input);
        conversation
    }

    pub(super) fn add_input(&mut self, input: &str) {
        self.messages
            .push(message(MessageRole::User, vec![text(input)]));
    }

    /// Calls the model, and appends its answer and a result for each of its calls.
    pub(super) async fn step(&mut self, client: &Arc<dyn ModelClient>) {
        let parts = answer(client, self.request()).await.parts;
        let assistant = message(MessageRole::Assistant, parts);
        let results: Vec<MessagePart> = assistant
            .tool_calls()
            .map(|call| result(&call.tool_call_id, &call.tool_name, json!({"degrees": 7})))
            .collect();
        self.messages.push(assistant);
        if !results.is_empty() {
            self.messages.push(message(MessageRole::Tool, results));
        }
    }

    pub(super) fn request(&self) -> ModelRequest {
        ModelRequest {
            messages: MessageHistory::new(Arc::new(self.messages.clone()), self.cache.clone()),
            ..request(Vec::new())
        }
    }

    /// Removes reasoning and all opaque data, like a client that does not store them.
    pub(super) fn remove_opaque_data(&mut self) {
        for message in &mut self.messages {
            let content = &mut Arc::make_mut(message).data.content;
            content.retain(|part| {
                matches!(
                    part,
                    MessagePart::Text { .. }
                        | MessagePart::ToolCall(_)
                        | MessagePart::ToolResult(_)
                )
            });
            for part in content {
                if let MessagePart::Text {
                    provider_metadata, ..
                }
                | MessagePart::ToolCall(ToolCall {
                    provider_metadata, ..
                }) = part
                {
                    provider_metadata.clear();
                }
            }
        }
        self.cache = DerivedCache::default();
    }

    /// Stores the messages as JSON and loads them.
    pub(super) fn restart(&mut self) {
        let stored = serde_json::to_string(&self.messages).expect("JSON");
        let loaded: Vec<Message> = serde_json::from_str(&stored).expect("messages");
        self.messages = loaded.into_iter().map(Arc::new).collect();
        self.cache = DerivedCache::default();
    }

    /// Returns the text of the last message.
    pub(super) fn text(&self) -> String {
        self.messages
            .last()
            .map(|message| message.text())
            .unwrap_or_default()
    }
}
