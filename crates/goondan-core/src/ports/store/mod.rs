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

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Error of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A file can't be read or written.
    #[error("failed to {doing} {}: {cause}", path.display())]
    File {
        /// The failed operation, such as `append to`.
        doing: String,
        /// The file or directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Another process has claimed the instance, so writes of this process are rejected.
    #[error("another process has taken over {0}")]
    Fenced(InstanceId),
    /// A record can't be decoded, so its turn can't continue.
    #[error("the store can't decode {what}: {cause}")]
    Damaged {
        /// Name of the record.
        what: String,
        /// Cause of the failure.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store is closed, or this process is about to end.
    #[error("the store is closed")]
    Closed,
    /// Any other error, such as a lost connection.
    #[error("{0}")]
    Other(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// I/O errors that last until a user removes the cause.
const LASTING_ERRORS: [io::ErrorKind; 5] = [
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::FileTooLarge,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ReadOnlyFilesystem,
];

impl StoreError {
    /// Returns true if the operation can succeed later without a user, for example when the
    /// database is available again. A full disk needs a user.
    pub fn is_passing(&self) -> bool {
        match self {
            StoreError::File { cause, .. } => !cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| LASTING_ERRORS.contains(&error.kind())),
            StoreError::Other(_) => true,
            StoreError::Fenced(_) | StoreError::Damaged { .. } | StoreError::Closed => false,
        }
    }

    /// Returns an error of a file operation.
    pub fn file(
        doing: &str,
        path: &Path,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        StoreError::File {
            doing: doing.to_owned(),
            path: path.to_owned(),
            cause: cause.into().into(),
        }
    }
}

/// Runs blocking work, such as disk access, on a thread for blocking work.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(StoreError::Closed))
}
