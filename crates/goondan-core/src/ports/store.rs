//! Where conversations and accepted events are kept.
//!
//! Two things live here. The *inbox* of a workspace says which events were accepted and which are done; a turn is over
//! when its `Done` record is on disk. An *instance* has a conversation: a base, and the events of the running turn.
//! Any store must survive being cut off between any two calls (rule C4).

use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::Pricing;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{RuntimeEvent, TurnError, TurnResult};
use crate::handled::KeptResult;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;
use crate::message::{Message, MessageEvent};
use crate::narrowing::Narrowing;
use crate::ports::model::TokenUsage;

/// Why the store could not do it. The message says what failed on which file, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// A sentence that stands alone.
    pub message: String,
}

impl StoreError {
    /// What failed, where, and why.
    pub fn new(doing: &str, path: &std::path::Path, cause: &dyn std::fmt::Display) -> Self {
        StoreError { message: format!("failed to {doing} {}: {cause}", path.display()) }
    }
}

/// A record of the inbox. One record is on disk as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum InboxRecord {
    /// The event was taken; from now on it will be handled.
    Accepted {
        /// The event.
        event: Box<AgentEvent>,
    },
    /// The turn is over. With it the answer is accepted that somebody waits for.
    Done {
        /// The turn.
        turn_id: String,
        /// The events that the turn handled: the one that started it, and answers that joined it.
        event_ids: Vec<String>,
        /// What came of it.
        result: Box<TurnResult>,
        /// The instance whose turn made the event: until that turn is over it may ask for the result again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        asked_by: Option<InstanceId>,
        /// The answer to an asynchronous request, as an event for the one who asked.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        answer: Option<Box<AgentEvent>>,
        /// What the turn has added to its conversation, where that is on disk nowhere else.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        fold: Option<Box<CarriedFold>>,
    },
    /// Folds that earlier records carry are on disk in their bases, too.
    Settled {
        /// Of these conversations, up to these turns.
        folds: Vec<SettledFold>,
    },
    /// The event will not be handled: its sender gave up before its turn began.
    Withdrawn {
        /// The event.
        event_id: String,
        /// Why.
        reason: String,
    },
}

/// New messages of a conversation, or all of a short one that was rewritten, in the record that ends their turn. The record's
/// sync makes them safe, so that the base need not be synced with each turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedFold {
    /// Whose conversation it is.
    pub instance: InstanceId,
    /// Where in the base they come, as the store counts.
    pub at: u64,
    /// They are the whole conversation: whatever the base was before is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_whole: bool,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
}

/// Up to where the folds of a conversation are settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledFold {
    /// Whose conversation it is.
    pub instance: InstanceId,
    /// The last turn whose fold is in the base, on disk. Without one, all of which earlier records tell are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_id: Option<String>,
}

/// An event whose turn failed. It waits for somebody who has it tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The event.
    pub event: AgentEvent,
    /// Why its turn failed.
    pub error: TurnError,
    /// When.
    pub failed_at: DateTime<Utc>,
}

/// Called once a record is on disk, or could not be put there. It may run on any thread and must not block.
pub type OnDurable = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a workspace held when it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovered {
    /// Accepted and not done, in the order in which they were accepted; but an event whose turn had begun comes before all
    /// others of its instance.
    pub pending: Vec<AgentEvent>,
    /// Those of the pending events whose turn had begun.
    pub begun: Vec<String>,
    /// Recently handled events, oldest first: for answers that are asked for again, and for events that are delivered again.
    pub handled: Vec<HandledEvent>,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
}

/// An event that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct HandledEvent {
    /// The event.
    pub event_id: String,
    /// What came of it.
    pub result: KeptResult,
    /// The instance whose unfinished turn may ask for the result again.
    pub needed_by: Option<InstanceId>,
}

/// What is known of an instance without its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMeta {
    /// `idle`, `processing` or `retired`.
    pub status: InstanceStatus,
    /// Who it is.
    #[serde(rename = "agentName")]
    pub agent: String,
    /// Under which key.
    pub instance_key: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When its last turn ended.
    pub updated_at: DateTime<Utc>,
    /// Who made it; `None` for an input from outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<InstanceId>,
    /// Where its tools work, if a spawn said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// When it was retired (rule C6); `None` for any other status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retired_at: Option<DateTime<Utc>>,
    /// The only tools that may run in its turns, if whoever made it said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub narrowing: Option<Narrowing>,
    /// What its turns have used up.
    #[serde(skip_serializing_if = "Spending::is_nothing", default)]
    pub spending: Spending,
}

/// What turns have used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// Tokens, as the providers report them.
    pub usage: TokenUsage,
    /// What they cost by the prices that the Model resources declare; `None` while none did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<f64>,
}

impl Spending {
    /// One more turn.
    pub fn add(&mut self, usage: TokenUsage, pricing: Option<&Pricing>) {
        self.usage += usage;
        if let Some(pricing) = pricing {
            let cost = pricing.cost(usage.prompt_tokens, usage.completion_tokens);
            self.cost = Some(self.cost.unwrap_or_default() + cost);
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Spending::default()
    }
}

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceStatus {
    /// Nothing.
    Idle,
    /// A turn runs, or was cut off.
    Processing,
    /// It was idle for so long that it is about to be deleted; an event makes it idle again (rule C6).
    Retired,
}

impl InstanceMeta {
    /// The instance's identity.
    pub fn id(&self) -> InstanceId {
        InstanceId::new(&*self.agent, &*self.instance_key)
    }
}

/// A workspace. Calls may do file I/O; those that wait for a disk are marked.
pub trait Store: Send + Sync {
    /// What was left when the workspace was last closed or cut off. Asked once, before anything else. Nothing that was reported
    /// as on disk is missing in it.
    fn recover(&self) -> Result<Recovered, StoreError>;
    /// Appends to the inbox in the order of the calls and returns at once. Callbacks come in the same order.
    fn submit(&self, record: InboxRecord, on_durable: OnDurable);
    /// As [`submit`](Store::submit), but the calling thread may do the work and wait for a disk that is quick.
    fn commit(&self, record: InboxRecord, on_durable: OnDurable) {
        self.submit(record, on_durable);
    }
    /// As [`submit`](Store::submit), but where that can be done at once, the record is written when this comes back: a kill
    /// does not take it any more. Whether it is; then [`flush`](Store::flush) has to follow.
    fn write(&self, record: InboxRecord, on_durable: OnDurable) -> bool {
        self.submit(record, on_durable);
        false
    }
    /// Puts on disk what was [written](Store::write). The calling thread may do the work and wait for a disk that is quick.
    fn flush(&self) {}
    /// As [`submit`](Store::submit), for a record that nobody waits for. It is on disk before any that is submitted after it.
    fn submit_later(&self, record: InboxRecord) {
        self.submit(record, Box::new(|_| {}));
    }
    /// Every instance, in any order. One that has a conversation is among them even if what was known of it is lost.
    fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError>;
    /// Writes what is known of an instance, and makes its folder on the first call.
    fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError>;
    /// As [`put_meta`](Store::put_meta), soon: at the end of a turn, when nobody waits for it.
    fn put_meta_soon(&self, meta: &InstanceMeta) {
        if let Err(error) = self.put_meta(meta) {
            tracing::warn!(instance = %meta.id(), %error, "what is known of an instance was not written");
        }
    }
    /// Opens the conversation of an instance. One at a time is open; the caller sees to that.
    fn open(&self, id: &InstanceId) -> Result<Box<dyn InstanceStore>, StoreError>;
    /// What an extension keeps for an instance. Waits for the disk.
    fn extension_state(&self, id: &InstanceId, extension: &str) -> Result<Option<Value>, StoreError>;
    /// Replaces it. Waits for the disk.
    fn put_extension_state(&self, id: &InstanceId, extension: &str, state: &Value) -> Result<(), StoreError>;
    /// Events of an instance whose turns failed, oldest first.
    fn dead_letters(&self, id: &InstanceId) -> Result<Vec<DeadLetter>, StoreError>;
    /// Puts that list in place of the old one. Waits for the disk.
    fn put_dead_letters(&self, id: &InstanceId, letters: &[DeadLetter]) -> Result<(), StoreError>;
    /// Deletes everything of an instance that is not open; false where there is none.
    fn delete(&self, id: &InstanceId) -> Result<bool, StoreError>;
    /// Appends to the runtime events of an instance, soon. They are for watching, not for recovery.
    fn log(&self, event: &Arc<RuntimeEvent>);
    /// The folder of an instance that its tools work in by default.
    fn workdir(&self, id: &InstanceId) -> PathBuf;
    /// The file for the whole of an output that was cut for the model.
    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf;
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

/// An open conversation.
pub trait InstanceStore: Send + Sync {
    /// Reads base and events. Waits for the disk.
    fn load(&mut self) -> Result<StoredConversation, StoreError>;
    /// Appends an event of the running turn.
    fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError>;
    /// Forgets the events of a turn that starts over; its journal knows what had happened.
    fn discard_events(&mut self) -> Result<(), StoreError>;
    /// What the record that ends the turn `turn_id` has to carry, so that neither the turn's events nor its fold need a sync of
    /// their own. `None` where they do: then [`sync`](InstanceStore::sync) comes before that record.
    fn carry(&mut self, turn_id: &str, fold: Fold<'_>) -> Result<Option<CarriedFold>, StoreError>;
    /// Puts all appended events on disk, and what earlier turns have folded. Waits for the disk.
    fn sync(&mut self) -> Result<(), StoreError>;
    /// Makes `fold` the base and forgets the events. Waits for the disk, unless the fold is [carried](InstanceStore::carry) by
    /// a record that is on disk. Cut off, the next [`load`](InstanceStore::load) finds
    /// the events, and a base that holds none, some (of an `Append`) or all of them; `Conversation::restore` tells them apart.
    fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError>;
}

/// How a base changes.
#[derive(Debug, Clone, Copy)]
pub enum Fold<'a> {
    /// Only new messages behind it.
    Append(&'a [Arc<Message>]),
    /// A new base.
    Rewrite(&'a [Arc<Message>]),
}

/// Runs what waits for the disk on a thread that may wait.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|_| {
        Err(StoreError { message: "the store panicked, or the runtime is shutting down".to_owned() })
    })
}
