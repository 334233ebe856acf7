//! Checkpoints that are written to the messages files of conversations but not synced.
//!
//! The inbox record that ends a turn carries its new messages (the *fold*) and makes them durable.
//! So they are appended to the messages file (the *base*) without a sync. From time to time the
//! bases are synced, and a record notes that the inbox may forget those messages. Until then,
//! messages lost in a power failure are restored from the inbox.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::synced_disk::SyncedDisk;
use super::wal::InboxWal;
use super::{checksum, file_format, layout, lines};
use crate::record::{CarriedFold, InboxRecord, SettledFold};
use crate::wal_index::TurnCheckpoint;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;

/// Maximum number of conversations that wait for a sync of their base.
const MAX_DIRTY_CONVERSATIONS: usize = 512;
/// Maximum size in bytes of the folds that the inbox carries for them.
const MAX_DIRTY_BYTES: u64 = 4 * 1024 * 1024;

/// Up to these limits, folds are left to the next process when the workspace is closed. Syncing
/// them would take longer than the rest of the shutdown.
const MAX_LEFT_CONVERSATIONS: usize = 16;
const MAX_LEFT_BYTES: u64 = 256 * 1024;

/// Conversations whose last folds are not durable in their bases.
pub(super) struct DirtyCheckpoints {
    disk: Arc<SyncedDisk>,
    workspace: PathBuf,
    inbox: Arc<InboxWal>,
    dirty: Mutex<DirtyConversations>,
    /// Held while bases are synced.
    sync_lock: Mutex<()>,
}

#[derive(Default)]
struct DirtyConversations {
    /// The last turn of each conversation whose messages are in the base, unsynced.
    last_turns: HashMap<InstanceId, String>,
    /// Conversations of which the inbox may carry messages that are not in the base yet.
    carrying: HashSet<InstanceId>,
    /// Number of bytes that the inbox carries for all conversations.
    bytes: u64,
    /// True while a thread is scheduled to sync the bases.
    is_sync_scheduled: bool,
}

impl DirtyConversations {
    /// Returns true if the bases contain all messages durably.
    fn is_empty(&self) -> bool {
        self.last_turns.is_empty() && self.carrying.is_empty()
    }
}

impl DirtyCheckpoints {
    pub(super) fn new(
        disk: Arc<SyncedDisk>,
        workspace: PathBuf,
        inbox: Arc<InboxWal>,
    ) -> Arc<Self> {
        let (dirty, sync_lock) = (Mutex::default(), Mutex::default());
        Arc::new(DirtyCheckpoints {
            disk,
            workspace,
            inbox,
            dirty,
            sync_lock,
        })
    }

    /// Locks the conversations whose checkpoint is not durable.
    fn lock_dirty(&self) -> MutexGuard<'_, DirtyConversations> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the messages file of a conversation.
    fn base_path(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.workspace, id).join(layout::BASE)
    }

    /// Records that the inbox record that ends a turn of `id` is about to carry its messages.
    pub(super) fn mark_carried_by_inbox(&self, id: &InstanceId) {
        self.lock_dirty().carrying.insert(id.clone());
    }

    /// Records that the messages of a turn, of the given size, are in the base without a sync.
    /// Syncs all bases on another thread if there are many.
    pub(super) fn add_unsynced(self: &Arc<Self>, id: &InstanceId, turn_id: String, bytes: u64) {
        let mut dirty = self.lock_dirty();
        dirty.carrying.remove(id);
        dirty.last_turns.insert(id.clone(), turn_id);
        dirty.bytes += bytes;
        let exceeds_limit =
            dirty.last_turns.len() >= MAX_DIRTY_CONVERSATIONS || dirty.bytes >= MAX_DIRTY_BYTES;
        if !exceeds_limit || dirty.is_sync_scheduled {
            return;
        }
        dirty.is_sync_scheduled = true;
        drop(dirty);
        let checkpoints = Arc::clone(self);
        let sync_thread = std::thread::Builder::new()
            .name("gdn-settle".to_owned())
            .spawn(move || checkpoints.sync_all_bases());
        if sync_thread.is_err() {
            // A later call tries again; until then the inbox keeps the messages.
            self.lock_dirty().is_sync_scheduled = false;
        }
    }

    /// Returns true if the base of `id` may contain unsynced data.
    pub(super) fn contains(&self, id: &InstanceId) -> bool {
        let dirty = self.lock_dirty();
        dirty.last_turns.contains_key(id) || dirty.carrying.contains(id)
    }

    /// Records that the base of `id` is synced with all carried messages. The next inbox record
    /// states this.
    pub(super) fn mark_synced(&self, id: &InstanceId) {
        if self.remove(id) {
            self.inbox.submit_later(&synced_record(id));
        }
    }

    /// Removes `id` from the dirty conversations. Returns true if it was dirty.
    fn remove(&self, id: &InstanceId) -> bool {
        let mut dirty = self.lock_dirty();
        let was_carrying = dirty.carrying.remove(id);
        let was_unsynced = dirty.last_turns.remove(id).is_some();
        was_carrying || was_unsynced
    }

    /// Discards the messages that the inbox carries for a conversation that is about to be deleted,
    /// so that they cannot restore it. Waits for the disk.
    pub(super) fn discard_carried_messages(&self, id: &InstanceId) -> Result<(), StoreError> {
        let _sync_lock = self
            .sync_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.remove(id) {
            self.inbox.commit(&synced_record(id)).wait_here()?;
        }
        Ok(())
    }

    /// Closes the workspace. A small number of folds is left to the next process, with a note that
    /// everything is readable during this boot. Otherwise the bases are synced. Returns true if the
    /// bases contain all folds.
    pub(super) fn close(&self) -> bool {
        let dirty = self.lock_dirty();
        if dirty.is_empty() {
            return true;
        }
        let is_written = dirty.carrying.is_empty();
        let may_be_left = is_written
            && dirty.last_turns.len() <= MAX_LEFT_CONVERSATIONS
            && dirty.bytes <= MAX_LEFT_BYTES;
        drop(dirty);
        if may_be_left && let Some(boot) = self.disk.boot_id() {
            self.inbox.append_unsynced(&InboxRecord::Closed { boot });
            return true;
        }
        self.sync_all_bases();
        self.lock_dirty().is_empty()
    }

    /// Takes over the folds that a previous process of the same boot left when it closed the
    /// workspace. Folds of conversations that were deleted since then are dropped. A conversation
    /// that lost only its messages gets the carried ones again.
    pub(super) fn take_over(&self, carried: Vec<TurnCheckpoint>) -> Result<(), StoreError> {
        let (with_lost_base, with_base): (BTreeMap<_, _>, BTreeMap<_, _>) =
            group_by_conversation(carried)
                .into_iter()
                .partition(|(id, _)| self.has_lost_base(id));
        self.restore_all(with_lost_base)?;
        for (id, folds) in with_base {
            if !self.disk.exists(&self.base_path(&id)) {
                self.inbox.submit_later(&synced_record(&id));
                continue;
            }
            let mut bytes = Vec::new();
            for TurnCheckpoint { fold, .. } in &folds {
                // The messages were encoded before, so encoding them cannot fail.
                let _ = lines::encode(&mut bytes, &fold.messages);
            }
            self.record_unsynced(id, &folds, bytes.len() as u64);
        }
        Ok(())
    }

    /// Records that checkpoints were copied into the base file of a conversation and that the file
    /// is not synced. The last turn is empty if the checkpoints have none.
    fn record_unsynced(&self, id: InstanceId, folds: &[TurnCheckpoint], bytes: u64) {
        let last = folds.last().map(|last| last.turn_id.clone());
        let mut dirty = self.lock_dirty();
        dirty.last_turns.insert(id, last.unwrap_or_default());
        dirty.bytes += bytes;
    }

    /// Returns true if the conversation has metadata, but its messages file is missing or empty.
    fn has_lost_base(&self, id: &InstanceId) -> bool {
        let metadata = layout::instance_dir(&self.workspace, id).join(layout::METADATA);
        let length = self.disk.file_len(&self.base_path(id));
        self.disk.exists(&metadata) && !matches!(length, Ok(Some(1..)))
    }

    /// Syncs the bases of all dirty conversations and notes this with the next inbox record.
    pub(super) fn sync_all_bases(&self) {
        let _sync_lock = self
            .sync_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last_turns = {
            let mut dirty = self.lock_dirty();
            dirty.is_sync_scheduled = false;
            dirty.bytes = 0;
            dirty.last_turns.clone()
        };
        let mut folds = Vec::with_capacity(last_turns.len());
        for (instance, turn_id) in last_turns {
            match self.sync_base(&instance) {
                Ok(()) => folds.push(SettledFold {
                    instance,
                    turn_id: Some(turn_id),
                }),
                // The inbox continues to carry this conversation.
                Err(error) => {
                    tracing::warn!(%instance, %error, "could not sync a conversation; the inbox \
                        keeps its messages")
                }
            }
        }
        let mut dirty = self.lock_dirty();
        for settled in &folds {
            if dirty.last_turns.get(&settled.instance) == settled.turn_id.as_ref() {
                dirty.last_turns.remove(&settled.instance);
            }
        }
        if !folds.is_empty() {
            self.inbox.submit_later(&InboxRecord::Settled { folds });
        }
    }

    /// Syncs the messages file of a conversation; does nothing if the conversation was deleted.
    fn sync_base(&self, id: &InstanceId) -> Result<(), StoreError> {
        let path = self.base_path(id);
        if !self.disk.exists(&path) {
            // The conversation was deleted, so there is nothing to sync.
            return Ok(());
        }
        // A turn may append to the file at the same time, so do nothing but sync it here.
        let opened = self.disk.open(&path);
        let synced = opened.and_then(|mut opened| self.disk.sync_file(&mut *opened.file));
        let result = synced.and_then(|()| {
            self.disk
                .sync_directories(&path, layout::INSTANCE_FILE_DEPTH)
        });
        result.map_err(|cause| StoreError::file("sync", &path, cause))
    }

    /// Writes the carried folds into the bases. A base ends after its last fold, unless a power
    /// failure truncated or tore it.
    pub(super) fn restore(&self, carried: Vec<TurnCheckpoint>) -> Result<(), StoreError> {
        self.restore_all(group_by_conversation(carried))
    }

    /// Writes the carried folds of each conversation into its base.
    fn restore_all(
        &self,
        carried: BTreeMap<InstanceId, Vec<TurnCheckpoint>>,
    ) -> Result<(), StoreError> {
        for (id, folds) in carried {
            let path = self.base_path(&id);
            let restored = self
                .restore_base(&path, &folds)
                .map_err(|cause| StoreError::file("restore", &path, cause))?;
            if restored.is_moved {
                // The positions in the records no longer fit.
                self.sync_base(&id)?;
                self.inbox.submit_later(&synced_record(&id));
                continue;
            }
            self.record_unsynced(id, &folds, restored.bytes);
        }
        Ok(())
    }

    /// Writes the carried messages to a base that lacks them.
    fn restore_base(&self, path: &Path, folds: &[TurnCheckpoint]) -> io::Result<RestoredBase> {
        // A rewrite replaces everything before it.
        let last_rewrite = folds.iter().rposition(|carried| carried.fold.is_whole);
        let folds = &folds[last_rewrite.unwrap_or(0)..];
        let (start, sequence) = match folds.first() {
            Some(first) => (first.fold.at, first.fold.sequence),
            None => (0, None),
        };
        let kept_bytes = usize::try_from(start).unwrap_or(usize::MAX);
        let found = self.disk.read_if_there(path)?.unwrap_or_default();
        if let Some(line) = found.split_inclusive(|byte| *byte == b'\n').next() {
            file_format::read_header(line, path)?;
        }
        let content = content_from(kept_bytes, path, folds)?;
        let bytes = content.len() as u64;
        if found.get(kept_bytes..).is_some_and(|rest| rest == content) {
            return Ok(RestoredBase {
                bytes,
                is_moved: false,
            });
        }
        let offset = offset_after(&found, sequence, kept_bytes);
        let is_moved = offset != kept_bytes;
        if is_moved {
            tracing::warn!(path = %path.display(), "a conversation file is damaged: some of its \
                messages may be missing");
        }
        let content = content_from(offset, path, folds)?;
        let mut file = self.disk.open(path)?.file;
        file.set_len(offset as u64)?;
        file.write_at(offset as u64, &content)?;
        Ok(RestoredBase { bytes, is_moved })
    }
}

/// Groups checkpoints by their conversation. Keeps their order within each conversation.
fn group_by_conversation(
    checkpoints: Vec<TurnCheckpoint>,
) -> BTreeMap<InstanceId, Vec<TurnCheckpoint>> {
    let mut groups: BTreeMap<InstanceId, Vec<TurnCheckpoint>> = BTreeMap::new();
    for checkpoint in checkpoints {
        let instance = checkpoint.fold.instance.clone();
        groups.entry(instance).or_default().push(checkpoint);
    }
    groups
}

/// Returns the messages of `folds` as they are in the base at `path` from `offset` on. At
/// the start of a file with numbers, they begin with its header.
fn content_from(offset: usize, path: &Path, folds: &[TurnCheckpoint]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut folds = folds
        .iter()
        .map(|carried| &carried.fold)
        .filter(|fold| !fold.messages.is_empty())
        .peekable();
    if offset == 0 && folds.peek().is_some_and(|first| first.sequence.is_some()) {
        file_format::add_header(&mut bytes, path);
    }
    for CarriedFold {
        sequence, messages, ..
    } in folds
    {
        lines::encode_sealed(&mut bytes, *sequence, messages)?;
    }
    Ok(bytes)
}

/// A base to which the carried messages were written.
struct RestoredBase {
    /// Size of the messages in the inbox records, in bytes.
    bytes: u64,
    /// True if the messages are not at their recorded position, because the file is damaged.
    is_moved: bool,
}

/// Returns the offset in a base after its last record before the record `first`. `start` is the
/// offset that the inbox states; a power failure leaves everything before it intact.
fn offset_after(found: &[u8], first: Option<u64>, start: usize) -> usize {
    let (mut end, mut offset) = (0, 0);
    if start == 0 && first == Some(lines::FIRST_SEQUENCE) {
        return 0;
    }
    for line in found.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        let is_before = match first {
            Some(first) => {
                checksum::is_intact(line) && checksum::sequence_number(line) < Some(first)
            }
            None => end <= start,
        };
        if is_before && line.ends_with(b"\n") {
            offset = end;
        }
    }
    offset
}

/// Creates the log record that states: all messages of the conversation are on disk.
fn synced_record(id: &InstanceId) -> InboxRecord {
    InboxRecord::Settled {
        folds: vec![SettledFold {
            instance: id.clone(),
            turn_id: None,
        }],
    }
}
