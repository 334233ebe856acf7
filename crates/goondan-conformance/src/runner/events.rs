//! Runtime events of a test case, across all restarts.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan::event::{RuntimeEvent, SwarmEvent};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// A thread that records the events of a swarm. The channel carries no messages: it closes when the
/// thread ends.
pub(crate) struct EventDrain {
    thread_ended: mpsc::Receiver<()>,
}

impl EventDrain {
    /// Waits until all events are recorded, at most for `limit`: leaked references can keep the
    /// swarm alive.
    pub(crate) fn wait(self, limit: Duration) {
        // Returns an error in both cases, when the channel closes and after the limit.
        let _ = self.thread_ended.recv_timeout(limit);
    }
}

/// Collects events and wakes waiting tasks. Clones share the events.
#[derive(Debug, Clone)]
pub(crate) struct CaseEvents {
    shared: Arc<Mutex<Vec<RuntimeEvent>>>,
    event_count: Arc<watch::Sender<usize>>,
}

impl CaseEvents {
    pub(crate) fn new() -> Self {
        CaseEvents {
            shared: Arc::default(),
            event_count: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Records an event and wakes waiting steps.
    fn push(&self, event: RuntimeEvent) {
        let mut events = self.lock();
        events.push(event);
        self.event_count.send_replace(events.len());
    }

    /// Records the runtime events of a swarm until it ends. Starts a thread for this, so that
    /// killing the runtime of the swarm loses no event.
    pub(crate) fn record_from(&self, mut receiver: UnboundedReceiver<SwarmEvent>) -> EventDrain {
        let recorded = self.clone();
        let (held_by_thread, thread_ended) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(event) = receiver.blocking_recv() {
                if let SwarmEvent::Runtime(event) = event {
                    recorded.push(RuntimeEvent::clone(&event));
                }
            }
            drop(held_by_thread);
        });
        EventDrain { thread_ended }
    }

    /// Returns all events so far, in the order in which they occurred.
    pub(crate) fn to_vec(&self) -> Vec<RuntimeEvent> {
        self.lock().clone()
    }

    /// Returns the number of events of a type, optionally of one agent.
    pub(crate) fn count(&self, event: &str, agent: Option<&str>) -> usize {
        let is_match = |e: &&RuntimeEvent| {
            type_of(e) == event && agent.is_none_or(|agent| e.agent_name == agent)
        };
        self.lock().iter().filter(is_match).count()
    }

    /// Waits for `count` events of a type. On timeout, returns the current number.
    pub(crate) async fn wait(
        &self,
        event: &str,
        agent: Option<&str>,
        count: usize,
        within: Duration,
    ) -> Result<(), usize> {
        let mut event_count = self.event_count.subscribe();
        let wait_for_count = async {
            while self.count(event, agent) < count {
                // The sender exists as long as `self`.
                let _ = event_count.changed().await;
            }
        };
        match tokio::time::timeout(within, wait_for_count).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.count(event, agent)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RuntimeEvent>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the event as a line of `runtime-events.jsonl`.
pub(crate) fn to_json(event: &RuntimeEvent) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

/// Returns the event's `type`, such as `turn.started`.
pub(crate) fn type_of(event: &RuntimeEvent) -> String {
    match to_json(event).get("type") {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    }
}
