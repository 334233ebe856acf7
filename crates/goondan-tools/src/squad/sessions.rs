//! The routed sessions. They are stored with the conversation that routed them, and survive a
//! restart of the program.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;
use goondan_core::ports::powers::ToolState;
use goondan_core::ports::tool::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::state::lock;

/// Name of the stored state.
const STATE: &str = "squad";
/// Maximum number of stored sessions per conversation; the newest are kept.
const MOST_KEPT: usize = 100;

/// Maximum number of remembered sessions.
const MOST: usize = 500;

/// The sessions of a swarm, oldest first.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
    /// Initialized once the sessions of earlier programs are loaded.
    restored: OnceCell<()>,
    /// Held while sessions are stored, so that older data never overwrites newer data.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    opened: u64,
    sessions: Vec<Session>,
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    number: u64,
    /// The conversation that routed it.
    owner: InstanceId,
    /// True if an earlier process routed it. A waiting caller routes it again with the same key.
    is_restored: bool,
    pub(super) told: Told,
}

/// The stored and displayed fields of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) agent: String,
    /// Key of its conversation; empty until it exists.
    pub(super) key: String,
    pub(super) state: State,
    pub(super) opened: DateTime<Utc>,
    /// Time of the last change of state.
    pub(super) changed: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// A call waits for the answer.
    Active,
    /// No call waits; the answer will be a message.
    Started,
    Completed,
    /// The session has failed, or its call was cancelled.
    Error,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Started => "started",
            State::Completed => "completed",
            State::Error => "error",
        }
    }

    /// Returns true if the session may still be running.
    pub(super) fn is_open(self) -> bool {
        matches!(self, State::Active | State::Started)
    }
}

/// A place among the awaited sessions. Dropping it without a result marks the session as failed.
pub(super) struct Turn {
    sessions: Arc<Sessions>,
    number: u64,
    end: State,
}

impl Turn {
    /// Sets the final state, or marks the session as continuing without the call.
    pub(super) fn ends(mut self, state: State) {
        self.end = state;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.sessions.table).change(self.number, |told| told.turns(self.end));
    }
}

impl Told {
    fn turns(&mut self, state: State) {
        self.state = state;
        self.changed = Utc::now();
    }
}

impl Table {
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Told)) {
        if let Some(session) = self
            .sessions
            .iter_mut()
            .find(|session| session.number == number)
        {
            change(&mut session.told);
        }
    }

    /// Adds a session and returns its number.
    fn add(&mut self, owner: InstanceId, told: Told, is_restored: bool) -> u64 {
        if self.sessions.len() >= MOST
            && let Some(oldest) = self
                .sessions
                .iter()
                .position(|session| !session.told.state.is_open())
        {
            self.sessions.remove(oldest);
        }
        self.opened += 1;
        self.sessions.push(Session {
            number: self.opened,
            owner,
            is_restored,
            told,
        });
        self.opened
    }
}

impl Sessions {
    /// Reserves a place for a session of `agent`; `None` if `limit` sessions are already awaited.
    pub(super) fn open(
        self: &Arc<Self>,
        owner: InstanceId,
        agent: &str,
        limit: usize,
    ) -> Option<Turn> {
        let mut table = lock(&self.table);
        let active = table
            .sessions
            .iter()
            .filter(|session| session.told.state.is_open() && !session.is_restored)
            .count();
        if active >= limit {
            return None;
        }
        let (opened, agent, key) = (Utc::now(), agent.to_owned(), String::new());
        let number = table.add(
            owner,
            Told {
                agent,
                key,
                state: State::Active,
                opened,
                changed: opened,
            },
            false,
        );
        Some(Turn {
            sessions: Arc::clone(self),
            number,
            end: State::Error,
        })
    }

    /// Sets the key of a session's conversation. Replaces the restored entry of a session that
    /// continues after a restart.
    pub(super) fn name(&self, turn: &Turn, key: &str) {
        let mut table = lock(&self.table);
        table
            .sessions
            .retain(|session| session.number == turn.number || session.told.key != key);
        table.change(turn.number, |told| key.clone_into(&mut told.key));
    }

    /// Marks sessions without a waiting call as finished if `is_busy` is false for their key.
    pub(super) fn settle(&self, is_busy: impl Fn(&str) -> bool) {
        let mut table = lock(&self.table);
        let told = table.sessions.iter_mut().map(|session| &mut session.told);
        told.filter(|told| told.state == State::Started && !is_busy(&told.key))
            .for_each(|told| told.turns(State::Completed));
    }

    /// Returns all remembered sessions, oldest first.
    pub(super) fn all(&self) -> Vec<Told> {
        lock(&self.table)
            .sessions
            .iter()
            .map(|session| session.told.clone())
            .collect()
    }

    /// Loads the sessions of earlier programs, once. No call of this program waits for them.
    pub(super) async fn restore(&self, state: &dyn ToolState) -> Result<(), ToolError> {
        let read = async {
            let mut kept = Vec::new();
            for (owner, value) in state.everywhere(STATE).await? {
                // An unreadable value was edited by hand, and counts as empty.
                let told: Vec<Told> = serde_json::from_value(value).unwrap_or_default();
                kept.extend(told.into_iter().map(|told| (owner.clone(), told)));
            }
            kept.sort_by_key(|(_, told)| told.opened);
            let mut table = lock(&self.table);
            for (owner, mut told) in kept {
                if told.state == State::Active {
                    told.state = State::Started;
                }
                table.add(owner, told, true);
            }
            Ok(())
        };
        self.restored.get_or_try_init(|| read).await.copied()
    }

    /// Stores the sessions that `owner` has routed and that have a conversation.
    pub(super) async fn keep(
        &self,
        owner: &InstanceId,
        state: &dyn ToolState,
    ) -> Result<(), ToolError> {
        let _keeping = self.keeping.lock().await;
        state.save(STATE, self.kept(owner)).await
    }

    fn kept(&self, owner: &InstanceId) -> Value {
        let table = lock(&self.table);
        let own = table
            .sessions
            .iter()
            .filter(|session| session.owner == *owner && !session.told.key.is_empty());
        let mut own: Vec<&Told> = own.map(|session| &session.told).collect();
        own.drain(..own.len().saturating_sub(MOST_KEPT));
        json!(own)
    }
}
