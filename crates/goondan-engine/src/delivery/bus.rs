//! Delivers runtime events to observers and to the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::extension_events::ExtensionSubscribers;
use crate::cluster::LeaderClient;
use crate::cluster::protocol::ToLeader;
use crate::policy::redact::{SecretRedactor, TextStream};
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::store::Store;

/// Callback for each event, in publication order. Returning `false` unsubscribes it.
///
/// All turns block while it runs, so it must return quickly and must not publish events itself.
pub type EventObserver = Box<dyn FnMut(&SwarmEvent) -> bool + Send>;

/// Publishes events in the order in which they happen.
pub struct EventBus {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    redactor: SecretRedactor,
    /// Connection to the leader node if this node is a worker; all events are sent there.
    leader_client: Option<Arc<LeaderClient>>,
    observers: Mutex<Vec<EventObserver>>,
    subscribers: ExtensionSubscribers,
    first_sequence: u64,
    last_sequence: AtomicU64,
}

impl EventBus {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        redactor: SecretRedactor,
        leader_client: Option<Arc<LeaderClient>>,
    ) -> Self {
        let first_sequence = u64::try_from(clock.now().timestamp_micros()).unwrap_or_default();
        let (observers, last_sequence) = (Mutex::default(), AtomicU64::new(first_sequence));
        let subscribers = ExtensionSubscribers::default();
        EventBus {
            store,
            clock,
            redactor,
            leader_client,
            observers,
            subscribers,
            first_sequence,
            last_sequence,
        }
    }

    /// Returns a sequence number between the events of earlier processes and the events of this
    /// one.
    pub(crate) fn sequence_at_start(&self) -> u64 {
        self.first_sequence
    }

    /// Subscribes to all events from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        // Unbounded on purpose: a test or a recorder must see every event, and a slow subscriber
        // must not slow a turn down. A subscriber unsubscribes by dropping its receiver.
        let (sender, receiver) = unbounded_channel();
        self.pass_to(sender);
        receiver
    }

    /// Sends all future events to `receiver` until it is closed.
    pub(crate) fn pass_to(&self, receiver: UnboundedSender<SwarmEvent>) {
        self.observe(Box::new(move |event| receiver.send(event.clone()).is_ok()));
    }

    /// Adds an observer of all future events.
    pub(crate) fn observe(&self, observer: EventObserver) {
        self.lock_observers().push(observer);
    }

    /// Stores and publishes an event of an instance.
    pub fn runtime(&self, instance: &InstanceId, trace: &TraceContext, mut kind: RuntimeEventKind) {
        redact_event(&self.redactor, &mut kind);
        let event = RuntimeEvent {
            kind,
            sequence: 0,
            timestamp: self.clock.now(),
            agent_name: instance.agent.clone(),
            instance_key: instance.instance_key.clone(),
            trace: trace.clone(),
        };
        self.subscribers.deliver(&event);
        match &self.leader_client {
            None => self.record_event(event),
            Some(leader_client) => leader_client.send(&ToLeader::Happened(Box::new(event))),
        }
    }

    /// Numbers, stores and publishes an event of this node or of another one.
    pub(crate) fn record_event(&self, event: RuntimeEvent) {
        // Numbered and published under one lock: a client that resumes from a number must not have
        // missed a smaller one.
        let mut observers = self.lock_observers();
        let event = Arc::new(RuntimeEvent {
            sequence: self.next_sequence(),
            ..event
        });
        self.store.record(&event);
        notify_observers(&mut observers, &SwarmEvent::Runtime(event));
    }

    /// Returns a number greater than all earlier numbers, including numbers of earlier processes:
    /// the number follows the clock.
    pub(crate) fn next_sequence(&self) -> u64 {
        let now = u64::try_from(self.clock.now().timestamp_micros()).unwrap_or_default();
        let next = |last: u64| Some(now.max(last + 1));
        let last = self
            .last_sequence
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now.max(last.unwrap_or_default() + 1)
    }

    /// Returns the extensions that receive events.
    pub(crate) fn extension_subscribers(&self) -> &ExtensionSubscribers {
        &self.subscribers
    }

    /// Returns a redactor for the chunks of a streamed answer.
    pub fn text_stream(&self) -> TextStream {
        self.redactor.stream()
    }

    /// Returns the connection to the leader; `None` on the leader itself.
    pub(crate) fn leader_client(&self) -> Option<&Arc<LeaderClient>> {
        self.leader_client.as_ref()
    }

    /// Publishes an event to the current observers only. Does not store the event.
    pub fn publish(&self, event: SwarmEvent) {
        if let Some(leader_client) = &self.leader_client {
            return leader_client.publish(event);
        }
        notify_observers(&mut self.lock_observers(), &event);
    }

    /// Returns the observers, locked.
    fn lock_observers(&self) -> MutexGuard<'_, Vec<EventObserver>> {
        self.observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes an event to all observers; removes observers that are closed.
fn notify_observers(observers: &mut Vec<EventObserver>, event: &SwarmEvent) {
    observers.retain_mut(|observer| observer(event));
}

/// Removes secrets from strings that a model, tool or external service wrote. Ids and names come
/// from the project and the engine, so they need no redaction.
fn redact_event(redactor: &SecretRedactor, kind: &mut RuntimeEventKind) {
    match kind {
        // The model may have invented this type.
        RuntimeEventKind::TurnStarted { event_type, .. } => redactor.clean(event_type),
        RuntimeEventKind::TurnFailed { error_message, .. }
        | RuntimeEventKind::StepFailed { error_message, .. }
        | RuntimeEventKind::ModelFailed { error_message, .. }
        | RuntimeEventKind::ToolFailed { error_message, .. } => redactor.clean(error_message),
        RuntimeEventKind::ToolProgress {
            title, metadata, ..
        } => {
            redactor.clean(title);
            redactor.clean_object(metadata);
        }
        RuntimeEventKind::ToolCalled {
            tool_call_id,
            tool_name,
            ..
        }
        | RuntimeEventKind::ToolCompleted {
            tool_call_id,
            tool_name,
            ..
        }
        | RuntimeEventKind::ApprovalRequested {
            tool_call_id,
            tool_name,
            ..
        }
        | RuntimeEventKind::ApprovalResolved {
            tool_call_id,
            tool_name,
            ..
        } => {
            // The model invents these.
            redactor.clean(tool_call_id);
            redactor.clean(tool_name);
        }
        RuntimeEventKind::ApprovalRemembered {
            tool_call_id,
            tool_name,
            grants,
            ..
        } => {
            redactor.clean(tool_call_id);
            redactor.clean(tool_name);
            for grant in grants {
                redactor.clean(grant);
            }
        }
        // The model may have invented this key.
        RuntimeEventKind::AgentSpawned {
            target_instance_key,
            ..
        } => redactor.clean(target_instance_key),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use goondan_core::ports::clock::SystemClock;
    use goondan_store::memory::MemoryStore;

    use super::*;

    #[test]
    fn observers_run_synchronously_until_they_return_false() {
        let store = Arc::new(MemoryStore::new("/nowhere".into()));
        let bus = EventBus::new(store, Arc::new(SystemClock), SecretRedactor::new(), None);
        let received = Arc::new(Mutex::new(Vec::new()));
        let texts = Arc::clone(&received);
        bus.observe(Box::new(move |event| {
            let SwarmEvent::Text { delta, .. } = event else {
                return false;
            };
            let mut texts = texts.lock().unwrap();
            texts.push(delta.clone());
            texts.len() < 2
        }));
        let mut subscriber = bus.subscribe();
        for (delta, expected) in [("a", 1), ("b", 2), ("c", 2)] {
            let (instance, turn_id) = (InstanceId::new("a", "main"), "t".to_owned());
            bus.publish(SwarmEvent::Text {
                instance,
                turn_id,
                delta: delta.to_owned(),
            });
            // No other task has run since `publish`, so the observer runs inside it.
            assert_eq!(received.lock().unwrap().len(), expected, "{delta}");
            assert!(
                subscriber.try_recv().is_ok(),
                "a subscriber receives every event"
            );
        }
    }
}
