//! The instances that a process changes. At its end, only these are looked at again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::synced_disk::SyncedDisk;
use super::{instance_directories, layout};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus};

/// State of an instance, as far as the counts in a checkpoint depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedState {
    Absent,
    Counted(InstanceStatus),
}

impl From<Option<&InstanceMeta>> for CountedState {
    fn from(meta: Option<&InstanceMeta>) -> Self {
        meta.map_or(CountedState::Absent, |meta| {
            CountedState::Counted(meta.status)
        })
    }
}

pub(super) struct ChangedInstances {
    disk: Arc<SyncedDisk>,
    workspace: PathBuf,
    state: Mutex<InstanceChanges>,
}

/// Changes since the store was opened.
#[derive(Default)]
struct InstanceChanges {
    /// State of each changed instance before its first change.
    before: BTreeMap<InstanceId, CountedState>,
    /// True if the changes are not completely known.
    is_incomplete: bool,
    /// Number of written and deleted instances.
    writes: u64,
    /// Metadata of all instances, after they were listed once.
    metas: Option<HashMap<InstanceId, InstanceMeta>>,
}

impl ChangedInstances {
    pub(super) fn new(disk: Arc<SyncedDisk>, workspace: PathBuf) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(ChangedInstances {
            disk,
            workspace,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, InstanceChanges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the state of an instance before its first change. Reads its metadata once.
    pub(super) fn track(&self, id: &InstanceId) {
        let mut changes = self.state();
        if changes.before.contains_key(id) {
            return;
        }
        let dir = layout::instance_dir(&self.workspace, id);
        match instance_directories::read_meta(&**self.disk, &dir) {
            Ok(meta) => {
                let before = CountedState::from(meta.as_ref());
                changes.before.insert(id.clone(), before);
            }
            Err(_) => changes.is_incomplete = true,
        }
    }

    /// Records that a change failed, so that the state of the directory is unknown.
    pub(super) fn mark_incomplete(&self) {
        self.state().is_incomplete = true;
    }

    /// Counts a write of metadata, and updates the cached list of metadata, if there is one.
    pub(super) fn record_write(&self, meta: &InstanceMeta) {
        let mut changes = self.state();
        changes.writes += 1;
        if let Some(metas) = &mut changes.metas {
            metas.insert(meta.id(), meta.clone());
        }
    }

    /// Records that an instance was deleted.
    pub(super) fn record_deletion(&self, id: &InstanceId) {
        let mut changes = self.state();
        changes.writes += 1;
        if let Some(metas) = &mut changes.metas {
            metas.remove(id);
        }
    }

    /// Returns the number of writes and deletions so far.
    pub(super) fn write_count(&self) -> u64 {
        self.state().writes
    }

    /// Returns the metadata of all instances, if they were listed before.
    pub(super) fn instance_metas(&self) -> Option<Vec<InstanceMeta>> {
        let changes = self.state();
        let metas = changes.metas.as_ref()?;
        Some(metas.values().cloned().collect())
    }

    /// Keeps the metadata of all instances for later lists, unless one was written or deleted since
    /// `writes`.
    pub(super) fn keep_metas(&self, metas: &[InstanceMeta], writes: u64) {
        let mut changes = self.state();
        if changes.writes == writes {
            let metas = metas.iter().map(|meta| (meta.id(), meta.clone()));
            changes.metas = Some(metas.collect());
        }
    }

    /// Returns the changed instances.
    pub(super) fn ids(&self) -> BTreeSet<InstanceId> {
        self.state().before.keys().cloned().collect()
    }

    /// Returns the state of each changed instance before its first change; `None` if not all
    /// changes are known.
    pub(super) fn states_before(&self) -> Option<BTreeMap<InstanceId, CountedState>> {
        let changes = self.state();
        (!changes.is_incomplete).then(|| changes.before.clone())
    }
}
