//! The routed sessions. They are stored with the conversation that routed them, and survive a
//! restart of the program.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;
use goondan_core::ports::capabilities::ToolStateStore;
use goondan_core::ports::tool::HandlerError;
use goondan_core::reserved_names::SQUAD_STATE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::mutex_lock::lock;

/// Maximum number of stored sessions per conversation; the newest are kept.
const MAX_STORED_SESSIONS: usize = 100;

/// Maximum number of remembered sessions.
const MAX_REMEMBERED_SESSIONS: usize = 500;

/// The conversations to which the squad tools of a swarm routed work, oldest first.
#[derive(Default)]
pub(crate) struct RoutedSessions {
    table: Mutex<RoutedSessionTable>,
    /// Initialized once the sessions of earlier programs are loaded.
    restored: OnceCell<()>,
    /// Held while sessions are stored, so that older data never overwrites newer data.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct RoutedSessionTable {
    opened: u64,
    sessions: Vec<RoutedSession>,
}

#[derive(Debug, Clone)]
pub(super) struct RoutedSession {
    number: u64,
    /// The conversation that routed the session.
    owner: InstanceId,
    /// True if an earlier process routed the session. A waiting caller routes it again with the
    /// same key.
    is_restored: bool,
    pub(super) record: RoutedSessionRecord,
}

/// The stored and displayed fields of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoutedSessionRecord {
    pub(super) agent: String,
    /// Key of the session's conversation; empty until it exists.
    pub(super) key: String,
    pub(super) state: RoutedSessionState,
    pub(super) opened: DateTime<Utc>,
    /// Time of the last change of state.
    pub(super) changed: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoutedSessionState {
    /// A call waits for the answer.
    Active,
    /// No call waits; the answer will be a message.
    Started,
    Completed,
    /// The session has failed, or its call was cancelled.
    Error,
}

impl RoutedSessionState {
    pub(super) fn name(self) -> &'static str {
        match self {
            RoutedSessionState::Active => "active",
            RoutedSessionState::Started => "started",
            RoutedSessionState::Completed => "completed",
            RoutedSessionState::Error => "error",
        }
    }

    /// Returns true if the session may still be running.
    pub(super) fn is_open(self) -> bool {
        matches!(
            self,
            RoutedSessionState::Active | RoutedSessionState::Started
        )
    }
}

/// A place among the awaited sessions. Dropping it without a result marks the session as failed.
pub(super) struct AwaitedSession {
    sessions: Arc<RoutedSessions>,
    number: u64,
    end: RoutedSessionState,
}

impl AwaitedSession {
    /// Sets the final state, or marks the session as continuing without the call.
    pub(super) fn set_end_state(mut self, state: RoutedSessionState) {
        self.end = state;
    }
}

impl Drop for AwaitedSession {
    fn drop(&mut self) {
        lock(&self.sessions.table).update_session(self.number, |record| record.set_state(self.end));
    }
}

impl RoutedSessionRecord {
    /// Sets the state and the time of the change.
    fn set_state(&mut self, state: RoutedSessionState) {
        self.state = state;
        self.changed = Utc::now();
    }
}

impl RoutedSessionTable {
    /// Applies `change` to the session `number`, if it is still remembered.
    fn update_session(&mut self, number: u64, change: impl FnOnce(&mut RoutedSessionRecord)) {
        if let Some(session) = self
            .sessions
            .iter_mut()
            .find(|session| session.number == number)
        {
            change(&mut session.record);
        }
    }

    /// Adds a session and returns its number.
    fn add(&mut self, owner: InstanceId, record: RoutedSessionRecord, is_restored: bool) -> u64 {
        if self.sessions.len() >= MAX_REMEMBERED_SESSIONS
            && let Some(oldest) = self
                .sessions
                .iter()
                .position(|session| !session.record.state.is_open())
        {
            self.sessions.remove(oldest);
        }
        self.opened += 1;
        self.sessions.push(RoutedSession {
            number: self.opened,
            owner,
            is_restored,
            record,
        });
        self.opened
    }
}

impl RoutedSessions {
    /// Reserves a place for a session of `agent`; `None` if `limit` sessions are already awaited.
    pub(super) fn open(
        self: &Arc<Self>,
        owner: InstanceId,
        agent: &str,
        limit: usize,
    ) -> Option<AwaitedSession> {
        let mut table = lock(&self.table);
        let active = table
            .sessions
            .iter()
            .filter(|session| session.record.state.is_open() && !session.is_restored)
            .count();
        if active >= limit {
            return None;
        }
        let opened = Utc::now();
        let agent = agent.to_owned();
        let key = String::new();
        let number = table.add(
            owner,
            RoutedSessionRecord {
                agent,
                key,
                state: RoutedSessionState::Active,
                opened,
                changed: opened,
            },
            false,
        );
        Some(AwaitedSession {
            sessions: Arc::clone(self),
            number,
            end: RoutedSessionState::Error,
        })
    }

    /// Sets the key of a session's conversation. Replaces the restored entry of a session that
    /// continues after a restart.
    pub(super) fn name(&self, turn: &AwaitedSession, key: &str) {
        let mut table = lock(&self.table);
        table
            .sessions
            .retain(|session| session.number == turn.number || session.record.key != key);
        table.update_session(turn.number, |record| key.clone_into(&mut record.key));
    }

    /// Marks sessions without a waiting call as finished if `is_busy` is false for their key.
    pub(super) fn finish_idle(&self, is_busy: impl Fn(&str) -> bool) {
        let mut table = lock(&self.table);
        let records = table.sessions.iter_mut().map(|session| &mut session.record);
        for record in records
            .filter(|record| record.state == RoutedSessionState::Started && !is_busy(&record.key))
        {
            record.set_state(RoutedSessionState::Completed);
        }
    }

    /// Returns all remembered sessions, oldest first.
    pub(super) fn records(&self) -> Vec<RoutedSessionRecord> {
        lock(&self.table)
            .sessions
            .iter()
            .map(|session| session.record.clone())
            .collect()
    }

    /// Loads the sessions of earlier programs, once. No call of this program waits for them.
    pub(super) async fn restore(&self, state: &dyn ToolStateStore) -> Result<(), HandlerError> {
        let read = async {
            let mut records = Vec::new();
            for (owner, value) in state.all_values(SQUAD_STATE).await? {
                // An unreadable value was edited by hand, and counts as empty.
                let stored: Vec<RoutedSessionRecord> =
                    serde_json::from_value(value).unwrap_or_default();
                records.extend(stored.into_iter().map(|record| (owner.clone(), record)));
            }
            records.sort_by_key(|(_, record)| record.opened);
            let mut table = lock(&self.table);
            for (owner, mut record) in records {
                if record.state == RoutedSessionState::Active {
                    record.state = RoutedSessionState::Started;
                }
                table.add(owner, record, true);
            }
            Ok(())
        };
        self.restored.get_or_try_init(|| read).await.copied()
    }

    /// Stores the sessions that `owner` has routed and that have a conversation.
    pub(super) async fn save(
        &self,
        owner: &InstanceId,
        state: &dyn ToolStateStore,
    ) -> Result<(), HandlerError> {
        let _keeping = self.keeping.lock().await;
        state.save(SQUAD_STATE, self.stored_value(owner)).await
    }

    /// Returns the newest sessions of `owner` that have a conversation, for the store.
    fn stored_value(&self, owner: &InstanceId) -> Value {
        let table = lock(&self.table);
        let sessions = table
            .sessions
            .iter()
            .filter(|session| session.owner == *owner && !session.record.key.is_empty());
        let mut records: Vec<&RoutedSessionRecord> =
            sessions.map(|session| &session.record).collect();
        records.drain(..records.len().saturating_sub(MAX_STORED_SESSIONS));
        json!(records)
    }
}
