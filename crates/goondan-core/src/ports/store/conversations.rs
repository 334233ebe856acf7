//! Conversations: a base of folded messages, and the events of the running turn.

use std::sync::Arc;

use async_trait::async_trait;

use super::{InstanceMeta, StoreError};
use crate::event::TurnResult;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;
use crate::message::{Message, MessageEvent};

/// Keeps the conversations of all instances.
#[async_trait]
pub trait Conversations: Send + Sync {
    /// Claims an instance for this process, and so takes it from whoever had claimed it before.
    async fn claim(&self, id: &InstanceId) -> Result<Lease, StoreError>;

    /// Opens the conversation of a claimed instance. One at a time is open; the caller sees to that.
    async fn open(&self, lease: Lease) -> Result<Box<dyn OpenConversation>, StoreError>;

    /// Looks at a conversation as it stands. It may be of an instance that another process has claimed.
    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError>;
}

/// The right to change a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Whose conversation it is.
    pub instance: InstanceId,
    /// Grows with each claim of the instance. A change under an older one fails with [`StoreError::Fenced`].
    pub epoch: u64,
}

/// An open conversation. Every call that changes it may fail with [`StoreError::Fenced`].
#[async_trait]
pub trait OpenConversation: Send + Sync {
    /// Reads base and events.
    async fn load(&mut self) -> Result<StoredConversation, StoreError>;

    /// Appends an event of the running turn. It survives this process; whether it survives a power failure shows when the turn
    /// ends.
    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError>;

    /// Forgets the events of a turn that starts over; its journal knows what had happened.
    async fn discard_events(&mut self) -> Result<(), StoreError>;

    /// Makes `fold` the base, durably, and forgets the events. Cut off, the next [`load`](OpenConversation::load) finds the
    /// events, and a base that holds none, some (of an [`Fold::Append`]) or all of them; `Conversation::restore` tells them
    /// apart.
    async fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError>;

    /// Ends a turn: its result, its answer and its messages are durable together, or none of them is. `meta` is kept, too,
    /// soon. Gives back whether the conversation may be used on; false where it has to be opened and loaded again.
    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: Fold<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError>;
}

/// A turn that is over. With it the answer is accepted that somebody waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedTurn {
    /// The turn.
    pub turn_id: String,
    /// The events that the turn handled: the one that started it, and answers that joined it.
    pub event_ids: Vec<String>,
    /// What came of it.
    pub result: TurnResult,
    /// The instance whose turn made the event: until that turn is over it may ask for the result again.
    pub asked_by: Option<InstanceId>,
    /// The answer to an asynchronous request, as an event for the one who asked.
    pub answer: Option<AgentEvent>,
}

/// A conversation as it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredConversation {
    /// Folded messages.
    pub base: Vec<Arc<Message>>,
    /// Events behind the base, in order.
    pub events: Vec<MessageEvent>,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
}

/// How a base changes.
#[derive(Debug, Clone, Copy)]
pub enum Fold<'a> {
    /// Only new messages behind it.
    Append(&'a [Arc<Message>]),
    /// A new base.
    Rewrite(&'a [Arc<Message>]),
}
