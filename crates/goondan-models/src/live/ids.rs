//! Ids of tool calls, which must be unique in a conversation, and their arguments.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Gives the calls of one answer ids that nothing else has.
pub(crate) struct GivenIds<F> {
    is_taken: F,
    taken: usize,
    given: HashSet<String>,
}

impl<F: Fn(&str) -> bool> GivenIds<F> {
    /// `is_taken` tells what the conversation has already; `taken` is how many ids those are.
    pub(crate) fn new(is_taken: F, taken: usize) -> Self {
        GivenIds {
            is_taken,
            taken,
            given: HashSet::new(),
        }
    }

    /// `id`, unless the provider gave none or one that is taken: then the next `call_NUMBER` of the conversation.
    pub(crate) fn give(&mut self, id: String) -> String {
        // What genai makes up where the provider gave no id; it counts from 0 in each answer.
        let made_up = id.starts_with("call#");
        let id = if id.is_empty() || made_up || self.is_used(&id) {
            self.fresh()
        } else {
            id
        };
        self.given.insert(id.clone());
        id
    }

    fn is_used(&self, id: &str) -> bool {
        self.given.contains(id) || (self.is_taken)(id)
    }

    fn fresh(&self) -> String {
        let mut candidates =
            (self.taken + self.given.len() + 1..).map(|number| format!("call_{number}"));
        candidates
            .find(|id| !self.is_used(id))
            .expect("numbers do not run out")
    }
}

/// Arguments as a value. None at all mean none are needed; text that is no JSON stays text.
pub(crate) fn arguments(sent: Value) -> Value {
    match sent {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}
