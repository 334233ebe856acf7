//! The sessions that work was routed to, as far as this program has seen them.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::state::lock;

/// How many sessions are remembered.
const MOST: usize = 500;

/// The sessions of a swarm, oldest first.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
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
    /// The agent of the squad.
    pub(super) agent: String,
    /// The key of its conversation.
    pub(super) key: String,
    pub(super) state: State,
    pub(super) opened: Instant,
    /// When its state changed last.
    pub(super) changed: Instant,
}

/// What is known of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let mut table = lock(&self.sessions.table);
        if let Some(session) = table.sessions.iter_mut().find(|session| session.number == self.number) {
            session.state = self.end;
            session.changed = Instant::now();
        }
    }
}

impl Sessions {
    /// Takes a place for a session of `agent`, unless `limit` are waited for already.
    pub(super) fn open(self: &Arc<Self>, agent: &str, limit: usize) -> Option<Turn> {
        let mut table = lock(&self.table);
        let active = table.sessions.iter().filter(|session| session.state.is_open()).count();
        if active >= limit {
            return None;
        }
        if table.sessions.len() >= MOST
            && let Some(oldest) = table.sessions.iter().position(|session| !session.state.is_open())
        {
            table.sessions.remove(oldest);
        }
        table.opened += 1;
        let (number, now) = (table.opened, Instant::now());
        let (agent, key) = (agent.to_owned(), String::new());
        table.sessions.push(Session { number, agent, key, state: State::Active, opened: now, changed: now });
        Some(Turn { sessions: Arc::clone(self), number, end: State::Error })
    }

    /// Notes the key of a session's conversation.
    pub(super) fn name(&self, turn: &Turn, key: &str) {
        let mut table = lock(&self.table);
        if let Some(session) = table.sessions.iter_mut().find(|session| session.number == turn.number) {
            key.clone_into(&mut session.key);
        }
    }

    /// Notes which of the sessions that nobody waits for are done: those whose key `is_busy` denies.
    pub(super) fn settle(&self, is_busy: impl Fn(&str) -> bool) {
        let mut table = lock(&self.table);
        let started = table.sessions.iter_mut().filter(|session| session.state == State::Started);
        for session in started.filter(|session| !is_busy(&session.key)) {
            session.state = State::Completed;
            session.changed = Instant::now();
        }
    }

    /// All that are remembered, oldest first.
    pub(super) fn all(&self) -> Vec<Session> {
        lock(&self.table).sessions.clone()
    }
}
