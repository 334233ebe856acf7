//! The extensions that are told what happens in the instance that they are at work in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::extension::AttachedExtension;

/// Who listens in which instance, while its turns last.
#[derive(Clone, Default)]
pub(crate) struct Ears(Arc<Mutex<HashMap<InstanceId, Turn>>>);

/// A turn with extensions.
enum Turn {
    /// They have not taken their seats yet; what they have missed.
    Begun(Vec<RuntimeEvent>),
    /// They sit.
    Seated(Vec<Arc<dyn AttachedExtension>>),
}

/// As long as this is held, the extensions of a turn are told.
pub(crate) struct Listening {
    ears: Ears,
    instance: InstanceId,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let gone = self.ears.lock().remove(&self.instance);
        // Without the lock, for it may be the last who holds a process.
        drop(gone);
    }
}

impl Ears {
    /// A turn begins whose extensions are to be told.
    pub(crate) fn open(&self, instance: &InstanceId) -> Listening {
        self.lock()
            .insert(instance.clone(), Turn::Begun(Vec::new()));
        Listening {
            ears: self.clone(),
            instance: instance.clone(),
        }
    }

    /// The extensions of the turn have taken their seats, and are told what they have missed.
    pub(crate) fn seat(&self, instance: &InstanceId, extensions: Vec<Arc<dyn AttachedExtension>>) {
        let mut turns = self.lock();
        let Some(turn) = turns.get_mut(instance) else {
            return;
        };
        if let Turn::Begun(missed) = turn {
            missed.iter().for_each(|event| tell(&extensions, event));
        }
        *turn = Turn::Seated(extensions);
    }

    /// Something happened. In order for each instance, and without waiting for anybody.
    pub(crate) fn hear(&self, event: &RuntimeEvent) {
        let mut turns = self.lock();
        if turns.is_empty() {
            return;
        }
        match turns.get_mut(&event.instance()) {
            None => {}
            Some(Turn::Begun(missed)) => missed.push(event.clone()),
            Some(Turn::Seated(extensions)) => tell(extensions, event),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(extensions: &[Arc<dyn AttachedExtension>], event: &RuntimeEvent) {
    extensions
        .iter()
        .for_each(|extension| extension.happened(event));
}
