//! Extensions that are registered in a runner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_abi::wire::{KeptState, RegistrationResult};
use serde_json::Value;

use super::ConversationChanges;
use super::sync_state::{self, SyncState, TurnBase};
use crate::ids::InstanceId;
use crate::ports::extension::ExtensionContext;

/// Maximum number of registered extensions in a runner; the least recently used is dropped first.
const MAX_SESSIONS: usize = 1_000;

/// An extension that is registered for an instance.
pub struct ExtensionSession {
    /// Number of the session in the runner.
    pub number: u64,
    /// Layers and tools that the extension registered.
    pub registered: RegistrationResult,
    instance: InstanceId,
    sync_state: Mutex<Option<SyncState>>,
    /// Types of the events that the extension subscribes to.
    listens: Mutex<HashSet<String>>,
}

impl ExtensionSession {
    /// Returns a session for a new registration.
    pub fn new(number: u64, registered: RegistrationResult, instance: InstanceId) -> Self {
        ExtensionSession {
            number,
            registered,
            instance,
            sync_state: Mutex::default(),
            listens: Mutex::default(),
        }
    }

    /// Replaces the subscribed event types; `None` keeps them.
    pub(super) fn subscribe(&self, names: Option<Vec<String>>) {
        if let Some(names) = names {
            *self.listens.lock().unwrap_or_else(PoisonError::into_inner) =
                names.into_iter().collect();
        }
    }

    /// Returns true if the extension subscribes to `event`; with `None`, whether it subscribes to
    /// any event.
    pub(super) fn is_subscribed(&self, event: Option<&Value>) -> bool {
        let names = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            None => !names.is_empty(),
            Some(event) => event["type"]
                .as_str()
                .is_some_and(|name| names.contains(name)),
        }
    }

    /// Discards the sync state after an error: the extension then receives the complete
    /// conversation again.
    pub(super) fn reset_sync_state(&self) {
        *self.lock_sync_state() = None;
    }

    /// Returns the state of the conversation that the extension received last.
    fn lock_sync_state(&self) -> MutexGuard<'_, Option<SyncState>> {
        self.sync_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes to send for the turn of `extension_context`, with or without the
    /// conversation.
    pub fn pending_changes(
        &self,
        extension_context: &ExtensionContext,
        with_conversation: bool,
    ) -> ConversationChanges {
        let state = extension_context
            .state
            .take_restored()
            .map(|value| KeptState { value });
        if !with_conversation {
            return ConversationChanges {
                state,
                ..ConversationChanges::default()
            };
        }
        let (base, events) = sync_state::next_changes(
            &mut self.lock_sync_state(),
            &extension_context.turn_id,
            &extension_context.transcript,
            self.registered.keeps,
        );
        let changes = ConversationChanges {
            events,
            state,
            ..ConversationChanges::default()
        };
        match base {
            TurnBase::Known => changes,
            TurnBase::Whole(messages) => ConversationChanges {
                base: Some(messages),
                ..changes
            },
            TurnBase::Changed(splice) => ConversationChanges {
                splice: Some(splice),
                ..changes
            },
        }
    }
}

/// Sessions of a runner, by key.
#[derive(Default)]
pub struct SessionRegistry(Mutex<SessionTable>);

#[derive(Default)]
struct SessionTable {
    last: u64,
    used: u64,
    by_key: HashMap<String, (u64, Arc<ExtensionSession>)>,
}

impl SessionRegistry {
    /// Returns the sessions of this runner.
    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an unused number.
    pub fn number(&self) -> u64 {
        let mut table = self.lock();
        table.last += 1;
        table.last
    }

    /// Returns the session with this key.
    pub fn find(&self, key: &str) -> Option<Arc<ExtensionSession>> {
        let mut table = self.lock();
        table.used += 1;
        let now = table.used;
        let (used, session) = table.by_key.get_mut(key)?;
        *used = now;
        Some(Arc::clone(session))
    }

    /// Adds a session. Returns the number of a session that was dropped to make room.
    pub fn keep(&self, key: String, session: Arc<ExtensionSession>) -> Option<u64> {
        let mut table = self.lock();
        table.used += 1;
        let now = table.used;
        table.by_key.insert(key, (now, session));
        if table.by_key.len() <= MAX_SESSIONS {
            return None;
        }
        // A session with other owners is in use.
        let idle = table
            .by_key
            .iter()
            .filter(|(_, (_, session))| Arc::strong_count(session) == 1);
        let oldest = idle
            .min_by_key(|(_, (used, _))| *used)
            .map(|(key, _)| key.clone())?;
        table
            .by_key
            .remove(&oldest)
            .map(|(_, session)| session.number)
    }

    /// Removes the sessions of an instance and returns their numbers.
    pub fn forget(&self, instance: &InstanceId) -> Vec<u64> {
        let mut table = self.lock();
        let mut numbers = Vec::new();
        table.by_key.retain(|_, (_, session)| {
            let goes = session.instance == *instance;
            if goes {
                numbers.push(session.number);
            }
            !goes
        });
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64) -> Arc<ExtensionSession> {
        Arc::new(ExtensionSession::new(
            number,
            RegistrationResult::default(),
            InstanceId::new("a", format!("{number}")),
        ))
    }

    #[test]
    fn the_least_recently_used_free_session_is_evicted() {
        let sessions = SessionRegistry::default();
        let session_in_use = session(0);
        assert_eq!(
            sessions.keep("0".to_owned(), Arc::clone(&session_in_use)),
            None
        );
        for number in 1..MAX_SESSIONS as u64 {
            assert_eq!(sessions.keep(number.to_string(), session(number)), None);
        }
        assert!(sessions.find("1").is_some());
        // The first session is in use, and the second session was just found.
        assert_eq!(sessions.keep("new".to_owned(), session(9_999)), Some(2));
        assert_eq!(sessions.forget(&InstanceId::new("a", "1")), [1]);
        assert!(sessions.find("1").is_none() && sessions.find("0").is_some());
    }
}
