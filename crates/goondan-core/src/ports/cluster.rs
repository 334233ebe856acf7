//! Nodes that run one swarm together: a leader that assigns complete turns to its workers.
//!
//! The leader decides everything that concerns several instances. A worker runs turns, and writes
//! their journals and conversations. Nodes exchange strings, which only the engine interprets. Each
//! message arrives exactly once and in order while the worker is a member. An ended membership
//! never starts again.

use async_trait::async_trait;

use super::store::{FinishedTurn, InstanceMeta, StoreError};
use crate::agent_event::AgentEvent;

/// A worker of the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMember {
    /// Node name. A node that joins again has another name.
    pub node: String,
    /// Maximum number of concurrent turns on the node.
    pub turns: usize,
    /// The node has the same project as the leader, so it can receive turns.
    pub is_fit: bool,
}

/// Event for the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterEvent {
    /// A node joined or changed.
    Member(ClusterMember),
    /// A node left. Its later writes are rejected, so its turns can start on other nodes.
    Left {
        /// Node name.
        node: String,
    },
    /// A member sent a message.
    Said {
        /// Node name.
        node: String,
        /// The message.
        words: String,
    },
}

/// Stored end of a turn, written by a node before the node left.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTurn {
    /// Data written at the end of the turn.
    pub turn: FinishedTurn,
    /// Current metadata of the instance.
    pub meta: Option<InstanceMeta>,
}

/// Members of the cluster, for the leader.
#[async_trait]
pub trait ClusterMembership: Send + Sync {
    /// Returns the next event; `None` when this node is no longer the leader. Called by only one
    /// task.
    async fn next_event(&self) -> Option<ClusterEvent>;

    /// Sends a message to a member. Ignored if the member left.
    fn send_message(&self, node: &str, words: String);

    /// Publishes the number of running turns per node, for users. The leader's own turns have no
    /// node name.
    fn note_turns(&self, turns: Vec<(Option<String>, usize)>);

    /// Returns the end of the turn of `event`, if it was written before its node left. `joined` are
    /// the events that possibly joined the turn.
    async fn find_turn_end(
        &self,
        event: &AgentEvent,
        joined: &[String],
    ) -> Result<Option<EndedTurn>, StoreError>;

    /// Returns the maximum number of concurrent turns on this node. With 0, none run here while
    /// there are other nodes.
    fn own_turns(&self) -> usize;
}

/// The leader, for a member.
#[async_trait]
pub trait LeaderChannel: Send + Sync {
    /// Receives the next message; `None` when this node is no longer a member. Called by only one
    /// task.
    async fn receive_message(&self) -> Option<String>;

    /// Sends a message to the leader.
    fn send_message(&self, words: String);

    /// Publishes whether this node receives turns, for users.
    fn note_fit(&self, is_fit: bool);
}
