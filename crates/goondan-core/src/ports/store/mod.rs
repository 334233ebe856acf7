//! Durable storage of a swarm.
//!
//! A [`Store`] is one workspace, in seven parts, each with its own port:
//!
//! * [`WorkspaceLog`]: accepted and finished events;
//! * [`ConversationStore`]: messages per instance, protected by a [`InstanceLease`];
//! * [`InstanceStore`]: metadata of each instance;
//! * [`RecordStore`]: small named values, changed by compare-and-set;
//! * [`RuntimeEventStore`]: runtime events for subscribers;
//! * [`WorkspacePaths`]: the working directories of tools;
//! * [`TurnJournalStore`](super::journal::Journal): the side effects of running turns.
//!
//! Every call that can block is asynchronous: a store can be a file, or a database in a network.
//! Any store must survive a crash between any two calls (rule C4).

mod begun_turns;
mod conversations;
mod events;
mod instances;
mod log;
mod records;
mod store_error;

use std::path::PathBuf;

use crate::ids::InstanceId;
use crate::ports::journal::TurnJournalStore;

pub use begun_turns::{TurnRemains, put_begun_first};
pub use conversations::{
    BaseChange, ConversationStore, FinishedTurn, FirstMessages, InstanceLease, LatestMessages,
    OpenConversation, StoredConversation,
};
pub use events::RuntimeEventStore;
pub use instances::{AccumulatedUsage, InstanceMeta, InstanceStatus, InstanceStore};
pub use log::{
    DurabilityResolver, DurabilityTicket, HandledEvent, LogRecord, RecoveredState, WorkspaceLog,
};
pub use records::{
    DEAD_LETTERS_RECORD, DeadLetter, RecordStore, RecordVersion, VersionedRecord, update,
};
pub use store_error::StoreError;

/// Storage of a workspace.
pub trait Store:
    WorkspaceLog
    + ConversationStore
    + InstanceStore
    + RecordStore
    + RuntimeEventStore
    + WorkspacePaths
    + TurnJournalStore
{
}

impl<
    T: WorkspaceLog
        + ConversationStore
        + InstanceStore
        + RecordStore
        + RuntimeEventStore
        + WorkspacePaths
        + TurnJournalStore,
> Store for T
{
}

/// Working directories of an instance's tools. They are always on this machine.
pub trait WorkspacePaths: Send + Sync {
    /// Returns the default working directory of an instance's tools.
    fn workdir(&self, id: &InstanceId) -> PathBuf;
    /// Returns the file for a complete output that was truncated for the model.
    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf;
}

/// Runs blocking work, such as disk access, on a thread for blocking work.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(StoreError::Closed))
}
