//! Tool calls of one answer, as genai puts them together, with ids that nothing else has.

use std::collections::HashSet;

use genai::chat::ToolCall;
use goondan_core::history::History;
use goondan_core::ports::model::ModelRequest;
use serde_json::Value;

use super::ids::{self, GivenIds};
use crate::wire::Wire;

/// The calls of an answer that is still coming.
pub(crate) struct Calls {
    wire: Wire,
    /// The conversation, whose ids are taken.
    messages: History,
    /// Bytes of arguments, those of the call under way apart: the formats repeat it from its start each time.
    settled: usize,
    current: (String, usize),
}

/// A whole call.
#[derive(Debug, PartialEq)]
pub(crate) struct WholeCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) signatures: Option<Vec<String>>,
}

impl Calls {
    /// No calls yet. Ids that `request` holds are taken.
    pub(crate) fn new(wire: Wire, request: &ModelRequest) -> Self {
        Calls {
            wire,
            messages: request.messages.clone(),
            settled: 0,
            current: Default::default(),
        }
    }

    /// The format that they come in.
    pub(crate) fn wire(&self) -> Wire {
        self.wire
    }

    /// Bytes of arguments so far.
    pub(crate) fn bytes(&self) -> usize {
        self.settled + self.current.1
    }

    /// Takes what genai tells while a call is coming.
    pub(crate) fn piece(&mut self, call: ToolCall) {
        let bytes = match call.fn_arguments {
            Value::String(text) => text.len(),
            Value::Null => 0,
            other => other.to_string().len(),
        };
        if self.current.0 != call.call_id {
            self.settled += self.current.1;
        }
        self.current = (call.call_id, bytes);
    }

    /// All calls, now that the answer is complete. `captured` is what genai put together.
    pub(crate) fn finish(&self, captured: Vec<ToolCall>) -> Vec<WholeCall> {
        if captured.is_empty() {
            return Vec::new();
        }
        let calls = self
            .messages
            .iter()
            .flat_map(|message| message.tool_calls());
        let taken: HashSet<&str> = calls.map(|call| call.tool_call_id.as_str()).collect();
        let mut ids = GivenIds::new(|id| taken.contains(id), taken.len());
        let whole = |call: ToolCall| WholeCall {
            id: ids.give(call.call_id),
            name: call.fn_name,
            arguments: ids::arguments(call.fn_arguments),
            signatures: call.thought_signatures,
        };
        captured.into_iter().map(whole).collect()
    }
}
