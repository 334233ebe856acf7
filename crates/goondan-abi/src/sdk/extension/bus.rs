//! Events of the runtime, and events between one library's extensions in a conversation.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::sdk::panics;
use crate::wire::{JsonObject, LogLevel, LogLine};

type Listener = Arc<dyn Fn(&Value) + Send + Sync>;

#[derive(Default)]
pub(super) struct ConversationBus {
    listeners: Mutex<BusListeners>,
}

#[derive(Default)]
struct BusListeners {
    last: u64,
    by_name: HashMap<String, Vec<(u64, u64, Listener)>>,
}

impl ConversationBus {
    fn lock(&self) -> MutexGuard<'_, BusListeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events as one extension uses them. Its subscriptions end with its registration.
#[derive(Clone)]
pub struct Events {
    bus: Arc<ConversationBus>,
    /// Identifies the subscriptions of this registration.
    owner: u64,
    /// True if the host does not have the current list of event names yet.
    is_news: Arc<AtomicBool>,
}

impl Events {
    pub(super) fn new(bus: Arc<ConversationBus>) -> Self {
        let owner = {
            let mut listeners = bus.lock();
            listeners.last += 1;
            listeners.last
        };
        Events {
            bus,
            owner,
            is_news: Arc::default(),
        }
    }

    /// Calls `listener` with each event of that name. [`Events::off`] with the returned number ends
    /// the subscription.
    pub fn on(&self, name: &str, listener: impl Fn(&Value) + Send + Sync + 'static) -> u64 {
        let mut listeners = self.bus.lock();
        listeners.last += 1;
        let number = listeners.last;
        listeners.by_name.entry(name.to_owned()).or_default().push((
            number,
            self.owner,
            Arc::new(listener),
        ));
        self.is_news.store(true, Ordering::Relaxed);
        number
    }

    /// Ends a subscription.
    pub fn off(&self, number: u64) {
        self.retain(|known, _| known != number);
        self.is_news.store(true, Ordering::Relaxed);
    }

    /// Calls all listeners. A panic in a listener is logged.
    pub fn emit(&self, name: &str, event: impl Into<Value>) {
        let event = event.into();
        // Called without the lock, because listeners may subscribe and emit.
        let listeners = self
            .bus
            .lock()
            .by_name
            .get(name)
            .cloned()
            .unwrap_or_default();
        listeners
            .iter()
            .for_each(|(_, _, listener)| call_listener(listener, name, &event));
    }

    /// Calls this registration's listeners with an event of the runtime. The host sends such events
    /// to each registration.
    pub(super) fn dispatch_event(&self, event: &Value) {
        let name = event["type"].as_str().unwrap_or_default();
        let listeners = self
            .bus
            .lock()
            .by_name
            .get(name)
            .cloned()
            .unwrap_or_default();
        let own = listeners
            .iter()
            .filter(|(_, owner, _)| *owner == self.owner);
        own.for_each(|(_, _, listener)| call_listener(listener, name, event));
    }

    /// Returns the names of the subscribed events if the host does not have them yet.
    pub(super) fn news(&self) -> Option<Vec<String>> {
        if !self.is_news.swap(false, Ordering::Relaxed) {
            return None;
        }
        let listeners = self.bus.lock();
        let is_own = |listeners: &[(u64, u64, Listener)]| {
            listeners.iter().any(|(_, owner, _)| *owner == self.owner)
        };
        let own = listeners
            .by_name
            .iter()
            .filter(|(_, listeners)| is_own(listeners));
        Some(
            own.map(|(name, _)| name.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        )
    }

    /// Ends all subscriptions of the registration.
    pub(super) fn end(&self) {
        self.retain(|_, owner| owner != self.owner);
    }

    /// Keeps the listeners for which `keep` returns true.
    fn retain(&self, keep: impl Fn(u64, u64) -> bool) {
        let mut gone = Vec::new();
        for known in self.bus.lock().by_name.values_mut() {
            let (retained, ended): (Vec<_>, Vec<_>) = std::mem::take(known)
                .into_iter()
                .partition(|(number, owner, _)| keep(*number, *owner));
            *known = retained;
            gone.extend(ended);
        }
        // Dropped without the lock, because listeners may own values with foreign code.
        drop(gone);
    }
}

/// Calls a listener, and logs a panic.
fn call_listener(listener: &Listener, name: &str, event: &Value) {
    if let Err(panic) = panics::catch(|| listener(event)) {
        let message = format!("a listener of the event {name} failed: {panic}");
        panics::log(&LogLine {
            level: LogLevel::Error,
            message,
            target: None,
            fields: JsonObject::new(),
        });
    }
}
