//! Every runtime event of a case, over all its lives.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan::event::{RuntimeEvent, SwarmEvent};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// A subscription that is being read.
pub(crate) struct Followed(mpsc::Receiver<()>);

impl Followed {
    /// Waits until everything is read, but no longer than `limit`: something may keep the swarm.
    pub(crate) fn wait(self, limit: Duration) {
        // Nothing is ever sent: the wait ends with the thread that holds the sender.
        let _ = self.0.recv_timeout(limit);
    }
}

/// Collects events and wakes those who wait for them. Clones share what was collected.
#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    shared: Arc<Mutex<Vec<RuntimeEvent>>>,
    grown: Arc<watch::Sender<usize>>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        EventLog {
            shared: Arc::default(),
            grown: Arc::new(watch::Sender::new(0)),
        }
    }

    fn push(&self, event: RuntimeEvent) {
        let mut events = self.lock();
        events.push(event);
        self.grown.send_replace(events.len());
    }

    /// Collects what `receiver` brings until the swarm is gone; the answer ends with that. A thread of its own does, so
    /// that a kill loses nothing.
    pub(crate) fn follow(&self, mut receiver: UnboundedReceiver<SwarmEvent>) -> Followed {
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
        Followed(followed)
    }

    /// Everything so far, in the order in which it happened.
    pub(crate) fn all(&self) -> Vec<RuntimeEvent> {
        self.lock().clone()
    }

    /// How many events of type `event` there are, of `agent` where one is named.
    pub(crate) fn count(&self, event: &str, agent: Option<&str>) -> usize {
        let wanted = |e: &&RuntimeEvent| {
            type_of(e) == event && agent.is_none_or(|agent| e.agent_name == agent)
        };
        self.lock().iter().filter(wanted).count()
    }

    /// Waits until there are `count` such events; the number that there was when time ran out otherwise.
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
                // The sender lives as long as `self`.
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

/// The event as a line of `runtime-events.jsonl`.
pub(crate) fn json(event: &RuntimeEvent) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

/// The event's `type`, such as `turn.started`.
pub(crate) fn type_of(event: &RuntimeEvent) -> String {
    match json(event).get("type") {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    }
}
