//! Conversations: a base of compacted messages, and the events of the running turn.

use std::sync::Arc;

use async_trait::async_trait;

use super::{InstanceMeta, StoreError};
use crate::agent_event::AgentEvent;
use crate::event::TurnResult;
use crate::ids::InstanceId;
use crate::message::{Message, MessageEvent};

/// Storage of the conversations of all instances.
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// Claims an instance for this process, and revokes the claim of any other process.
    async fn claim(&self, id: &InstanceId) -> Result<InstanceLease, StoreError>;

    /// Opens the conversation of a claimed instance. The caller ensures that only one is open at a
    /// time.
    async fn open(&self, lease: InstanceLease) -> Result<Box<dyn OpenConversation>, StoreError>;

    /// Reads the current conversation, including one that another process has claimed.
    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError>;

    /// Reads at least the latest `count` messages of the current conversation. A store that cannot
    /// leave out earlier messages reads all.
    async fn read_latest(
        &self,
        id: &InstanceId,
        _count: usize,
    ) -> Result<LatestMessages, StoreError> {
        Ok(LatestMessages {
            omitted: 0,
            stored: self.read(id).await?,
        })
    }

    /// Reads at least the first `count` messages of the current conversation. A store that cannot
    /// leave out later messages reads all.
    async fn read_first(
        &self,
        id: &InstanceId,
        _count: usize,
    ) -> Result<FirstMessages, StoreError> {
        Ok(FirstMessages {
            stored: self.read(id).await?,
            omitted: 0,
        })
    }
}

/// The first messages of a conversation, as the store returns them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FirstMessages {
    /// Messages that were read.
    pub stored: StoredConversation,
    /// Number of messages after `stored`.
    pub omitted: usize,
}

/// The latest messages of a conversation, as the store returns them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LatestMessages {
    /// Number of messages before `stored`.
    pub omitted: usize,
    /// Messages that were read. The events change none of the omitted messages.
    pub stored: StoredConversation,
}

/// Right to change a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceLease {
    /// The conversation.
    pub instance: InstanceId,
    /// Increases with each claim of the instance. A change with an older epoch fails with
    /// [`StoreError::Fenced`].
    pub epoch: u64,
}

/// An open conversation. Every change can fail with [`StoreError::Fenced`].
#[async_trait]
pub trait OpenConversation: Send + Sync {
    /// Reads base and events.
    async fn load(&mut self) -> Result<StoredConversation, StoreError>;

    /// Appends an event of the running turn. It survives a crash of this process, but possibly not
    /// a power failure before the turn ends.
    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError>;

    /// Deletes the events of a turn that starts again from its journal.
    async fn discard_events(&mut self) -> Result<(), StoreError>;

    /// Makes `fold` the base, durably, and deletes the events. After an interruption, the next
    /// [`load`](OpenConversation::load) finds the events. The base then contains none, some (only
    /// for [`BaseChange::Append`]) or all of them. `Conversation::restore` handles all these cases.
    async fn checkpoint(&mut self, fold: BaseChange<'_>) -> Result<(), StoreError>;

    /// Ends a turn: its result, its answer and its messages become durable together, or none of
    /// them does. `meta` is written soon after. Returns false if the conversation must be opened
    /// and loaded again before further use.
    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError>;
}

/// A turn that ended. Writing it also accepts its answer, for an instance that waits for it.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedTurn {
    /// Id of the turn.
    pub turn_id: String,
    /// Events that the turn handled: the one that started it, and answers that joined it.
    pub event_ids: Vec<String>,
    /// Result of the turn.
    pub result: TurnResult,
    /// Instance whose turn made the event. It can request the result again until that turn ends.
    pub asked_by: Option<InstanceId>,
    /// Answer to an asynchronous request, as an event for the requester.
    pub answer: Option<AgentEvent>,
}

/// A conversation in its stored form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredConversation {
    /// Compacted messages.
    pub base: Vec<Arc<Message>>,
    /// Events after the base, in order.
    pub events: Vec<MessageEvent>,
    /// Warnings about unreadable data, for people.
    pub warnings: Vec<String>,
}

/// Change of a base.
#[derive(Debug, Clone, Copy)]
pub enum BaseChange<'a> {
    /// Appends new messages.
    Append(&'a [Arc<Message>]),
    /// Replaces the base.
    Rewrite(&'a [Arc<Message>]),
}
