//! Nodes that run one swarm together: one leads, and hands whole turns to those that work for it.
//!
//! The leader decides everything that concerns several instances; a worker runs turns, and writes their journals and
//! conversations itself. What they say to each other are texts, whose meaning the engine knows. Between two nodes each text comes
//! once and in order, for as long as the worker is a member; a membership that has ended does not begin again.

use async_trait::async_trait;

use super::store::{FinishedTurn, InstanceMeta, StoreError};
use crate::inbound::AgentEvent;

/// A node that works for the one that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name. One that comes back has another.
    pub node: String,
    /// So many turns may be at work there at a time.
    pub turns: usize,
    /// Its project is the one that serves here: it may get turns.
    pub is_fit: bool,
}

/// What the leader hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A node is a member from now on, or has changed.
    Member(Member),
    /// A node is a member no more. Nothing that it does from now on counts: its turns may begin elsewhere.
    Left {
        /// Which one.
        node: String,
    },
    /// A member says something.
    Said {
        /// Which one.
        node: String,
        /// What.
        words: String,
    },
}

/// How a turn ended whose node has left behind its end.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTurn {
    /// What was written with its end.
    pub turn: FinishedTurn,
    /// What is known of its instance since.
    pub meta: Option<InstanceMeta>,
}

/// The members, for the node that leads.
#[async_trait]
pub trait Crew: Send + Sync {
    /// What comes next; `None` where this node leads no more. One task asks.
    async fn news(&self) -> Option<News>;

    /// Says something to a member. To one that has left nothing is said.
    fn say(&self, node: &str, words: String);

    /// Tells people how many turns run where; the leader's own stand under no name.
    fn note_turns(&self, turns: Vec<(Option<String>, usize)>);

    /// The end of the turn of `event`, where it was written before its node left. `joined` are the events that may have joined it.
    async fn ended(
        &self,
        event: &AgentEvent,
        joined: &[String],
    ) -> Result<Option<EndedTurn>, StoreError>;

    /// So many turns may be at work on this node at a time; with 0, none as long as there are other nodes.
    fn own_turns(&self) -> usize;
}

/// The node that leads, for a member.
#[async_trait]
pub trait Leader: Send + Sync {
    /// What it says next; `None` where this node is no member any more. One task asks.
    async fn hear(&self) -> Option<String>;

    /// Says something to it.
    fn say(&self, words: String);

    /// Tells people whether this node gets turns.
    fn note_fit(&self, is_fit: bool);
}
