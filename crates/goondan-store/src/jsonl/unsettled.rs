//! Folds that records of the inbox carry, and whose bases are written but not synced.
//!
//! A turn's new messages are safe with the record that ends it, so its fold is written and no more. Now and then the bases are
//! synced, and a record says so: from then on the inbox may forget those messages. Until then they are written again, where a
//! power failure took them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;
use super::inbox::Inbox;
use super::{layout, lines};
use crate::ledger::Carried;
use crate::record::{InboxRecord, SettledFold};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;

/// That many conversations may wait for a sync of their base,
const MOST_CONVERSATIONS: usize = 512;
/// with that many bytes that the inbox carries for them.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// So few may wait when the workspace is closed: the next process looks after them. To sync them takes longer than all the
/// rest of the end.
const LEFT_CONVERSATIONS: usize = 16;
const LEFT_BYTES: u64 = 256 * 1024;

/// The conversations of a workspace whose last folds are not settled.
pub(super) struct Unsettled {
    disk: Arc<Disk>,
    workspace: PathBuf,
    inbox: Arc<Inbox>,
    waiting: Mutex<Waiting>,
    /// Held while bases are synced.
    settling: Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    /// The last turn of each whose fold is written.
    last_turns: HashMap<InstanceId, String>,
    /// Those of which the inbox may carry a fold that is not written yet.
    carrying: HashSet<InstanceId>,
    bytes: u64,
    /// A thread is about to settle them.
    is_due: bool,
}

impl Unsettled {
    pub(super) fn new(disk: Arc<Disk>, workspace: PathBuf, inbox: Arc<Inbox>) -> Arc<Self> {
        let (waiting, settling) = (Mutex::default(), Mutex::default());
        Arc::new(Unsettled {
            disk,
            workspace,
            inbox,
            waiting,
            settling,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.workspace, id).join(layout::BASE)
    }

    /// The record that ends a turn of `id` is about to carry its fold.
    pub(super) fn carries(&self, id: &InstanceId) {
        self.waiting().carrying.insert(id.clone());
    }

    /// The fold of a turn is written. Where much waits, it is settled on another thread.
    pub(super) fn add(self: &Arc<Self>, id: &InstanceId, turn_id: String, bytes: u64) {
        let mut waiting = self.waiting();
        waiting.carrying.remove(id);
        waiting.last_turns.insert(id.clone(), turn_id);
        waiting.bytes += bytes;
        let is_much = waiting.last_turns.len() >= MOST_CONVERSATIONS || waiting.bytes >= MOST_BYTES;
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
            // Later, then: nothing is lost meanwhile.
            self.waiting().is_due = false;
        }
    }

    /// Whether the base of `id` may be ahead of the disk.
    pub(super) fn contains(&self, id: &InstanceId) -> bool {
        let waiting = self.waiting();
        waiting.last_turns.contains_key(id) || waiting.carrying.contains(id)
    }

    /// The base of `id` was synced with everything that the inbox carries of it: that is settled, with the next record.
    pub(super) fn settled(&self, id: &InstanceId) {
        if self.take(id) {
            self.inbox.submit_later(&settled(id));
        }
    }

    /// Waits no more for the base of `id`. Whether it did.
    fn take(&self, id: &InstanceId) -> bool {
        let mut waiting = self.waiting();
        let is_carried = waiting.carrying.remove(id);
        waiting.last_turns.remove(id).is_some() || is_carried
    }

    /// A conversation is about to be deleted: what the inbox carries of it must not bring it back. Waits for the disk.
    pub(super) fn forget(&self, id: &InstanceId) -> Result<(), StoreError> {
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        match self.take(id) {
            true => self.inbox.commit(&settled(id)).wait_here(),
            false => Ok(()),
        }
    }

    /// The workspace is closed. Where little waits, that is left to the next process, with a note that in this run of the machine
    /// everything is there; otherwise it is settled.
    pub(super) fn close(&self) {
        let waiting = self.waiting();
        let is_nothing = waiting.last_turns.is_empty() && waiting.carrying.is_empty();
        let is_little =
            waiting.last_turns.len() <= LEFT_CONVERSATIONS && waiting.bytes <= LEFT_BYTES;
        let is_written = waiting.carrying.is_empty();
        drop(waiting);
        match self.disk.boot().filter(|_| is_little && is_written) {
            _ if is_nothing => {}
            Some(boot) => self.inbox.leave(&InboxRecord::Closed { boot }),
            None => self.settle_all(),
        }
    }

    /// Takes over what an earlier process of this run of the machine has left when it closed the workspace. Who has deleted a
    /// conversation since then has deleted what the inbox carries of it, too.
    pub(super) fn take_over(&self, carried: Vec<Carried>) {
        let mut deleted = Vec::new();
        for Carried { turn_id, fold } in carried {
            if deleted.contains(&fold.instance) {
                continue;
            }
            if !self.disk.exists(&self.base(&fold.instance)) {
                self.inbox.submit_later(&settled(&fold.instance));
                deleted.push(fold.instance);
                continue;
            }
            let mut bytes = Vec::new();
            // What was encoded once can be encoded again.
            let _ = lines::encode(&mut bytes, &fold.messages);
            let mut waiting = self.waiting();
            waiting.last_turns.insert(fold.instance, turn_id);
            waiting.bytes += bytes.len() as u64;
        }
    }

    /// Syncs the bases of all that wait, and says so with the next record of the inbox.
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
                // The inbox goes on carrying it.
                Err(error) => {
                    tracing::warn!(%instance, %error, "a conversation was not put on disk")
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

    fn sync_base(&self, id: &InstanceId) -> Result<(), StoreError> {
        let path = self.base(id);
        if !self.disk.exists(&path) {
            // Somebody has deleted it: there is nothing to keep.
            return Ok(());
        }
        // A turn of the conversation may append to it meanwhile: nothing but the sync may be done to it here.
        let opened = self.disk.open(&path);
        let synced = opened.and_then(|mut opened| self.disk.sync(&mut *opened.file));
        let named = synced.and_then(|()| self.disk.put_name(&path, layout::DEPTH));
        named.map_err(|cause| StoreError::file("put on disk", &path, cause))
    }

    /// Makes the bases hold what the inbox carries. A base ends behind the last fold, or a power failure has cut or torn it.
    pub(super) fn restore(&self, carried: Vec<Carried>) -> Result<(), StoreError> {
        let mut by_instance: BTreeMap<InstanceId, Vec<Carried>> = BTreeMap::new();
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

    /// Gives back how many bytes the inbox carries.
    fn restore_base(&self, path: &Path, folds: &[Carried]) -> std::io::Result<u64> {
        // What was there before a conversation was rewritten is gone.
        let folds = &folds[folds
            .iter()
            .rposition(|carried| carried.fold.is_whole)
            .unwrap_or_default()..];
        let start = folds.first().map_or(0, |first| first.fold.at);
        let mut wanted = Vec::new();
        for carried in folds {
            lines::encode(&mut wanted, &carried.fold.messages)?;
        }
        let carried = wanted.len() as u64;
        let found = self.disk.read_if_there(path)?.unwrap_or_default();
        let kept = usize::try_from(start).unwrap_or(usize::MAX);
        match found.get(kept..) {
            Some(rest) if rest == wanted => return Ok(carried),
            Some(_) => {}
            None => {
                tracing::warn!(path = %path.display(), "a conversation is shorter than it was: its last messages are left out");
                return Ok(carried);
            }
        }
        let mut file = self.disk.open(path)?.file;
        file.set_len(start)?;
        file.write_at(start, &wanted)?;
        Ok(carried)
    }
}

fn settled(id: &InstanceId) -> InboxRecord {
    InboxRecord::Settled {
        folds: vec![SettledFold {
            instance: id.clone(),
            turn_id: None,
        }],
    }
}
