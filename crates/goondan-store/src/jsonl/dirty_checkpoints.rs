//! Folds that inbox records carry, whose bases are written but not synced.
//!
//! The record that ends a turn makes its new messages durable, so the fold is written without a
//! sync. From time to time the bases are synced, and a record notes that the inbox may forget those
//! messages. Until then, messages lost in a power failure are restored from the inbox.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::synced_disk::SyncedDisk;
use super::wal::InboxWal;
use super::{layout, lines};
use crate::record::{InboxRecord, SettledFold};
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
    waiting: Mutex<DirtyConversations>,
    /// Held while bases are synced.
    settling: Mutex<()>,
}

#[derive(Default)]
struct DirtyConversations {
    /// The last turn of each conversation whose fold is written.
    last_turns: HashMap<InstanceId, String>,
    /// Conversations of which the inbox may carry a fold that is not written yet.
    carrying: HashSet<InstanceId>,
    bytes: u64,
    /// True while a thread is scheduled to sync the bases.
    is_due: bool,
}

impl DirtyCheckpoints {
    pub(super) fn new(
        disk: Arc<SyncedDisk>,
        workspace: PathBuf,
        inbox: Arc<InboxWal>,
    ) -> Arc<Self> {
        let (waiting, settling) = (Mutex::default(), Mutex::default());
        Arc::new(DirtyCheckpoints {
            disk,
            workspace,
            inbox,
            waiting,
            settling,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, DirtyConversations> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the messages file of a conversation.
    fn base(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.workspace, id).join(layout::BASE)
    }

    /// Notes that the final record of a turn of `id` is about to carry its fold.
    pub(super) fn carries(&self, id: &InstanceId) {
        self.waiting().carrying.insert(id.clone());
    }

    /// Notes that the fold of a turn is written. If many wait, another thread syncs them.
    pub(super) fn add(self: &Arc<Self>, id: &InstanceId, turn_id: String, bytes: u64) {
        let mut waiting = self.waiting();
        waiting.carrying.remove(id);
        waiting.last_turns.insert(id.clone(), turn_id);
        waiting.bytes += bytes;
        let is_much =
            waiting.last_turns.len() >= MAX_DIRTY_CONVERSATIONS || waiting.bytes >= MAX_DIRTY_BYTES;
        if !is_much || std::mem::replace(&mut waiting.is_due, true) {
            return;
        }
        drop(waiting);
        let of_thread = Arc::clone(self);
        let settle = move || of_thread.settle_all();
        if std::thread::Builder::new()
            .name("gdn-settle".to_owned())
            .spawn(settle)
            .is_err()
        {
            // A later call tries again; until then the inbox keeps the messages.
            self.waiting().is_due = false;
        }
    }

    /// Returns true if the base of `id` may contain unsynced data.
    pub(super) fn contains(&self, id: &InstanceId) -> bool {
        let waiting = self.waiting();
        waiting.last_turns.contains_key(id) || waiting.carrying.contains(id)
    }

    /// Notes that the base of `id` is durable with all carried folds. The next inbox record states
    /// this.
    pub(super) fn settled(&self, id: &InstanceId) {
        if self.take(id) {
            self.inbox.submit_later(&settled(id));
        }
    }

    /// Removes `id` from the waiting conversations. Returns true if it was waiting.
    fn take(&self, id: &InstanceId) -> bool {
        let mut waiting = self.waiting();
        let is_carried = waiting.carrying.remove(id);
        waiting.last_turns.remove(id).is_some() || is_carried
    }

    /// Drops the carried folds of a conversation that is about to be deleted, so that they cannot
    /// restore it. Waits for the disk.
    pub(super) fn forget(&self, id: &InstanceId) -> Result<(), StoreError> {
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        match self.take(id) {
            true => self.inbox.commit(&settled(id)).wait_here(),
            false => Ok(()),
        }
    }

    /// Closes the workspace. A small number of folds is left to the next process, with a note that
    /// everything is readable during this boot. Otherwise the bases are synced.
    pub(super) fn close(&self) {
        let waiting = self.waiting();
        let is_nothing = waiting.last_turns.is_empty() && waiting.carrying.is_empty();
        let is_little =
            waiting.last_turns.len() <= MAX_LEFT_CONVERSATIONS && waiting.bytes <= MAX_LEFT_BYTES;
        let is_written = waiting.carrying.is_empty();
        drop(waiting);
        match self.disk.boot().filter(|_| is_little && is_written) {
            _ if is_nothing => {}
            Some(boot) => self.inbox.append_unsynced(&InboxRecord::Closed { boot }),
            None => self.settle_all(),
        }
    }

    /// Takes over the folds that a previous process of the same boot left when it closed the
    /// workspace. Folds of conversations that were deleted since then are dropped.
    pub(super) fn take_over(&self, carried: Vec<TurnCheckpoint>) {
        let mut deleted = Vec::new();
        for TurnCheckpoint { turn_id, fold } in carried {
            if deleted.contains(&fold.instance) {
                continue;
            }
            if !self.disk.exists(&self.base(&fold.instance)) {
                self.inbox.submit_later(&settled(&fold.instance));
                deleted.push(fold.instance);
                continue;
            }
            let mut bytes = Vec::new();
            // The messages were encoded before, so encoding them cannot fail.
            let _ = lines::encode(&mut bytes, &fold.messages);
            let mut waiting = self.waiting();
            waiting.last_turns.insert(fold.instance, turn_id);
            waiting.bytes += bytes.len() as u64;
        }
    }

    /// Syncs the bases of all waiting conversations and notes this with the next inbox record.
    pub(super) fn settle_all(&self) {
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = {
            let mut waiting = self.waiting();
            waiting.is_due = false;
            waiting.bytes = 0;
            waiting.last_turns.clone()
        };
        let mut folds = Vec::with_capacity(waiting.len());
        for (instance, turn_id) in waiting {
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
        let mut waiting = self.waiting();
        for settled in &folds {
            if waiting.last_turns.get(&settled.instance) == settled.turn_id.as_ref() {
                waiting.last_turns.remove(&settled.instance);
            }
        }
        if !folds.is_empty() {
            self.inbox.submit_later(&InboxRecord::Settled { folds });
        }
    }

    /// Syncs the messages file of a conversation; does nothing if the conversation was deleted.
    fn sync_base(&self, id: &InstanceId) -> Result<(), StoreError> {
        let path = self.base(id);
        if !self.disk.exists(&path) {
            // The conversation was deleted, so there is nothing to sync.
            return Ok(());
        }
        // A turn may append to the file at the same time, so do nothing but sync it here.
        let opened = self.disk.open(&path);
        let synced = opened.and_then(|mut opened| self.disk.sync(&mut *opened.file));
        let result = synced.and_then(|()| {
            self.disk
                .sync_directories(&path, layout::INSTANCE_FILE_DEPTH)
        });
        result.map_err(|cause| StoreError::file("sync", &path, cause))
    }

    /// Writes the carried folds into the bases. A base ends after its last fold, unless a power
    /// failure truncated or tore it.
    pub(super) fn restore(&self, carried: Vec<TurnCheckpoint>) -> Result<(), StoreError> {
        let mut by_instance: BTreeMap<InstanceId, Vec<TurnCheckpoint>> = BTreeMap::new();
        for carried in carried {
            by_instance
                .entry(carried.fold.instance.clone())
                .or_default()
                .push(carried);
        }
        for (id, folds) in by_instance {
            let path = self.base(&id);
            let bytes = self
                .restore_base(&path, &folds)
                .map_err(|cause| StoreError::file("restore", &path, cause))?;
            let last = folds
                .last()
                .map(|last| last.turn_id.clone())
                .unwrap_or_default();
            let mut waiting = self.waiting();
            waiting.last_turns.insert(id, last);
            waiting.bytes += bytes;
        }
        Ok(())
    }

    /// Returns the number of bytes that the inbox carries.
    fn restore_base(&self, path: &Path, folds: &[TurnCheckpoint]) -> std::io::Result<u64> {
        // A rewrite replaces everything before it.
        let folds = &folds[folds
            .iter()
            .rposition(|carried| carried.fold.is_whole)
            .unwrap_or_default()..];
        let start = folds.first().map_or(0, |first| first.fold.at);
        let mut missing = Vec::new();
        for carried in folds {
            lines::encode(&mut missing, &carried.fold.messages)?;
        }
        let carried = missing.len() as u64;
        let found = self.disk.read_if_there(path)?.unwrap_or_default();
        let kept_bytes = usize::try_from(start).unwrap_or(usize::MAX);
        match found.get(kept_bytes..) {
            Some(rest) if rest == missing => return Ok(carried),
            Some(_) => {}
            None => {
                tracing::warn!(path = %path.display(), "a conversation file is shorter than its \
                    checkpoint: its last messages are lost");
                return Ok(carried);
            }
        }
        let mut file = self.disk.open(path)?.file;
        file.set_len(start)?;
        file.write_at(start, &missing)?;
        Ok(carried)
    }
}

/// Creates the log record that states: all messages of the conversation are on disk.
fn settled(id: &InstanceId) -> InboxRecord {
    InboxRecord::Settled {
        folds: vec![SettledFold {
            instance: id.clone(),
            turn_id: None,
        }],
    }
}
