//! A conversation as the engine keeps it.

use std::sync::Arc;

use goondan_core::history::{History, Kept};
use goondan_core::message::{Message, Part, Role};
use goondan_core::ports::model::ModelClient;
use serde_json::json;

use crate::common::{answer, message, request, result, text};

pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    kept: Kept,
}

impl Conversation {
    pub(super) fn begin(input: &str) -> Self {
        Conversation {
            messages: vec![message(Role::User, vec![text(input)])],
            kept: Kept::default(),
        }
    }

    /// Calls the model, and appends its answer and a result for each of its calls.
    pub(super) async fn step(&mut self, client: &Arc<dyn ModelClient>) {
        let mut request = request(Vec::new());
        request.messages = History::new(Arc::new(self.messages.clone()), self.kept.clone());
        let parts = answer(client, request).await.parts;
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

    /// Stores the messages as JSON and loads them.
    pub(super) fn restart(&mut self) {
        let stored = serde_json::to_string(&self.messages).expect("JSON");
        let loaded: Vec<Message> = serde_json::from_str(&stored).expect("messages");
        self.messages = loaded.into_iter().map(Arc::new).collect();
        self.kept = Kept::default();
    }

    /// Returns the text of the last message.
    pub(super) fn text(&self) -> String {
        self.messages.last().expect("a message").text()
    }
}
