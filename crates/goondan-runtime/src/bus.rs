//! Carries events to whoever watches, and to the store.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent};
use crate::ids::{InstanceId, TraceContext};
use crate::ports::clock::Clock;
use crate::ports::store::Store;

/// Publishes events in the order in which they happen.
pub struct EventBus {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    // Unbounded on purpose: a test or a recorder must see every event, and a slow one must not slow a turn down. A
    // subscriber that has had enough drops its receiver.
    subscribers: Mutex<Vec<UnboundedSender<SwarmEvent>>>,
}

impl EventBus {
    /// A bus without subscribers.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        EventBus { store, clock, subscribers: Mutex::default() }
    }

    /// Everything from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        let (sender, receiver) = unbounded_channel();
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// Something happened in an instance: it is stored and published.
    pub fn runtime(&self, instance: &InstanceId, trace: &TraceContext, kind: RuntimeEventKind) {
        let event = RuntimeEvent {
            kind,
            timestamp: self.clock.now(),
            agent_name: instance.agent.clone(),
            instance_key: instance.instance_key.clone(),
            trace: trace.clone(),
        };
        self.store.log(&event);
        self.publish(SwarmEvent::Runtime(Box::new(event)));
    }

    /// Only for those who watch now.
    pub fn publish(&self, event: SwarmEvent) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}
