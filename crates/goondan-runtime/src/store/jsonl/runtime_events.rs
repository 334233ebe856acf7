//! `runtime-events.jsonl`: what happened, for people and programs that watch. Never used for recovery.
//!
//! A file that has grown too large becomes `runtime-events.jsonl.1`, in place of the one of that name, and a new one begins.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::appender::Appender;
use super::disk::Disk;
use super::layout;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;
use crate::ports::store::StoreError;

/// That many events wait for a slow disk; what comes on top is dropped and counted.
const MAX_WAITING: usize = 65_536;

/// At the most that many events are written in one go.
const MAX_BATCH: usize = 1_024;

/// A file that has that many bytes is put aside.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// That many files stay open.
const OPEN_FILES: usize = 64;

enum Job {
    Write(Box<RuntimeEvent>),
    /// Let go of the instance's file, then say so.
    Close(InstanceId, SyncSender<()>),
}

/// Appends events to the files of their instances, on a thread of its own.
pub(super) struct RuntimeEventLog {
    jobs: Option<SyncSender<Job>>,
    writer: Option<JoinHandle<()>>,
    dropped: Arc<AtomicU64>,
}

impl RuntimeEventLog {
    /// The log of the workspace in that folder.
    pub(super) fn open(disk: Arc<Disk>, workspace: PathBuf) -> std::io::Result<Self> {
        RuntimeEventLog::with_files_of(MAX_BYTES, disk, workspace)
    }

    fn with_files_of(max_bytes: u64, disk: Arc<Disk>, workspace: PathBuf) -> std::io::Result<Self> {
        let (jobs, queue) = sync_channel(MAX_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            disk,
            workspace,
            max_bytes,
            dropped: Arc::clone(&dropped),
            files: HashMap::new(),
            failing: HashSet::new(),
        };
        let writer = std::thread::Builder::new().name("gdn-events".to_owned()).spawn(move || writer.run(&queue))?;
        Ok(RuntimeEventLog { jobs: Some(jobs), writer: Some(writer), dropped })
    }

    /// Appends `event`, soon. Never waits: an event that finds no room is dropped.
    pub(super) fn append(&self, event: RuntimeEvent) {
        let Some(jobs) = &self.jobs else { return };
        if let Err(TrySendError::Full(_)) = jobs.try_send(Job::Write(Box::new(event))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what waits and lets go of the file of an instance that is about to be deleted.
    pub(super) fn close(&self, id: &InstanceId) {
        let (done, wait) = sync_channel(1);
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(Job::Close(id.clone(), done)));
        if matches!(sent, Some(Ok(()))) {
            // The writer only ends with the log; then nothing is open.
            let _ = wait.recv();
        }
    }
}

impl Drop for RuntimeEventLog {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// What the writer thread owns.
struct Writer {
    disk: Arc<Disk>,
    workspace: PathBuf,
    max_bytes: u64,
    dropped: Arc<AtomicU64>,
    files: HashMap<InstanceId, Appender>,
    /// Instances whose file could not be written: it is told once.
    failing: HashSet<InstanceId>,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut batch = Batch::default();
            for job in std::iter::once(first).chain(queue.try_iter().take(MAX_BATCH - 1)) {
                match job {
                    Job::Write(event) => batch.add(*event),
                    Job::Close(id, done) => {
                        self.write(std::mem::take(&mut batch));
                        self.files.remove(&id);
                        // Nobody waits any more where the log is being dropped.
                        let _ = done.send(());
                    }
                }
            }
            self.write(batch);
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(dropped, "runtime events were not written: the disk is too slow");
            }
        }
    }

    fn write(&mut self, batch: Batch) {
        for (id, events) in batch.by_instance {
            if self.files.len() >= OPEN_FILES && !self.files.contains_key(&id) {
                self.files.clear();
            }
            let written = self.file(&id).append_all(events.iter()).and_then(|()| self.put_aside(&id));
            match written {
                Ok(()) => drop(self.failing.remove(&id)),
                Err(error) => {
                    if self.failing.insert(id.clone()) {
                        tracing::warn!(instance = %id, %error, "runtime events are not written");
                    }
                }
            }
        }
    }

    /// Begins a new file where the one of `id` is large enough.
    fn put_aside(&mut self, id: &InstanceId) -> Result<(), StoreError> {
        if self.file(id).len() < self.max_bytes {
            return Ok(());
        }
        let path = self.file(id).path().to_owned();
        // Some systems rename no file that is open.
        self.files.remove(id);
        let aside = layout::instance_dir(&self.workspace, id).join(layout::OLDER_RUNTIME_EVENTS);
        self.disk.rename(&path, &aside).map_err(|cause| StoreError::new("put aside", &path, &cause))
    }

    fn file(&mut self, id: &InstanceId) -> &mut Appender {
        let (disk, workspace): (_, &Path) = (&self.disk, &self.workspace);
        self.files.entry(id.clone()).or_insert_with(|| {
            let path = layout::instance_dir(workspace, id).join(layout::RUNTIME_EVENTS);
            Appender::new(Arc::clone(disk), path, layout::DEPTH)
        })
    }
}

/// Events that are written together, an instance at a time.
#[derive(Default)]
struct Batch {
    by_instance: HashMap<InstanceId, Vec<RuntimeEvent>>,
}

impl Batch {
    fn add(&mut self, event: RuntimeEvent) {
        self.by_instance.entry(event.instance()).or_default().push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RuntimeEventKind;
    use crate::ids::TraceContext;
    use crate::store::fs::sim::SimFs;

    #[test]
    fn a_large_file_is_put_aside_and_one_is_kept() {
        let fs = SimFs::new();
        let (workspace, id) = (PathBuf::from("/workspace"), InstanceId::new("a", "main"));
        let event = |number: usize| RuntimeEvent {
            kind: RuntimeEventKind::TurnStarted { turn_id: format!("turn-{number}"), event_id: "x".to_owned() },
            timestamp: chrono::DateTime::UNIX_EPOCH,
            agent_name: "a".to_owned(),
            instance_key: "main".to_owned(),
            trace: TraceContext::root("0", None, "turn"),
        };
        for number in 0..5 {
            // Each log writes what it was given before it is gone: an event a batch.
            let size = 2 * serde_json::to_vec(&event(0)).unwrap().len() as u64;
            let disk = Disk::new(Arc::new(fs.clone()));
            let log = RuntimeEventLog::with_files_of(size, disk, workspace.clone()).unwrap();
            log.append(event(number));
        }
        let numbers = |name: &str| {
            let text = fs.contents(&layout::instance_dir(&workspace, &id).join(name)).unwrap();
            let events: Vec<RuntimeEvent> =
                text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
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
