//! Events between submission and end, and their memory use.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::{AcceptanceKind, SubmitError};
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;

/// Memory limit for all events of a swarm, in bytes. Events over the limit are refused, so that a
/// client that sends in a loop cannot exhaust memory.
pub(super) const MAX_PENDING_BYTES: usize = 512 * 1024 * 1024;

/// Size limit of one event, in bytes.
pub(super) const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// Size limit of the metadata of one event, as JSON, in bytes. Metadata is parsed, and small values
/// take far more memory than their text.
pub(super) const MAX_METADATA_BYTES: usize = 1024 * 1024;

/// Estimated size of an event without its strings, in bytes.
const EVENT_OVERHEAD_BYTES: usize = 1024;

/// Caller that waits for the result of an event.
pub(super) struct ResultWaiter {
    pub(super) sender: oneshot::Sender<TurnResult>,
    /// Instance whose turn is blocked until then.
    pub(super) caller: Option<InstanceId>,
}

pub(super) struct PendingEvent {
    pub(super) target: InstanceId,
    pub(super) trace_id: String,
    /// Instance whose turn sent the event.
    pub(super) asked_by: Option<InstanceId>,
    pub(super) waiters: Vec<ResultWaiter>,
    pub(super) accepted: Vec<oneshot::Sender<Result<AcceptanceKind, SubmitError>>>,
    bytes: usize,
}

impl PendingEvent {
    /// Returns the entry of an accepted event, without waiters.
    pub(super) fn from_event(event: &AgentEvent) -> Self {
        PendingEvent {
            target: event.target.clone(),
            trace_id: event.trace.trace_id.clone(),
            asked_by: event.caller().cloned(),
            waiters: Vec::new(),
            accepted: Vec::new(),
            bytes: size(event),
        }
    }
}

/// Returns the approximate memory use of an event, in bytes.
pub(super) fn size(event: &AgentEvent) -> usize {
    let metadata = metadata_size(event);
    let files: usize = event.files.iter().map(|file| file.data.len()).sum();
    let history = if event.history.is_empty() {
        0
    } else {
        serde_json::json!(event.history).to_string().len()
    };
    EVENT_OVERHEAD_BYTES
        + event.input.len()
        + event.instructions.as_ref().map_or(0, String::len)
        + metadata
        + files
        + history
}

/// Returns the size of an event's metadata as JSON, in bytes.
pub(super) fn metadata_size(event: &AgentEvent) -> usize {
    if event.metadata.is_empty() {
        0
    } else {
        // A map of strings and JSON values can always be written.
        serde_json::to_vec(&event.metadata).map_or(usize::MAX, |text| text.len())
    }
}

#[derive(Default)]
pub(super) struct PendingEvents {
    events: HashMap<String, PendingEvent>,
    /// Number of events per trace id.
    chains: HashMap<String, usize>,
    bytes: usize,
}

impl PendingEvents {
    /// Returns true if an event of this trace is pending.
    pub(super) fn has_chain(&self, trace_id: &str) -> bool {
        self.chains.contains_key(trace_id)
    }

    /// Returns the total size of the pending events, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a pending event; `None` if it is unknown or handled.
    pub(super) fn get(&self, event_id: &str) -> Option<&PendingEvent> {
        self.events.get(event_id)
    }

    /// Returns a pending event; `None` if it is unknown or handled.
    pub(super) fn get_mut(&mut self, event_id: &str) -> Option<&mut PendingEvent> {
        self.events.get_mut(event_id)
    }

    /// Adds a pending event; replaces an event with the same id.
    pub(super) fn insert(&mut self, event_id: String, pending: PendingEvent) {
        self.bytes += pending.bytes;
        *self.chains.entry(pending.trace_id.clone()).or_default() += 1;
        if let Some(before) = self.events.insert(event_id, pending) {
            self.subtract_event(&before);
        }
    }

    /// Removes a handled event.
    pub(super) fn remove(&mut self, event_id: &str) {
        if let Some(gone) = self.events.remove(event_id) {
            self.subtract_event(&gone);
        }
    }

    /// Subtracts a removed event from the size and the trace counts.
    fn subtract_event(&mut self, gone: &PendingEvent) {
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
    fn a_removed_event_frees_its_bytes_and_its_chain() {
        let mut pending = PendingEvents::default();
        for (id, length) in [("a", 10), ("b", 100), ("a", 1_000)] {
            let event = AgentEvent {
                input: "x".repeat(length),
                ..event(id, &instance("k"))
            };
            pending.insert(id.to_owned(), PendingEvent::from_event(&event));
        }
        assert_eq!(pending.bytes(), 2 * EVENT_OVERHEAD_BYTES + 1_100);
        pending.remove("a");
        pending.remove("a");
        assert_eq!(pending.bytes(), EVENT_OVERHEAD_BYTES + 100);
        let chain = event("b", &instance("k")).trace.trace_id;
        assert!(pending.has_chain(&chain));
        pending.remove("b");
        assert_eq!((pending.bytes(), pending.has_chain(&chain)), (0, false));
    }
}
