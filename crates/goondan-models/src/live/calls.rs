//! Tool calls of one answer: put together from their pieces, then given ids that nothing else has.

use std::collections::HashSet;
use std::sync::Arc;

use genai::chat::ToolCall;
use goondan_runtime::message::Message;
use goondan_runtime::ports::model::ModelRequest;
use serde_json::{Map, Value};

use crate::wire::Wire;

/// The calls of an answer that is still coming.
pub(crate) struct Calls {
    wire: Wire,
    /// The conversation, whose ids are taken.
    messages: Arc<Vec<Arc<Message>>>,
    /// The ids of this answer's calls.
    given: HashSet<String>,
    pieces: Vec<Pieces>,
    /// Bytes of arguments, those of the call under way apart: most formats repeat it from its start each time.
    settled: usize,
    current: (String, usize),
}

/// A call whose arguments are still text.
#[derive(Debug, Default)]
struct Pieces {
    id: String,
    name: String,
    arguments: String,
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
        let messages = Arc::clone(&request.messages);
        Calls { wire, messages, given: HashSet::new(), pieces: Vec::new(), settled: 0, current: Default::default() }
    }

    fn ids_before(&self) -> impl Iterator<Item = &str> {
        let calls = self.messages.iter().flat_map(|message| message.tool_calls());
        calls.map(|call| call.tool_call_id.as_str())
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
        let text = match call.fn_arguments {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        if self.wire == Wire::Chat {
            self.settled += text.len();
            let at = self.place(&call.call_id, &call.fn_name);
            self.pieces[at].arguments.push_str(&text);
        } else {
            if self.current.0 != call.call_id {
                self.settled += self.current.1;
            }
            self.current = (call.call_id, text.len());
        }
    }

    /// Which call a piece in the chat format belongs to. A piece with a name begins one, unless it repeats the name
    /// of a call that is not complete yet. Pieces without a name carry an id, or genai's `call_INDEX` for want of one.
    fn place(&mut self, id: &str, name: &str) -> usize {
        let same = self.pieces.iter().rposition(|call| !id.is_empty() && call.id == id);
        let last = self.pieces.len().checked_sub(1);
        let index = || id.strip_prefix("call_")?.parse().ok().filter(|index| *index < self.pieces.len());
        match (name.is_empty(), same) {
            (false, Some(at)) if !self.pieces[at].is_complete() => at,
            (true, Some(at)) => at,
            (true, None) if last.is_some() => index().or(last).expect("there is a last call"),
            _ => {
                self.pieces.push(Pieces { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
                self.pieces.len() - 1
            }
        }
    }

    /// All calls, now that the answer is complete. `captured` is what genai put together itself.
    pub(crate) fn finish(&mut self, captured: Vec<ToolCall>) -> Vec<WholeCall> {
        let pieces = std::mem::take(&mut self.pieces).into_iter().map(|call| WholeCall {
            id: call.id,
            name: call.name,
            arguments: Value::String(call.arguments),
            signatures: None,
        });
        let captured = captured.into_iter().map(|call| WholeCall {
            id: call.call_id,
            name: call.fn_name,
            arguments: call.fn_arguments,
            signatures: call.thought_signatures,
        });
        let calls: Vec<_> = pieces.chain(captured).collect();
        calls
            .into_iter()
            .map(|call| WholeCall { id: self.unique(call.id), arguments: parsed(call.arguments), ..call })
            .collect()
    }

    /// `id`, unless the provider gave none or one that is taken: then the next `call_NUMBER` of the conversation.
    fn unique(&mut self, id: String) -> String {
        // What genai makes up where the provider gave no id; it counts from 0 in each answer.
        let made_up = id.starts_with("call#");
        let is_taken = |id: &str| self.given.contains(id) || self.ids_before().any(|taken| taken == id);
        let id = if id.is_empty() || made_up || is_taken(&id) { self.fresh() } else { id };
        self.given.insert(id.clone());
        id
    }

    fn fresh(&self) -> String {
        let used: HashSet<&str> = self.ids_before().chain(self.given.iter().map(String::as_str)).collect();
        let mut candidates = (used.len() + 1..).map(|number| format!("call_{number}"));
        candidates.find(|id| !used.contains(id.as_str())).expect("numbers do not run out")
    }
}

impl Pieces {
    fn is_complete(&self) -> bool {
        serde_json::from_str::<Value>(&self.arguments).is_ok()
    }
}

/// Arguments as a value. None at all mean none are needed; text that is no JSON stays text.
fn parsed(arguments: Value) -> Value {
    match arguments {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::request;

    fn piece() -> impl Strategy<Value = ToolCall> {
        let id = prop_oneof!["call_[0-9]{1,12}", "[ab]?"];
        let arguments = prop_oneof![Just("{}"), Just("{\"a\":"), Just("1}"), Just("")];
        (id, "[xy]?", arguments).prop_map(|(call_id, fn_name, arguments)| ToolCall {
            call_id,
            fn_name,
            fn_arguments: Value::from(arguments),
            thought_signatures: None,
        })
    }

    proptest! {
        #[test]
        fn any_pieces_make_calls_with_ids_of_their_own_and_lose_no_byte(pieces in prop::collection::vec(piece(), 0..20)) {
            let mut calls = Calls::new(Wire::Chat, &request("a", "x"));
            let sent: usize = pieces.iter().filter_map(|call| call.fn_arguments.as_str()).map(str::len).sum();
            pieces.into_iter().for_each(|call| calls.piece(call));
            prop_assert_eq!(calls.bytes(), sent);
            prop_assert_eq!(calls.pieces.iter().map(|call| call.arguments.len()).sum::<usize>(), sent);
            let whole = calls.finish(Vec::new());
            let ids: HashSet<_> = whole.iter().map(|call| call.id.as_str()).collect();
            prop_assert!(ids.len() == whole.len() && !ids.contains(""));
        }
    }
}
