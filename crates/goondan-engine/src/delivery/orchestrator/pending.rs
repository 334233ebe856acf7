//! Events between their submission and their end, and how much room they take.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::Refusal;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;

/// The most that the events of a swarm may take, in bytes. What is over it is refused: who sends in a loop fills no memory.
pub(super) const MOST_BYTES: usize = 512 * 1024 * 1024;

/// The largest event, in bytes.
pub(super) const LARGEST: usize = 32 * 1024 * 1024;

/// What an event takes beside its texts.
const OVERHEAD: usize = 1024;

/// Somebody who waits for the result of an event.
pub(super) struct Waiter {
    pub(super) sender: oneshot::Sender<TurnResult>,
    /// The instance whose turn stands still meanwhile.
    pub(super) caller: Option<InstanceId>,
}

/// An event between its submission and its end.
pub(super) struct Pending {
    pub(super) target: InstanceId,
    /// The chain that it belongs to.
    pub(super) trace_id: String,
    /// Whose turn made it.
    pub(super) asked_by: Option<InstanceId>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) accepted: Vec<oneshot::Sender<Result<(), Refusal>>>,
    bytes: usize,
}

impl Pending {
    pub(super) fn of(event: &AgentEvent) -> Self {
        Pending {
            target: event.target.clone(),
            trace_id: event.trace.trace_id.clone(),
            asked_by: event.caller().cloned(),
            waiters: Vec::new(),
            accepted: Vec::new(),
            bytes: size(event),
        }
    }
}

/// About as much as an event takes in memory, in bytes.
pub(super) fn size(event: &AgentEvent) -> usize {
    let metadata = if event.metadata.is_empty() {
        0
    } else {
        serde_json::json!(event.metadata).to_string().len()
    };
    let files: usize = event.files.iter().map(|file| file.data.len()).sum();
    let history = if event.history.is_empty() {
        0
    } else {
        serde_json::json!(event.history).to_string().len()
    };
    OVERHEAD
        + event.input.len()
        + event.instructions.as_ref().map_or(0, String::len)
        + metadata
        + files
        + history
}

/// All of them, by their ids.
#[derive(Default)]
pub(super) struct AllPending {
    events: HashMap<String, Pending>,
    /// How many belong to each chain.
    chains: HashMap<String, usize>,
    bytes: usize,
}

impl AllPending {
    /// Whether any event belongs to the chain of that trace.
    pub(super) fn has_chain(&self, trace_id: &str) -> bool {
        self.chains.contains_key(trace_id)
    }

    /// What all of them take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, event_id: &str) -> Option<&Pending> {
        self.events.get(event_id)
    }

    pub(super) fn get_mut(&mut self, event_id: &str) -> Option<&mut Pending> {
        self.events.get_mut(event_id)
    }

    pub(super) fn insert(&mut self, event_id: String, pending: Pending) {
        self.bytes += pending.bytes;
        *self.chains.entry(pending.trace_id.clone()).or_default() += 1;
        if let Some(before) = self.events.insert(event_id, pending) {
            self.discount(&before);
        }
    }

    pub(super) fn remove(&mut self, event_id: &str) {
        if let Some(gone) = self.events.remove(event_id) {
            self.discount(&gone);
        }
    }

    fn discount(&mut self, gone: &Pending) {
        self.bytes -= gone.bytes;
        if let Some(count) = self.chains.get_mut(&gone.trace_id) {
            *count -= 1;
            if *count == 0 {
                self.chains.remove(&gone.trace_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_store::suite::samples::{event, instance};

    #[test]
    fn what_is_over_takes_no_room() {
        let mut all = AllPending::default();
        for (id, length) in [("a", 10), ("b", 100), ("a", 1_000)] {
            let event = AgentEvent {
                input: "x".repeat(length),
                ..event(id, &instance("k"))
            };
            all.insert(id.to_owned(), Pending::of(&event));
        }
        assert_eq!(all.bytes(), 2 * OVERHEAD + 1_100);
        all.remove("a");
        all.remove("a");
        assert_eq!(all.bytes(), OVERHEAD + 100);
        let chain = event("b", &instance("k")).trace.trace_id;
        assert!(all.has_chain(&chain));
        all.remove("b");
        assert_eq!((all.bytes(), all.has_chain(&chain)), (0, false));
    }
}
