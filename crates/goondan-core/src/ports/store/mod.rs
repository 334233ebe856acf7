//! Where a swarm keeps what must not be lost.
//!
//! A [`Store`] is one workspace, in six parts, each a port of its own:
//!
//! * [`Log`]: which events were accepted, and which are done;
//! * [`Conversations`]: what was said, instance by instance, under a [`Lease`];
//! * [`Instances`]: what is known of each instance without its conversation;
//! * [`Records`]: small values by name, changed by compare-and-set;
//! * [`EventLog`]: what happened, for those who watch;
//! * [`Workspace`]: the folders that tools work in;
//! * [`Journal`](super::journal::Journal): the side effects of running turns.
//!
//! Every call that may take time is asynchronous: a store may be a file, or a database on the other side of a network. Any
//! store must survive being cut off between any two calls (rule C4).

mod begun;
mod conversations;
mod events;
mod instances;
mod log;
mod records;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::InstanceId;
use crate::ports::journal::Journal;

pub use begun::{Traces, put_begun_first};
pub use conversations::{
    Conversations, FinishedTurn, Fold, Lease, OpenConversation, StoredConversation,
};
pub use events::EventLog;
pub use instances::{InstanceMeta, InstanceStatus, Instances, Spending};
pub use log::{HandledEvent, Log, LogRecord, Receipt, Recovered, Ticket};
pub use records::{DEAD_LETTERS, DeadLetter, Record, Records, Version, update};

/// A workspace.
pub trait Store:
    Log + Conversations + Instances + Records + EventLog + Workspace + Journal
{
}

impl<T: Log + Conversations + Instances + Records + EventLog + Workspace + Journal> Store for T {}

/// The folders that the tools of an instance work in. They are always folders of this machine.
pub trait Workspace: Send + Sync {
    /// The folder that the tools of an instance work in by default.
    fn workdir(&self, id: &InstanceId) -> PathBuf;
    /// The file for the whole of an output that was cut for the model.
    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf;
}

/// Why a store could not do it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("failed to {doing} {}: {cause}", path.display())]
    File {
        /// What was tried, such as `append to`.
        doing: String,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Another process has claimed the instance since: what this one would write no longer counts.
    #[error("another process has taken over {0}")]
    Fenced(InstanceId),
    /// What was recorded can't be read again: the turn that it is of can't go on.
    #[error("{what} was recorded and can't be read: {cause}")]
    Damaged {
        /// What it is.
        what: String,
        /// Why it can't be read.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store was closed, or this process is about to end.
    #[error("the store is closed")]
    Closed,
    /// Anything else, such as a connection that was lost.
    #[error("{0}")]
    Other(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// A failure to do something with a file.
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

/// Runs work that waits for a disk on a thread that may wait.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(StoreError::Closed))
}
