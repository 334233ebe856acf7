//! `runtime-events.jsonl`: events for observers. Never used for recovery.
//!
//! A file that grows too large is renamed to `runtime-events.jsonl.1`, which replaces an earlier
//! one, and a new file begins.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::appender::FileAppender;
use super::synced_disk::SyncedDisk;
use super::{layout, lines};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;

/// Maximum number of events per write.
const MAX_BATCH_EVENTS: usize = 1_024;

/// File size in bytes at which a new file begins.
const MAX_EVENT_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of open files. Opening a file takes longer than writing the events of a moment.
const MAX_OPEN_FILES: usize = 1_024;

/// Appends events to the files of their instances.
pub(super) struct RuntimeEventFiles {
    disk: Arc<SyncedDisk>,
    workspace: PathBuf,
    max_bytes: u64,
    files: HashMap<InstanceId, FileAppender>,
    /// Instances whose file could not be written, so that each failure is logged once.
    failing: HashSet<InstanceId>,
}

impl RuntimeEventFiles {
    pub(super) fn new(disk: Arc<SyncedDisk>, workspace: PathBuf) -> Self {
        RuntimeEventFiles::of_size(MAX_EVENT_FILE_BYTES, disk, workspace)
    }

    /// Creates the files with another maximum size, for tests.
    fn of_size(max_bytes: u64, disk: Arc<SyncedDisk>, workspace: PathBuf) -> Self {
        RuntimeEventFiles {
            disk,
            workspace,
            max_bytes,
            files: HashMap::new(),
            failing: HashSet::new(),
        }
    }

    /// Writes events to the files of their instances. Failures are logged once per instance.
    pub(super) fn append(&mut self, events: &[Arc<RuntimeEvent>]) {
        for batch in events.chunks(MAX_BATCH_EVENTS) {
            self.write(batch);
        }
    }

    /// Closes the event file of an instance, so that the file can be deleted.
    pub(super) fn close(&mut self, id: &InstanceId) {
        self.files.remove(id);
    }

    /// Writes a batch of events, grouped by instance.
    fn write(&mut self, batch: &[Arc<RuntimeEvent>]) {
        for (id, events) in by_instance(batch) {
            if self.files.len() >= MAX_OPEN_FILES && !self.files.contains_key(&id) {
                self.files.clear();
            }
            let written = self
                .file(&id)
                .append_all(events.into_iter())
                .and_then(|()| self.put_aside(&id));
            match written {
                Ok(()) => drop(self.failing.remove(&id)),
                Err(error) => {
                    if self.failing.insert(id.clone()) {
                        tracing::warn!(instance = %id, %error, "could not write runtime events; \
                            they are missing from the log");
                    }
                }
            }
        }
    }

    /// Renames the file of `id` if it is too large.
    fn put_aside(&mut self, id: &InstanceId) -> Result<(), StoreError> {
        if self.file(id).len() < self.max_bytes {
            return Ok(());
        }
        let path = self.file(id).path().to_owned();
        // Some systems cannot rename an open file.
        self.files.remove(id);
        let aside = layout::instance_dir(&self.workspace, id).join(layout::OLDER_RUNTIME_EVENTS);
        self.disk
            .rename(&path, &aside)
            .map_err(|cause| StoreError::file("put aside", &path, cause))
    }

    /// Returns the event file of an instance; opens the file on its first use.
    fn file(&mut self, id: &InstanceId) -> &mut FileAppender {
        let (disk, workspace): (_, &Path) = (&self.disk, &self.workspace);
        self.files.entry(id.clone()).or_insert_with(|| {
            let path = layout::instance_dir(workspace, id).join(layout::RUNTIME_EVENTS);
            FileAppender::new(Arc::clone(disk), path, layout::INSTANCE_FILE_DEPTH)
        })
    }
}

/// Reads the events of an instance after `after`, as far back as its files reach. Skips unreadable
/// lines.
pub(super) fn read(
    disk: &SyncedDisk,
    instance: &Path,
    after: u64,
) -> Result<Vec<RuntimeEvent>, StoreError> {
    let mut events = Vec::new();
    for file in [layout::OLDER_RUNTIME_EVENTS, layout::RUNTIME_EVENTS] {
        let path = instance.join(file);
        let read = lines::read::<RuntimeEvent>(&**disk, &path);
        let (found, _) = read
            .map_err(|cause| StoreError::file("read", &path, cause))?
            .into_values();
        events.extend(found.into_iter().filter(|event| event.sequence > after));
    }
    Ok(events)
}

/// Groups events by instance.
fn by_instance(batch: &[Arc<RuntimeEvent>]) -> HashMap<InstanceId, Vec<&RuntimeEvent>> {
    let mut by_instance: HashMap<InstanceId, Vec<&RuntimeEvent>> = HashMap::new();
    for event in batch {
        by_instance.entry(event.instance()).or_default().push(event);
    }
    by_instance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::SimFs;
    use goondan_core::event::RuntimeEventKind;
    use goondan_core::ids::TraceContext;

    #[test]
    fn a_large_event_file_is_rotated_and_one_old_file_is_kept() {
        let fs = SimFs::new();
        let (workspace, id) = (PathBuf::from("/workspace"), InstanceId::new("a", "main"));
        let event = |number: usize| RuntimeEvent {
            kind: RuntimeEventKind::TurnStarted {
                turn_id: format!("turn-{number}"),
                event_id: "x".to_owned(),
                event_type: goondan_core::reserved_names::INPUT_EVENT.to_owned(),
            },
            sequence: 1,
            timestamp: chrono::DateTime::UNIX_EPOCH,
            agent_name: "a".to_owned(),
            instance_key: "main".to_owned(),
            trace: TraceContext::root("0", None, "turn"),
        };
        for number in 0..5 {
            let size = 2 * serde_json::to_vec(&event(0)).unwrap().len() as u64;
            let disk = SyncedDisk::new(Arc::new(fs.clone()));
            RuntimeEventFiles::of_size(size, disk, workspace.clone())
                .append(&[Arc::new(event(number))]);
        }
        let numbers = |name: &str| {
            let text = fs
                .contents(&layout::instance_dir(&workspace, &id).join(name))
                .unwrap();
            let events: Vec<RuntimeEvent> = text
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect();
            let turn = |event: RuntimeEvent| match event.kind {
                RuntimeEventKind::TurnStarted { turn_id, .. } => turn_id,
                other => panic!("{other:?}"),
            };
            events.into_iter().map(turn).collect::<Vec<_>>()
        };
        assert_eq!(numbers(layout::OLDER_RUNTIME_EVENTS), ["turn-2", "turn-3"]);
        assert_eq!(numbers(layout::RUNTIME_EVENTS), ["turn-4"]);
    }
}
