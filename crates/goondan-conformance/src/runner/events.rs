//! Runtime events of a test case, across all restarts.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan::event::{RuntimeEvent, SwarmEvent};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// A subscription with a reader thread.
pub(crate) struct EventDrain(mpsc::Receiver<()>);

impl EventDrain {
    /// Waits until all events are read, at most for `limit`: leaked references can keep the swarm
    /// alive.
    pub(crate) fn wait(self, limit: Duration) {
        // The channel carries no messages. The wait ends when the thread drops the sender.
        let _ = self.0.recv_timeout(limit);
    }
}

/// Collects events and wakes waiting tasks. Clones share the events.
#[derive(Debug, Clone)]
pub(crate) struct CaseEvents {
    shared: Arc<Mutex<Vec<RuntimeEvent>>>,
    grown: Arc<watch::Sender<usize>>,
}

impl CaseEvents {
    pub(crate) fn new() -> Self {
        CaseEvents {
            shared: Arc::default(),
            grown: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Records an event and wakes waiting steps.
    fn push(&self, event: RuntimeEvent) {
        let mut events = self.lock();
        events.push(event);
        self.grown.send_replace(events.len());
    }

    /// Collects events until the swarm ends; the returned value waits for that. Uses a separate
    /// thread, so that a kill loses no events.
    pub(crate) fn follow(&self, mut receiver: UnboundedReceiver<SwarmEvent>) -> EventDrain {
        let log = self.clone();
        let (ended, followed) = mpsc::channel();
        std::thread::spawn(move || {
            let _ended: mpsc::Sender<()> = ended;
            while let Some(event) = receiver.blocking_recv() {
                if let SwarmEvent::Runtime(event) = event {
                    log.push(RuntimeEvent::clone(&event));
                }
            }
        });
        EventDrain(followed)
    }

    /// Returns all events so far, in the order in which they occurred.
    pub(crate) fn all(&self) -> Vec<RuntimeEvent> {
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
        let mut grown = self.grown.subscribe();
        let enough = async {
            while self.count(event, agent) < count {
                // The sender exists as long as `self`.
                let _ = grown.changed().await;
            }
        };
        match tokio::time::timeout(within, enough).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.count(event, agent)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RuntimeEvent>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the event as a line of `runtime-events.jsonl`.
pub(crate) fn json(event: &RuntimeEvent) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

/// Returns the event's `type`, such as `turn.started`.
pub(crate) fn type_of(event: &RuntimeEvent) -> String {
    match json(event).get("type") {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    }
}
