//! Append-only JSON Lines in the documented layout (rule C3).
//!
//! ```text
//! <state root>/workspaces/<workspaceId>/
//!   lock                      held by the process that runs the swarm (rule C5)
//!   inbox.jsonl               accepted and finished events; one fsync a batch
//!   instances/<agent>:<key>/
//!     metadata.json
//!     messages/base.jsonl     folded messages
//!     messages/events.jsonl   message events of the running turn
//!     messages/journal.jsonl  side effects of the running turn
//!     messages/runtime-events.jsonl
//!     extensions/<name>.json  what an extension keeps from turn to turn
//!     files/                  whole outputs that were cut for the model
//!     workdir/                where the instance's tools work
//! ```

mod extensions;
mod inbox;
mod instance;
mod journal;
pub mod layout;
mod lines;
mod lock;
mod runtime_events;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::event::RuntimeEvent;
use crate::ids::InstanceId;
use crate::ports::store::{InboxRecord, InstanceMeta, InstanceStore, OnDurable, Recovered, Store, StoreError};

pub use journal::JsonlJournal;
pub use lines::read_lines;
pub use lock::LockError;
use runtime_events::RuntimeEventLog;

/// A workspace on disk, held by this process until it is dropped.
pub struct JsonlStore {
    dir: PathBuf,
    inbox: inbox::Inbox,
    runtime_events: RuntimeEventLog,
    recovered: std::sync::Mutex<Option<Recovered>>,
    _lock: lock::WorkspaceLock,
}

/// Why a workspace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenWorkspaceError {
    /// Another process holds it.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// Its folder can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JsonlStore {
    /// Opens the workspace in `dir`, and makes the folder where there is none.
    pub fn open(dir: &Path) -> Result<Self, OpenWorkspaceError> {
        let instances = dir.join(layout::INSTANCES);
        fs::create_dir_all(&instances).map_err(|cause| StoreError::new("make the folder", &instances, &cause))?;
        let lock = lock::WorkspaceLock::acquire(dir)?;
        let (inbox, recovered) = inbox::Inbox::open(&dir.join(layout::INBOX))?;
        let runtime_events = RuntimeEventLog::open(dir.to_owned())
            .map_err(|cause| StoreError::new("start the writer of runtime events in", dir, &cause))?;
        Ok(JsonlStore { dir: dir.to_owned(), inbox, runtime_events, recovered: Some(recovered).into(), _lock: lock })
    }

    fn instance_dir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id)
    }
}

impl Store for JsonlStore {
    fn recover(&self) -> Result<Recovered, StoreError> {
        let mut recovered = self.recovered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(recovered.take().unwrap_or_default())
    }

    fn submit(&self, record: InboxRecord, on_durable: OnDurable) {
        self.inbox.submit(record, on_durable);
    }

    fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        instance::list(&self.dir)
    }

    fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        instance::put_meta(&self.instance_dir(&meta.id()), meta)
    }

    fn open(&self, id: &InstanceId) -> Result<Box<dyn InstanceStore>, StoreError> {
        Ok(Box::new(instance::JsonlInstance::new(self.instance_dir(id))))
    }

    fn extension_state(&self, id: &InstanceId, extension: &str) -> Result<Option<Value>, StoreError> {
        extensions::read(&self.instance_dir(id), extension)
    }

    fn put_extension_state(&self, id: &InstanceId, extension: &str, state: &Value) -> Result<(), StoreError> {
        extensions::write(&self.instance_dir(id), extension, state)
    }

    fn delete(&self, id: &InstanceId) -> Result<bool, StoreError> {
        instance::delete(&self.instance_dir(id))
    }

    fn log(&self, event: &RuntimeEvent) {
        self.runtime_events.append(event.clone());
    }

    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.instance_dir(id).join(layout::WORKDIR)
    }

    fn files_dir(&self, id: &InstanceId) -> PathBuf {
        self.instance_dir(id).join(layout::FILES)
    }
}
