//! Append-only JSON Lines in the documented layout (rule C3).
//!
//! ```text
//! <state root>/workspaces/<workspaceId>/
//!   lock                      held by the process that runs the swarm (rule C5)
//!   inbox.jsonl               accepted and finished events; one fsync a batch
//!   instances/<agent>:<key>/
//!     metadata.json           can be made again from the rest
//!     messages/base.jsonl     folded messages
//!     messages/events.jsonl   message events of the running turn
//!     messages/journal.jsonl  side effects of the running turn
//!     messages/dead-letters.json   events whose turns failed
//!     messages/runtime-events.jsonl, and .1 with what was before
//!     extensions/<name>.json  what an extension keeps from turn to turn
//!     files/                  whole outputs that were cut for the model
//!     workdir/                where the instance's tools work
//! ```
//!
//! What is on disk when, and what a crash at each point leaves, is told in `docs/durability.md`.

mod appender;
mod background;
mod dead_letters;
mod disk;
mod extensions;
mod folders;
mod inbox;
mod instance;
mod journal;
pub mod layout;
mod lines;
mod lock;
mod outline;
mod records;
mod runtime_events;
mod unsettled;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::begun::{self, Traces};
use crate::fs::{FileSystem, RealFs};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::MessageEvent;
use goondan_core::ports::store::{
    DeadLetter, InboxRecord, InstanceMeta, InstanceStore, OnDurable, Recovered, Store, StoreError,
};

use background::Background;
use disk::Disk;
pub use journal::{JsonlJournal, Record as JournalRecord};
pub use lines::read_lines;
pub use lock::{LockError, holder_of};
use unsettled::Unsettled;

/// A workspace on disk, held by this process until it is dropped.
pub struct JsonlStore {
    disk: Arc<Disk>,
    dir: PathBuf,
    inbox: Arc<inbox::Inbox>,
    unsettled: Arc<Unsettled>,
    background: Background,
    recovered: Mutex<Option<Recovered>>,
    /// Let go of last, when all writers have ended.
    _lock: Option<lock::WorkspaceLock>,
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
        let fs = Arc::new(RealFs);
        make_folder(&*fs, dir)?;
        let lock = lock::WorkspaceLock::acquire(dir)?;
        let mut store = JsonlStore::on(fs, dir)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// As [`JsonlStore::open`], on another file system and without a lock.
    pub fn on(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self, StoreError> {
        make_folder(&*fs, dir)?;
        folders::finish_deletions(&*fs, dir);
        let disk = Disk::new(Arc::clone(&fs));
        let found = inbox::Inbox::open(Arc::clone(&disk), &dir.join(layout::INBOX))?;
        let (inbox, mut recovered) = (Arc::new(found.inbox), found.recovered);
        let unsettled = Unsettled::new(Arc::clone(&disk), dir.to_owned(), Arc::clone(&inbox));
        unsettled.restore(found.unsettled)?;
        begun::put_first(&mut recovered, |id| traces(&*fs, &layout::instance_dir(dir, id)));
        let background = Background::start(Arc::clone(&disk), dir.to_owned())
            .map_err(|cause| StoreError::new("start the writer of runtime events in", dir, &cause))?;
        let recovered = Mutex::new(Some(recovered));
        Ok(JsonlStore { disk, dir: dir.to_owned(), inbox, unsettled, background, recovered, _lock: None })
    }

    fn instance_dir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id)
    }
}

impl Drop for JsonlStore {
    /// A workspace that is closed holds everything in its conversations.
    fn drop(&mut self) {
        self.unsettled.settle_all();
        self.inbox.close();
    }
}

fn traces(fs: &dyn FileSystem, dir: &Path) -> Traces {
    let events = lines::read::<MessageEvent>(fs, &dir.join(layout::EVENTS)).map(|lines| lines.values);
    let events = events.unwrap_or_default();
    let journal = journal::turn_in(fs, &dir.join(layout::JOURNAL));
    Traces { journal, ..Traces::in_events(events.iter().map(|(event, _)| event)) }
}

fn make_folder(fs: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    let instances = dir.join(layout::INSTANCES);
    fs.make_folder(&instances).map_err(|cause| StoreError::new("make the folder", &instances, &cause))
}

impl Store for JsonlStore {
    fn recover(&self) -> Result<Recovered, StoreError> {
        let mut recovered = self.recovered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(recovered.take().unwrap_or_default())
    }

    fn submit(&self, record: InboxRecord, on_durable: OnDurable) {
        self.inbox.submit(&record, on_durable);
    }

    fn commit(&self, record: InboxRecord, on_durable: OnDurable) {
        self.inbox.commit(&record, on_durable);
    }

    fn write(&self, record: InboxRecord, on_durable: OnDurable) -> bool {
        self.inbox.write(&record, on_durable)
    }

    fn flush(&self) {
        self.inbox.flush(Box::new(|_| {}));
    }

    fn submit_later(&self, record: InboxRecord) {
        self.inbox.submit_later(&record);
    }

    fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        folders::list(&self.disk, &self.dir)
    }

    fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.background.put_meta(meta)
    }

    fn put_meta_soon(&self, meta: &InstanceMeta) {
        self.background.put_meta_soon(meta.clone());
    }

    fn open(&self, id: &InstanceId) -> Result<Box<dyn InstanceStore>, StoreError> {
        let (disk, unsettled) = (Arc::clone(&self.disk), Arc::clone(&self.unsettled));
        Ok(Box::new(instance::JsonlInstance::new(id.clone(), disk, unsettled, &self.instance_dir(id))))
    }

    fn extension_state(&self, id: &InstanceId, extension: &str) -> Result<Option<Value>, StoreError> {
        extensions::read(&**self.disk, &self.instance_dir(id), extension)
    }

    fn put_extension_state(&self, id: &InstanceId, extension: &str, state: &Value) -> Result<(), StoreError> {
        extensions::write(&self.disk, &self.instance_dir(id), extension, state)
    }

    fn dead_letters(&self, id: &InstanceId) -> Result<Vec<DeadLetter>, StoreError> {
        dead_letters::read(&**self.disk, &self.instance_dir(id))
    }

    fn put_dead_letters(&self, id: &InstanceId, letters: &[DeadLetter]) -> Result<(), StoreError> {
        dead_letters::write(&self.disk, &self.instance_dir(id), letters)
    }

    fn delete(&self, id: &InstanceId) -> Result<bool, StoreError> {
        self.background.close(id);
        self.unsettled.forget(id)?;
        folders::delete(&**self.disk, &self.instance_dir(id))
    }

    fn log(&self, event: &Arc<RuntimeEvent>) {
        self.background.log(Arc::clone(event));
    }

    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.instance_dir(id).join(layout::WORKDIR)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        self.instance_dir(id).join(layout::FILES).join(layout::file_name(name))
    }
}
