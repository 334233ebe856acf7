//! Gemini signs its tool calls and wants the signature back with the call; conversations do not keep it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How many calls are remembered. For those forgotten genai sends the placeholder that Google accepts.
const KEPT: usize = 4096;

/// Signatures by call id, the latest ones.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_call: HashMap<String, Vec<String>>,
    order: VecDeque<String>,
}

impl Signatures {
    /// Keeps the signatures of a call.
    pub(crate) fn keep(&self, call_id: &str, signatures: Vec<String>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept
            .by_call
            .insert(call_id.to_owned(), signatures)
            .is_none()
        {
            kept.order.push_back(call_id.to_owned());
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.by_call.remove(&oldest);
        }
    }

    /// The signatures of a call, if they are still known.
    pub(crate) fn of(&self, call_id: &str) -> Option<Vec<String>> {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_call
            .get(call_id)
            .cloned()
    }
}
