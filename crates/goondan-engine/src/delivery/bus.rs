//! Carries events to whoever watches, and to the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ears::Ears;
use crate::cluster::Uplink;
use crate::cluster::wire::ToLeader;
use crate::policy::redact::{Redactor, TextStream};
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::store::Store;

/// Is told of each event where it happens, in order, and says whether it wants to hear more. All turns wait for it meanwhile: it
/// only takes note, and never publishes anything itself.
pub type Observer = Box<dyn FnMut(&SwarmEvent) -> bool + Send>;

/// Publishes events in the order in which they happen.
pub struct EventBus {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    /// The node that leads, where this one works for it: everything goes there.
    uplink: Option<Arc<Uplink>>,
    observers: Mutex<Vec<Observer>>,
    /// The extensions of the turns that run on this node.
    ears: Ears,
    /// What [`EventBus::sequence_at_start`] gives.
    first_sequence: u64,
    last_sequence: AtomicU64,
}

impl EventBus {
    /// A bus without subscribers.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        redactor: Redactor,
        uplink: Option<Arc<Uplink>>,
    ) -> Self {
        let first_sequence = u64::try_from(clock.now().timestamp_micros()).unwrap_or_default();
        let (observers, last_sequence) = (Mutex::default(), AtomicU64::new(first_sequence));
        let ears = Ears::default();
        EventBus {
            store,
            clock,
            redactor,
            uplink,
            observers,
            ears,
            first_sequence,
            last_sequence,
        }
    }

    /// A number that lies between the events of earlier processes and those of this one.
    pub(crate) fn sequence_at_start(&self) -> u64 {
        self.first_sequence
    }

    /// Everything from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        // Unbounded on purpose: a test or a recorder must see every event, and a slow one must not slow a turn down. A
        // subscriber that has had enough drops its receiver.
        let (sender, receiver) = unbounded_channel();
        self.pass_to(sender);
        receiver
    }

    /// Passes everything from now on to `receiver`, too.
    pub(crate) fn pass_to(&self, receiver: UnboundedSender<SwarmEvent>) {
        self.observe(Box::new(move |event| receiver.send(event.clone()).is_ok()));
    }

    /// Tells `observer` of everything from now on.
    pub(crate) fn observe(&self, observer: Observer) {
        self.observers().push(observer);
    }

    /// Something happened in an instance: it is stored and published.
    pub fn runtime(&self, instance: &InstanceId, trace: &TraceContext, mut kind: RuntimeEventKind) {
        clean(&self.redactor, &mut kind);
        let event = RuntimeEvent {
            kind,
            sequence: 0,
            timestamp: self.clock.now(),
            agent_name: instance.agent.clone(),
            instance_key: instance.instance_key.clone(),
            trace: trace.clone(),
        };
        self.ears.hear(&event);
        match &self.uplink {
            None => self.happened(event),
            Some(uplink) => uplink.tell(&ToLeader::Happened(Box::new(event))),
        }
    }

    /// Something happened, here or on another node: it gets its number, is stored and published.
    pub(crate) fn happened(&self, event: RuntimeEvent) {
        // Numbered and published under one lock: who reads on from a number must not have missed a smaller one.
        let mut observers = self.observers();
        let event = Arc::new(RuntimeEvent {
            sequence: self.next_sequence(),
            ..event
        });
        self.store.record(&event);
        tell(&mut observers, &SwarmEvent::Runtime(event));
    }

    /// A number that is greater than all before it, also than those of earlier processes: it follows the clock.
    pub(crate) fn next_sequence(&self) -> u64 {
        let now = u64::try_from(self.clock.now().timestamp_micros()).unwrap_or_default();
        let next = |last: u64| Some(now.max(last + 1));
        let last = self
            .last_sequence
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now.max(last.unwrap_or_default() + 1)
    }

    /// The extensions of the turns that run on this node.
    pub(crate) fn ears(&self) -> &Ears {
        &self.ears
    }

    /// What makes the pieces of an answer fit to be published.
    pub fn text_stream(&self) -> TextStream {
        self.redactor.stream()
    }

    /// The node that leads, where this one works for it.
    pub(crate) fn uplink(&self) -> Option<&Arc<Uplink>> {
        self.uplink.as_ref()
    }

    /// Only for those who watch now.
    pub fn publish(&self, event: SwarmEvent) {
        if let Some(uplink) = &self.uplink {
            return uplink.publish(event);
        }
        tell(&mut self.observers(), &event);
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(observers: &mut Vec<Observer>, event: &SwarmEvent) {
    observers.retain_mut(|observer| observer(event));
}

/// Texts that somebody else wrote may hold a secret; ids and names come from the project and the engine.
fn clean(redactor: &Redactor, kind: &mut RuntimeEventKind) {
    match kind {
        // A model may have made it up.
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
            // A model makes these up.
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
            grants.iter_mut().for_each(|grant| redactor.clean(grant));
        }
        // A model may have made it up.
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
    fn an_observer_is_told_where_it_happens_until_it_has_heard_enough() {
        let store = Arc::new(MemoryStore::new("/nowhere".into()));
        let bus = EventBus::new(store, Arc::new(SystemClock), Redactor::new(), None);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&heard);
        bus.observe(Box::new(move |event| {
            let SwarmEvent::Text { delta, .. } = event else {
                return false;
            };
            let mut notes = notes.lock().unwrap();
            notes.push(delta.clone());
            notes.len() < 2
        }));
        let mut all = bus.subscribe();
        for (delta, until_then) in [("a", 1), ("b", 2), ("c", 2)] {
            let (instance, turn_id) = (InstanceId::new("a", "main"), "t".to_owned());
            bus.publish(SwarmEvent::Text {
                instance,
                turn_id,
                delta: delta.to_owned(),
            });
            // Nothing ran in between that could have passed it on.
            assert_eq!(heard.lock().unwrap().len(), until_then, "{delta}");
            assert!(all.try_recv().is_ok(), "who subscribes hears all of it");
        }
    }
}
