//! Folds that inbox records carry, whose bases are written but not synced.
//!
//! The record that ends a turn makes its new messages durable, so the fold is written without a
//! sync. From time to time the bases are synced, and a record notes that the inbox may forget those
//! messages. Until then, messages lost in a power failure are restored from the inbox.

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
    /// everything is readable during this boot. Otherwise the bases are synced. Returns true if the
    /// bases contain all folds.
    pub(super) fn close(&self) -> bool {
        let waiting = self.waiting();
        let is_nothing = waiting.last_turns.is_empty() && waiting.carrying.is_empty();
        let is_little =
            waiting.last_turns.len() <= MAX_LEFT_CONVERSATIONS && waiting.bytes <= MAX_LEFT_BYTES;
        let is_written = waiting.carrying.is_empty();
        drop(waiting);
        match self.disk.boot().filter(|_| is_little && is_written) {
            _ if is_nothing => {}
            Some(boot) => self.inbox.append_unsynced(&InboxRecord::Closed { boot }),
            None => {
                self.settle_all();
                let waiting = self.waiting();
                return waiting.last_turns.is_empty() && waiting.carrying.is_empty();
            }
        }
        true
    }

    /// Takes over the folds that a previous process of the same boot left when it closed the
    /// workspace. Folds of conversations that were deleted since then are dropped. A conversation
    /// that lost only its messages gets the carried ones again.
    pub(super) fn take_over(&self, carried: Vec<TurnCheckpoint>) -> Result<(), StoreError> {
        let (lost, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = by_conversation(carried)
            .into_iter()
            .partition(|(id, _)| self.has_lost_base(id));
        self.restore_all(lost)?;
        for (id, folds) in kept {
            if !self.disk.exists(&self.base(&id)) {
                self.inbox.submit_later(&settled(&id));
                continue;
            }
            let mut bytes = Vec::new();
            for TurnCheckpoint { fold, .. } in &folds {
                // The messages were encoded before, so encoding them cannot fail.
                let _ = lines::encode(&mut bytes, &fold.messages);
            }
            self.note_unsynced(id, &folds, bytes.len() as u64);
        }
        Ok(())
    }

    /// Notes that checkpoints were copied into the base file of a conversation and that the file is
    /// not synced. The last turn is empty if the checkpoints have none.
    fn note_unsynced(&self, id: InstanceId, folds: &[TurnCheckpoint], bytes: u64) {
        let last = folds.last().map(|last| last.turn_id.clone());
        let mut waiting = self.waiting();
        waiting.last_turns.insert(id, last.unwrap_or_default());
        waiting.bytes += bytes;
    }

    /// Returns true if the conversation has metadata, but its messages file is missing or empty.
    fn has_lost_base(&self, id: &InstanceId) -> bool {
        let metadata = layout::instance_dir(&self.workspace, id).join(layout::METADATA);
        let length = self.disk.file_len(&self.base(id));
        self.disk.exists(&metadata) && !matches!(length, Ok(Some(1..)))
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
        self.restore_all(by_conversation(carried))
    }

    /// Writes the carried folds of each conversation into its base.
    fn restore_all(
        &self,
        carried: BTreeMap<InstanceId, Vec<TurnCheckpoint>>,
    ) -> Result<(), StoreError> {
        for (id, folds) in carried {
            let path = self.base(&id);
            let restored = self
                .restore_base(&path, &folds)
                .map_err(|cause| StoreError::file("restore", &path, cause))?;
            if restored.is_moved {
                // The positions in the records no longer fit.
                self.sync_base(&id)?;
                self.inbox.submit_later(&settled(&id));
                continue;
            }
            self.note_unsynced(id, &folds, restored.bytes);
        }
        Ok(())
    }

    /// Writes the carried messages to a base that lacks them.
    fn restore_base(&self, path: &Path, folds: &[TurnCheckpoint]) -> io::Result<RestoredBase> {
        // A rewrite replaces everything before it.
        let folds = &folds[folds
            .iter()
            .rposition(|carried| carried.fold.is_whole)
            .unwrap_or_default()..];
        let first = folds.first().map(|first| &first.fold);
        let (start, sequence) = first.map_or((0, None), |first| (first.at, first.sequence));
        let kept_bytes = usize::try_from(start).unwrap_or(usize::MAX);
        let found = self.disk.read_if_there(path)?.unwrap_or_default();
        if let Some(line) = found.split_inclusive(|byte| *byte == b'\n').next() {
            file_format::read_header(line, path)?;
        }
        let content = content_from(kept_bytes, path, folds)?;
        let bytes = content.len() as u64;
        if found.get(kept_bytes..).is_some_and(|rest| rest == content) {
            let is_moved = false;
            return Ok(RestoredBase { bytes, is_moved });
        }
        let place = place_after(&found, sequence, kept_bytes);
        let is_moved = place != kept_bytes;
        if is_moved {
            tracing::warn!(path = %path.display(), "a conversation file is damaged: some of its \
                messages may be missing");
        }
        let content = content_from(place, path, folds)?;
        let mut file = self.disk.open(path)?.file;
        file.set_len(place as u64)?;
        file.write_at(place as u64, &content)?;
        Ok(RestoredBase { bytes, is_moved })
    }
}

/// Groups folds by their conversations, each in its order.
fn by_conversation(carried: Vec<TurnCheckpoint>) -> BTreeMap<InstanceId, Vec<TurnCheckpoint>> {
    let mut by_conversation: BTreeMap<InstanceId, Vec<TurnCheckpoint>> = BTreeMap::new();
    for carried in carried {
        by_conversation
            .entry(carried.fold.instance.clone())
            .or_default()
            .push(carried);
    }
    by_conversation
}

/// Returns the messages of `folds` as they are in the base at `path` from the offset `place` on. At
/// the start of a file with numbers, they begin with its header.
fn content_from(place: usize, path: &Path, folds: &[TurnCheckpoint]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut folds = folds
        .iter()
        .map(|carried| &carried.fold)
        .filter(|fold| !fold.messages.is_empty())
        .peekable();
    if place == 0 && folds.peek().is_some_and(|first| first.sequence.is_some()) {
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
    /// Number of bytes that the inbox carries.
    bytes: u64,
    /// True if the messages are not at their recorded position, because the file is damaged.
    is_moved: bool,
}

/// Returns the offset in a base after its last record before the record `first`. `start` is the
/// offset that the inbox states; a power failure leaves everything before it intact.
fn place_after(found: &[u8], first: Option<u64>, start: usize) -> usize {
    let (mut end, mut place) = (0, 0);
    if start == 0 && first == Some(lines::FIRST_SEQUENCE) {
        return 0;
    }
    for line in found.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        let is_before = match first {
            Some(first) => checksum::is_intact(line) && checksum::sequence(line) < Some(first),
            None => end <= start,
        };
        if is_before && line.ends_with(b"\n") {
            place = end;
        }
    }
    place
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
