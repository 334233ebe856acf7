//! Delivery of runtime events to the extensions of running turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::extension::AttachedExtension;

/// Extensions that receive events, by instance, while a turn runs.
#[derive(Clone, Default)]
pub(crate) struct ExtensionSubscribers(Arc<Mutex<HashMap<InstanceId, TurnSubscribers>>>);

enum TurnSubscribers {
    /// The extensions are not attached yet; holds the events that they missed.
    Begun(Vec<RuntimeEvent>),
    /// The extensions are attached.
    Attached(Vec<Arc<dyn AttachedExtension>>),
}

/// Guard that ends the event delivery to a turn's extensions when it is dropped.
pub(crate) struct ExtensionSubscription {
    subscribers: ExtensionSubscribers,
    instance: InstanceId,
}

impl Drop for ExtensionSubscription {
    fn drop(&mut self) {
        let gone = self.subscribers.lock().remove(&self.instance);
        // Dropped without the lock: this may be the last reference to a runtime process.
        drop(gone);
    }
}

impl ExtensionSubscribers {
    /// Starts to collect events for the extensions of a turn that begins.
    pub(crate) fn begin_turn(&self, instance: &InstanceId) -> ExtensionSubscription {
        self.lock()
            .insert(instance.clone(), TurnSubscribers::Begun(Vec::new()));
        ExtensionSubscription {
            subscribers: self.clone(),
            instance: instance.clone(),
        }
    }

    /// Attaches the extensions of the turn and delivers the events they missed.
    pub(crate) fn attach_extensions(
        &self,
        instance: &InstanceId,
        extensions: Vec<Arc<dyn AttachedExtension>>,
    ) {
        let mut turns = self.lock();
        let Some(turn) = turns.get_mut(instance) else {
            return;
        };
        if let TurnSubscribers::Begun(missed) = turn {
            for event in missed.iter() {
                notify_extensions(&extensions, event);
            }
        }
        *turn = TurnSubscribers::Attached(extensions);
    }

    /// Delivers an event, in order per instance and without blocking.
    pub(crate) fn deliver(&self, event: &RuntimeEvent) {
        let mut turns = self.lock();
        if turns.is_empty() {
            return;
        }
        match turns.get_mut(&event.instance()) {
            None => {}
            Some(TurnSubscribers::Begun(missed)) => missed.push(event.clone()),
            Some(TurnSubscribers::Attached(extensions)) => notify_extensions(extensions, event),
        }
    }

    /// Returns the subscribers by instance, locked.
    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, TurnSubscribers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes an event to all `extensions`.
fn notify_extensions(extensions: &[Arc<dyn AttachedExtension>], event: &RuntimeEvent) {
    for extension in extensions {
        extension.notify_event(event);
    }
}
