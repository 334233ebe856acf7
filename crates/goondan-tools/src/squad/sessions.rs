//! The sessions that work was routed to. They are kept with the conversation that routed it, so a program that starts again
//! knows them.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;
use goondan_core::ports::powers::ToolState;
use goondan_core::ports::tool::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::state::lock;

/// The name under which sessions are kept.
const STATE: &str = "squad";
/// How many sessions of a conversation are kept, the newest ones.
const MOST_KEPT: usize = 100;

/// How many sessions are remembered.
const MOST: usize = 500;

/// The sessions of a swarm, oldest first.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
    /// What earlier programs have kept was read.
    restored: OnceCell<()>,
    /// What is written last is what is newest.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    opened: u64,
    sessions: Vec<Session>,
}

/// One session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    number: u64,
    /// Who routed it.
    owner: InstanceId,
    /// Another process has routed it: whoever waits for it routes it again, under the same key.
    is_restored: bool,
    pub(super) told: Told,
}

/// What is kept of a session, and told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The agent of the squad.
    pub(super) agent: String,
    /// The key of its conversation; empty until there is one.
    pub(super) key: String,
    pub(super) state: State,
    pub(super) opened: DateTime<Utc>,
    /// When its state changed last.
    pub(super) changed: DateTime<Utc>,
}

/// What is known of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Its answer is waited for.
    Active,
    /// Nobody waits; its answer comes as a message.
    Started,
    /// It has answered.
    Completed,
    /// It has failed, or nobody wants its answer any more.
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

    /// Whether it may still be at work.
    pub(super) fn is_open(self) -> bool {
        matches!(self, State::Active | State::Started)
    }
}

/// A place among the sessions that are waited for. Without a word about how it went, it went wrong.
pub(super) struct Turn {
    sessions: Arc<Sessions>,
    number: u64,
    end: State,
}

impl Turn {
    /// How the session ended, or that it goes on by itself.
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

    /// Adds a session; its number.
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
    /// Takes a place for a session of `agent`, unless `limit` are waited for already.
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

    /// Notes the key of a session's conversation. One that goes on after a restart is known by it already.
    pub(super) fn name(&self, turn: &Turn, key: &str) {
        let mut table = lock(&self.table);
        table
            .sessions
            .retain(|session| session.number == turn.number || session.told.key != key);
        table.change(turn.number, |told| key.clone_into(&mut told.key));
    }

    /// Notes which of the sessions that nobody waits for are done: those whose key `is_busy` denies.
    pub(super) fn settle(&self, is_busy: impl Fn(&str) -> bool) {
        let mut table = lock(&self.table);
        let told = table.sessions.iter_mut().map(|session| &mut session.told);
        told.filter(|told| told.state == State::Started && !is_busy(&told.key))
            .for_each(|told| told.turns(State::Completed));
    }

    /// All that are remembered, oldest first.
    pub(super) fn all(&self) -> Vec<Told> {
        lock(&self.table)
            .sessions
            .iter()
            .map(|session| session.told.clone())
            .collect()
    }

    /// Reads what earlier programs have kept, once. Nobody in this one waits for those sessions.
    pub(super) async fn restore(&self, state: &dyn ToolState) -> Result<(), ToolError> {
        let read = async {
            let mut kept = Vec::new();
            for (owner, value) in state.everywhere(STATE).await? {
                // What was edited by hand and cannot be read counts as nothing.
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

    /// Keeps the sessions that `owner` has routed, once they have a conversation.
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
