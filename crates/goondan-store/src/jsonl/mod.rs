//! Append-only JSON Lines in the documented layout (rule C3).
//!
//! ```text
//! <state root>/workspaces/<workspaceId>/
//!   lock                      held by the process that runs the swarm (rule C5)
//!   inbox.jsonl               accepted and finished events; one fsync per batch
//!   checkpoint.jsonl          state at the last clean end; can be rebuilt
//!   conversations.jsonl       conversations at the last clean end; can be rebuilt
//!   instances/<agent>:<key>/
//!     metadata.json           can be rebuilt from the other files
//!     messages/base.jsonl     folded messages
//!     messages/events.jsonl   message events of the running turn
//!     messages/journal.jsonl  side effects of the running turn
//!     messages/dead-letters.json   events whose turns failed
//!     messages/runtime-events.jsonl, and .1 with older ones
//!     extensions/<name>.json  extension state that persists between turns
//!     files/                  complete outputs that were truncated for the model
//!     workdir/                working directory of the instance's tools
//! ```
//!
//! Each JSON Lines file begins with a header that states its format version. Each record has a
//! sequence number and a checksum.
//!
//! See `docs/durability.md` for the sync points and the effects of a crash at each point.

mod appender;
mod background_writer;
mod backup;
mod changed_instances;
mod checkpoint;
mod checksum;
mod compaction;
mod conversation;
mod conversation_list;
mod dirty_checkpoints;
mod file_format;
mod first_messages;
mod handled_events;
mod inspection;
mod instance_directories;
mod journal;
mod journal_approvals;
mod key_values;
mod latest_messages;
pub mod layout;
mod line_at;
mod lines;
mod lock;
mod log_checkpoint;
mod lost_log;
mod record_header;
mod record_sequence;
mod repair;
mod runtime_events;
mod synced_disk;
mod tree_copy;
mod wal;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::fs::{FileSystem, RealFs};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::MessageEvent;
use goondan_core::ports::journal::{TurnJournal, TurnJournalStore};
use goondan_core::ports::store::{
    ConversationStore, DEAD_LETTERS_RECORD, DurabilityTicket, FirstMessages, InstanceLease,
    InstanceMeta, InstanceStore, LatestMessages, LogRecord, OpenConversation, RecordStore,
    RecordVersion, RecoveredState, RuntimeEventStore, StoreError, StoredConversation, TurnRemains,
    VersionedRecord, WorkspaceLog, WorkspacePaths, blocking, put_begun_first,
};
use goondan_core::result_cache::EncodedResult;

use crate::workspace_directories::WorkspaceDirectories;

use background_writer::BackgroundWriter;
pub use backup::{BackupReport, back_up, back_up_watched};
use changed_instances::ChangedInstances;
use checkpoint::TakenCheckpoint;
pub use checkpoint::listed_conversations;
use conversation_list::ListState;
pub use conversation_list::ListedConversation;
use dirty_checkpoints::DirtyCheckpoints;
pub use file_format::{FORMAT_VERSION, NewerFormat};
pub use inspection::{WorkspaceInspection, inspect, inspect_on};
pub use journal::JournalRecord;
pub use journal_approvals::forget_recorded_approvals;
pub use lines::read_lines;
pub use lock::{LockError, WorkspaceLock, holder_of};
pub use lost_log::LostLog;
pub use repair::{RepairReport, repair};
use synced_disk::SyncedDisk;

/// Number of instances up to which a start loads all of them.
const MAX_LOADED_INSTANCES: usize = 512;

/// Number of idle instances in memory, if a start does not load all of them.
const MAX_REMEMBERED_INSTANCES: usize = 4_096;

/// A workspace on disk, locked by this process until the store is dropped.
///
/// The lock excludes other processes, so every claim has the same epoch.
pub struct JsonlStore {
    dir: PathBuf,
    shared: conversation::ConversationShared,
    journals: journal::JournalFiles,
    /// Held during a compare-and-set of a record.
    setting: Arc<Mutex<()>>,
    recovered: Mutex<Option<RecoveredState>>,
    changed: Arc<ChangedInstances>,
    /// The checkpoint of the last clean end, if it was current.
    checkpoint: Option<TakenCheckpoint>,
    /// True if the list of conversations could not be read.
    is_list_lost: AtomicBool,
    /// Dropped last, after all writers have ended.
    _lock: Option<lock::WorkspaceLock>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenWorkspaceError {
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Handling of a workspace whose log is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LostLogPolicy {
    /// Refuses to open the workspace.
    #[default]
    Refuse,
    /// Opens the workspace without the lost events.
    Accept,
}

impl JsonlStore {
    /// Opens the workspace in `dir` and creates the directory if it is missing.
    pub fn open(dir: &Path) -> Result<Self, OpenWorkspaceError> {
        JsonlStore::open_with(dir, LostLogPolicy::Refuse)
    }

    /// Opens a workspace like [`JsonlStore::open`], even if its log is lost.
    pub fn open_with(dir: &Path, lost_log: LostLogPolicy) -> Result<Self, OpenWorkspaceError> {
        let fs = Arc::new(RealFs);
        create_directories(&*fs, dir)?;
        let lock = lock::WorkspaceLock::acquire(dir)?;
        let mut store = JsonlStore::on_with(fs, dir, lost_log)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// Opens a workspace like [`JsonlStore::open`], on another file system and without a lock.
    pub fn on(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self, StoreError> {
        JsonlStore::on_with(fs, dir, LostLogPolicy::Refuse)
    }

    /// Opens a workspace like [`JsonlStore::on`], even if its log is lost.
    pub fn on_with(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        lost_log: LostLogPolicy,
    ) -> Result<Self, StoreError> {
        create_directories(&*fs, dir)?;
        let disk = SyncedDisk::new(Arc::clone(&fs));
        let checkpoint = checkpoint::take(&disk, dir)?;
        if checkpoint.is_none() {
            instance_directories::finish_deletions(&*fs, dir);
        }
        let (path, state) = (
            dir.join(layout::INBOX),
            checkpoint.as_ref().map(|checkpoint| &checkpoint.log),
        );
        let found = wal::InboxWal::open(Arc::clone(&disk), &path, state)?;
        let checkpoint = checkpoint.filter(|_| found.is_restored);
        if !found.has_records && checkpoint.is_none() && lost_log == LostLogPolicy::Refuse {
            lost_log::check(&*fs, dir)?;
        }
        let (inbox, mut recovered) = (Arc::new(found.inbox), found.recovered);
        let dirty_checkpoints =
            DirtyCheckpoints::new(Arc::clone(&disk), dir.to_owned(), Arc::clone(&inbox));
        match found.is_closed {
            true => dirty_checkpoints.take_over(found.unsettled)?,
            false => dirty_checkpoints.restore(found.unsettled)?,
        }
        put_begun_first(&mut recovered, |id| {
            turn_remains(&*fs, &layout::instance_dir(dir, id))
        });
        let changed = ChangedInstances::new(Arc::clone(&disk), dir.to_owned());
        let background =
            BackgroundWriter::start(Arc::clone(&disk), dir.to_owned(), Arc::clone(&changed))
                .map_err(|cause| {
                    StoreError::file("start the writer of runtime events in", dir, cause)
                })?;
        let journals = journal::JournalFiles::new(Arc::clone(&disk), dir.to_owned());
        let shared = conversation::ConversationShared {
            disk,
            inbox,
            dirty_checkpoints,
            background: Arc::new(background),
        };
        let (setting, recovered) = (Arc::default(), Mutex::new(Some(recovered)));
        Ok(JsonlStore {
            dir: dir.to_owned(),
            shared,
            journals,
            setting,
            recovered,
            changed,
            checkpoint,
            is_list_lost: AtomicBool::new(false),
            _lock: None,
        })
    }

    /// Writes the checkpoint of a clean end. A failure is not a problem: the next start then reads
    /// everything.
    fn write_checkpoint(&self) {
        let written = checkpoint::write(
            &self.shared.disk,
            &self.dir,
            self.checkpoint.as_ref(),
            self.shared.inbox.is_rewritten(),
            &self.changed,
        );
        if let Err(error) = written {
            tracing::debug!(%error, "no checkpoint was written");
        }
    }

    /// Returns the summary of the conversations at the last clean end; `None` if it is not known.
    fn list_state(&self) -> Option<&ListState> {
        let checkpoint = self.checkpoint.as_ref()?;
        let is_lost = self.is_list_lost.load(Ordering::Relaxed);
        (!is_lost).then_some(&checkpoint.conversations)
    }

    /// Returns the metadata of all instances from the list of the last clean end, and from the files
    /// of changed ones; `None` if the list is not known.
    async fn listed_instances(&self) -> Result<Option<Vec<InstanceMeta>>, StoreError> {
        if self.list_state().is_none() {
            return Ok(None);
        }
        if let Some(metas) = self.changed.instance_metas() {
            return Ok(Some(metas));
        }
        let (shared, dir, changed) = (
            self.shared.clone(),
            self.dir.clone(),
            Arc::clone(&self.changed),
        );
        let listed = blocking(move || list_instances(&shared, &dir, &changed)).await?;
        if listed.is_none() {
            self.is_list_lost.store(true, Ordering::Relaxed);
            self.changed.mark_incomplete();
        }
        Ok(listed)
    }

    /// Returns the directory of an instance.
    fn instance_dir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id)
    }
}

impl Drop for JsonlStore {
    fn drop(&mut self) {
        let is_synced = self.shared.dirty_checkpoints.close();
        self.shared.inbox.close();
        // A conversation that is still open may change later.
        let is_unused = Arc::strong_count(&self.shared.background) == 1;
        if is_synced && is_unused {
            self.shared.background.finish();
            self.write_checkpoint();
        }
    }
}

/// Returns what an interrupted turn left in the journal and events of an instance.
fn turn_remains(fs: &dyn FileSystem, dir: &Path) -> TurnRemains {
    let events =
        lines::read::<MessageEvent>(fs, &dir.join(layout::EVENTS)).map(|lines| lines.values);
    let events = events.unwrap_or_default();
    let journal = journal::turn_in(fs, &dir.join(layout::JOURNAL));
    TurnRemains {
        journal,
        ..TurnRemains::in_events(events.iter().map(|(event, _)| event))
    }
}

/// Reads the list of conversations, and the metadata of each conversation that changed after the list
/// was written. Returns `None` if the list is damaged.
fn list_instances(
    shared: &conversation::ConversationShared,
    dir: &Path,
    changed: &ChangedInstances,
) -> Result<Option<Vec<InstanceMeta>>, StoreError> {
    let (write_count, changed_ids) = (changed.write_count(), changed.ids());
    let listed = match conversation_list::read(&**shared.disk, dir) {
        Ok(listed) => listed,
        Err(problem) => {
            tracing::warn!(
                "the list of conversations is damaged: {problem}. The files of all \
                conversations are read"
            );
            return Ok(None);
        }
    };
    let metas = listed.into_iter().map(|listed| listed.meta);
    let mut metas: Vec<_> = metas
        .filter(|meta| !changed_ids.contains(&meta.id()))
        .collect();
    for id in &changed_ids {
        metas.extend(shared.background.find_meta(id)?);
    }
    // Has no effect if metadata was written after the count.
    changed.keep_metas(&metas, write_count);
    Ok(Some(metas))
}

/// Creates the instances directory of a workspace.
fn create_directories(fs: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    let instances = dir.join(layout::INSTANCES);
    fs.create_directories(&instances)
        .map_err(|cause| StoreError::file("create the directory", &instances, cause))
}

#[async_trait]
impl WorkspaceLog for JsonlStore {
    async fn recover(&self) -> Result<RecoveredState, StoreError> {
        let mut recovered = self
            .recovered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(recovered.take().unwrap_or_default())
    }

    fn earlier_result(&self, event_id: &str) -> Option<EncodedResult> {
        let handled = self.checkpoint.as_ref()?.handled.as_ref()?;
        handled.result(event_id)
    }

    fn append(&self, record: LogRecord) -> DurabilityTicket {
        self.shared.inbox.submit(&record.into())
    }
}

#[async_trait]
impl ConversationStore for JsonlStore {
    async fn claim(&self, id: &InstanceId) -> Result<InstanceLease, StoreError> {
        Ok(InstanceLease {
            instance: id.clone(),
            epoch: 1,
        })
    }

    async fn open(&self, lease: InstanceLease) -> Result<Box<dyn OpenConversation>, StoreError> {
        let dir = self.instance_dir(&lease.instance);
        self.changed.track(&lease.instance);
        Ok(Box::new(conversation::JsonlConversation::new(
            lease.instance,
            self.shared.clone(),
            &dir,
        )))
    }

    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError> {
        let (disk, dir) = (Arc::clone(&self.shared.disk), self.instance_dir(id));
        blocking(move || {
            conversation::read(&disk, &dir.join(layout::BASE), &dir.join(layout::EVENTS))
        })
        .await
    }

    async fn read_latest(
        &self,
        id: &InstanceId,
        count: usize,
    ) -> Result<LatestMessages, StoreError> {
        let (disk, dir) = (Arc::clone(&self.shared.disk), self.instance_dir(id));
        blocking(move || {
            let (base, events) = (dir.join(layout::BASE), dir.join(layout::EVENTS));
            latest_messages::read(&disk, &base, &events, count)
        })
        .await
    }

    async fn read_first(&self, id: &InstanceId, count: usize) -> Result<FirstMessages, StoreError> {
        let (disk, dir) = (Arc::clone(&self.shared.disk), self.instance_dir(id));
        blocking(move || {
            let (base, events) = (dir.join(layout::BASE), dir.join(layout::EVENTS));
            first_messages::read(&disk, &base, &events, count)
        })
        .await
    }
}

#[async_trait]
impl InstanceStore for JsonlStore {
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        if let Some(metas) = self.listed_instances().await? {
            return Ok(metas);
        }
        let (disk, dir) = (Arc::clone(&self.shared.disk), self.dir.clone());
        blocking(move || instance_directories::list(&disk, &dir)).await
    }

    fn remembered_outside(&self) -> Option<usize> {
        let live = self.list_state()?.live;
        (live > MAX_LOADED_INSTANCES).then_some(MAX_REMEMBERED_INSTANCES)
    }

    fn idle_instances(&self) -> Option<usize> {
        let state = self.list_state()?;
        (state.processing == 0).then_some(state.live)
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        let (background, id) = (Arc::clone(&self.shared.background), id.clone());
        blocking(move || background.find_meta(&id)).await
    }

    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        if instance_directories::is_quick_to_put(meta) {
            return self.shared.background.put_meta(meta);
        }
        let (background, meta) = (Arc::clone(&self.shared.background), meta.clone());
        blocking(move || background.put_meta(&meta)).await
    }

    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError> {
        let (shared, id, dir) = (self.shared.clone(), id.clone(), self.instance_dir(id));
        let changed = Arc::clone(&self.changed);
        blocking(move || {
            changed.track(&id);
            shared.background.close(&id);
            shared.dirty_checkpoints.discard_carried_messages(&id)?;
            let deleted = instance_directories::delete(&**shared.disk, &dir);
            changed.record_deletion(&id);
            deleted.inspect_err(|_| changed.mark_incomplete())
        })
        .await
    }
}

#[async_trait]
impl RecordStore for JsonlStore {
    async fn get(
        &self,
        id: &InstanceId,
        name: &str,
    ) -> Result<Option<VersionedRecord>, StoreError> {
        let (disk, dir, name) = (
            Arc::clone(&self.shared.disk),
            self.instance_dir(id),
            name.to_owned(),
        );
        match key_values::exists(&**disk, &dir, &name) {
            true => blocking(move || key_values::read(&**disk, &dir, &name)).await,
            false => Ok(None),
        }
    }

    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<RecordVersion>,
    ) -> Result<bool, StoreError> {
        let (disk, dir, setting) = (
            Arc::clone(&self.shared.disk),
            self.instance_dir(id),
            Arc::clone(&self.setting),
        );
        let (name, value) = (name.to_owned(), value.clone());
        let (changed, id) = (Arc::clone(&self.changed), id.clone());
        blocking(move || {
            changed.track(&id);
            let _one_at_a_time = setting.lock().unwrap_or_else(PoisonError::into_inner);
            if key_values::read(&**disk, &dir, &name)?.map(|record| record.version) != expected {
                return Ok(false);
            }
            key_values::write(&disk, &dir, &name, &value).map(|()| true)
        })
        .await
    }

    async fn all_records(
        &self,
        name: &str,
    ) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
        let (disk, dir, name) = (
            Arc::clone(&self.shared.disk),
            self.dir.clone(),
            name.to_owned(),
        );
        let listed = self
            .list_state()
            .and_then(|state| state.instances_with_record(&name));
        let changed = self.changed.ids();
        blocking(
            move || match listed.filter(|_| name != DEAD_LETTERS_RECORD) {
                Some(mut ids) => {
                    ids.extend(changed);
                    instance_directories::records_of(&disk, &dir, &name, ids)
                }
                None => instance_directories::all_of_name(&disk, &dir, &name),
            },
        )
        .await
    }
}

#[async_trait]
impl RuntimeEventStore for JsonlStore {
    fn record(&self, event: &Arc<RuntimeEvent>) {
        self.shared.background.log(Arc::clone(event));
    }

    async fn events(&self, id: &InstanceId, after: u64) -> Result<Vec<RuntimeEvent>, StoreError> {
        let (shared, dir) = (self.shared.clone(), self.instance_dir(id));
        blocking(move || {
            shared.background.flush_events();
            runtime_events::read(&shared.disk, &dir, after)
        })
        .await
    }
}

impl WorkspacePaths for JsonlStore {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        WorkspaceDirectories::below(self.dir.clone()).workdir(id)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        WorkspaceDirectories::below(self.dir.clone()).output_file(id, name)
    }
}

#[async_trait]
impl TurnJournalStore for JsonlStore {
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        self.journals.open(instance, turn_id).await
    }

    async fn close_journal(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        self.journals.close(instance)
    }

    fn may_lose_records(&self) -> bool {
        true
    }
}
