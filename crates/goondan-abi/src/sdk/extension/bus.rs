//! Events between the extensions of a conversation that come from one library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::sdk::panics;
use crate::wire::{JsonObject, LogLevel, LogLine};

type Listener = Arc<dyn Fn(&Value) + Send + Sync>;

/// Who listens to what in a conversation.
#[derive(Default)]
pub(super) struct Bus {
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    last: u64,
    by_name: HashMap<String, Vec<(u64, u64, Listener)>>,
}

impl Bus {
    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events between extensions, as one extension has them. Its subscriptions end with its registration.
#[derive(Clone)]
pub struct Events {
    bus: Arc<Bus>,
    /// Tells the subscriptions of one registration from others.
    owner: u64,
}

impl Events {
    pub(super) fn new(bus: Arc<Bus>) -> Self {
        let owner = {
            let mut listeners = bus.lock();
            listeners.last += 1;
            listeners.last
        };
        Events { bus, owner }
    }

    /// Has `listener` called with each event of that name; the number ends it ([`Events::off`]).
    pub fn on(&self, name: &str, listener: impl Fn(&Value) + Send + Sync + 'static) -> u64 {
        let mut listeners = self.bus.lock();
        listeners.last += 1;
        let number = listeners.last;
        listeners.by_name.entry(name.to_owned()).or_default().push((number, self.owner, Arc::new(listener)));
        number
    }

    /// Ends a subscription.
    pub fn off(&self, number: u64) {
        self.retain(|known, _| known != number);
    }

    /// Tells all listeners. One that panics is logged.
    pub fn emit(&self, name: &str, event: impl Into<Value>) {
        let event = event.into();
        // Called without the lock, for listeners may listen and emit.
        let listeners = self.bus.lock().by_name.get(name).cloned().unwrap_or_default();
        for (_, _, listener) in listeners {
            if let Err(panic) = panics::catch(|| listener(&event)) {
                let message = format!("a listener to the event {name} failed: {panic}");
                panics::log(&LogLine { level: LogLevel::Error, message, target: None, fields: JsonObject::new() });
            }
        }
    }

    /// Ends all subscriptions of the registration.
    pub(super) fn end(&self) {
        self.retain(|_, owner| owner != self.owner);
    }

    fn retain(&self, keep: impl Fn(u64, u64) -> bool) {
        let mut gone = Vec::new();
        for known in self.bus.lock().by_name.values_mut() {
            let (kept, ended): (Vec<_>, Vec<_>) =
                std::mem::take(known).into_iter().partition(|(number, owner, _)| keep(*number, *owner));
            *known = kept;
            gone.extend(ended);
        }
        // Without the lock, for what listeners hold is the author's.
        drop(gone);
    }
}
