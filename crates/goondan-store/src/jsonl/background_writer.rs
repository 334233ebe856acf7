//! Writes data that no caller waits for on a separate thread: runtime events and instance metadata.
//!
//! Waking a thread costs more than writing a line, and metadata changes with each turn. Both are
//! therefore delayed a little, so that several writes share one wake-up.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::changed_instances::ChangedInstances;
use super::runtime_events::RuntimeEventFiles;
use super::synced_disk::SyncedDisk;
use super::{instance_directories, layout};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, StoreError};

/// Maximum number of events that wait for a slow disk. Further events are dropped and counted.
const MAX_QUEUED_EVENTS: usize = 65_536;

/// Time that the first event waits for more events.
const EVENT_WRITE_DELAY: Duration = Duration::from_millis(20);

/// Time that the metadata of an instance waits for the end of its next turn.
const META_WRITE_DELAY: Duration = Duration::from_millis(250);

pub(super) struct BackgroundWriter {
    shared: Arc<BackgroundShared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct BackgroundShared {
    disk: Arc<SyncedDisk>,
    workspace: PathBuf,
    waiting: Mutex<PendingWrites>,
    wake: Condvar,
    changed: Arc<ChangedInstances>,
    /// Held while metadata is written, so that an older version never overwrites a newer one.
    metas: Mutex<()>,
}

#[derive(Default)]
struct PendingWrites {
    events: Vec<Arc<RuntimeEvent>>,
    events_due: Option<Instant>,
    /// Number of events that found the queue full.
    dropped: u64,
    metas: HashMap<InstanceId, InstanceMeta>,
    metas_due: Option<Instant>,
    /// Time of the next wake-up that the writer has scheduled itself.
    wakes_at: Option<Instant>,
    /// Instances whose files are to be closed, with a channel for the confirmation.
    close: Vec<(InstanceId, SyncSender<()>)>,
    /// Callers that wait until the events are written.
    flush: Vec<SyncSender<()>>,
    is_over: bool,
}

impl BackgroundWriter {
    /// Starts the writer thread. Fails if the system cannot start a thread.
    pub(super) fn start(
        disk: Arc<SyncedDisk>,
        workspace: PathBuf,
        changed: Arc<ChangedInstances>,
    ) -> std::io::Result<Self> {
        let files = RuntimeEventFiles::new(Arc::clone(&disk), workspace.clone());
        let (waiting, metas) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(BackgroundShared {
            disk,
            workspace,
            waiting,
            wake: Condvar::new(),
            changed,
            metas,
        });
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gdn-background".to_owned());
        let writer = thread.spawn(move || thread_shared.run(files))?;
        Ok(BackgroundWriter {
            shared,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Queues `event` to be appended. Never blocks: an event is dropped if the queue is full.
    pub(super) fn log(&self, event: Arc<RuntimeEvent>) {
        let mut waiting = self.shared.lock_pending();
        if waiting.events.len() >= MAX_QUEUED_EVENTS {
            waiting.dropped += 1;
            return;
        }
        waiting.events.push(event);
        if waiting.events_due.is_none() {
            let due = Instant::now() + EVENT_WRITE_DELAY;
            waiting.events_due = Some(due);
            self.shared.wake_before(waiting, due);
        }
    }

    /// Queues the metadata of an instance; the writer thread writes it after a short delay.
    pub(super) fn put_meta_soon(&self, meta: InstanceMeta) {
        let mut waiting = self.shared.lock_pending();
        waiting.metas.insert(meta.id(), meta);
        if waiting.metas_due.is_none() {
            let due = Instant::now() + META_WRITE_DELAY;
            waiting.metas_due = Some(due);
            self.shared.wake_before(waiting, due);
        }
    }

    /// Writes `meta` immediately.
    pub(super) fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        let _metas = self.shared.lock_metas();
        self.shared.lock_pending().metas.remove(&meta.id());
        self.shared.write_meta(meta)
    }

    /// Returns the metadata of an instance, written or queued; `None` if the instance does not
    /// exist.
    pub(super) fn find_meta(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        // Held so that the metadata is either queued or on disk, and not between the two.
        let _metas = self.shared.lock_metas();
        let waiting = self.shared.lock_pending().metas.get(id).cloned();
        match waiting {
            Some(meta) => Ok(Some(meta)),
            None => instance_directories::find(
                &self.shared.disk,
                &layout::instance_dir(&self.shared.workspace, id),
            ),
        }
    }

    /// Writes all queued events before it returns.
    pub(super) fn flush_events(&self) {
        let (done, wait) = sync_channel(1);
        self.shared.lock_pending().flush.push(done);
        self.shared.wake.notify_one();
        // The writer ends only when the store is dropped, and writes everything before that.
        let _ = wait.recv();
    }

    /// Writes queued data and closes the files of an instance that is about to be deleted.
    pub(super) fn close(&self, id: &InstanceId) {
        let (done, wait) = sync_channel(1);
        let mut waiting = self.shared.lock_pending();
        waiting.metas.remove(id);
        waiting.close.push((id.clone(), done));
        drop(waiting);
        self.shared.wake.notify_one();
        // The writer ends only when the store is dropped, and then no file is open.
        let _ = wait.recv();
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl BackgroundWriter {
    /// Blocks until everything is written. Nothing may be queued afterwards.
    pub(super) fn finish(&self) {
        self.shared.lock_pending().is_over = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            let _ = writer.join();
        }
    }
}

impl BackgroundShared {
    /// Locks the queued writes.
    fn lock_pending(&self) -> MutexGuard<'_, PendingWrites> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the metadata files.
    fn lock_metas(&self) -> MutexGuard<'_, ()> {
        self.metas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes queued events and metadata until the writer is closed.
    fn run(&self, mut files: RuntimeEventFiles) {
        loop {
            let due = self.wait();
            files.append(&due.events);
            if due.dropped > 0 {
                tracing::warn!(
                    dropped = due.dropped,
                    "the disk is too slow; runtime events are missing from the log"
                );
            }
            if due.metas {
                self.write_metas();
            }
            for (id, done) in due.close {
                files.close(&id);
                // The receiver may be gone if the store is being dropped.
                let _ = done.send(());
            }
            for done in due.flush {
                let _ = done.send(());
            }
            if due.is_over {
                return;
            }
        }
    }

    /// Makes the writer run no later than `due`. Waking a thread costs more than the rest of a log
    /// call, so a writer that wakes up in time is not notified.
    fn wake_before(&self, waiting: MutexGuard<'_, PendingWrites>, due: Instant) {
        let is_late = waiting.wakes_at.is_none_or(|at| at > due);
        drop(waiting);
        if is_late {
            self.wake.notify_one();
        }
    }

    /// Waits until something is due, and takes it. Metadata stays in the queue as long as it can
    /// still be replaced. After work, the writer waits with a timeout once before it sleeps
    /// indefinitely, because more work usually follows.
    fn wait(&self) -> DueWrites {
        let mut waiting = self.lock_pending();
        let mut doze = Some(Instant::now() + EVENT_WRITE_DELAY);
        loop {
            let now = Instant::now();
            waiting.wakes_at = match waiting.next_due() {
                _ if waiting.is_urgent() => return waiting.take(now),
                Some(due) if due <= now => return waiting.take(now),
                Some(due) => Some(due),
                None => doze.take().filter(|until| *until > now),
            };
            waiting = match waiting.wakes_at {
                Some(at) => {
                    self.wake
                        .wait_timeout(waiting, at - now)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .wake
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Writes all queued metadata. Failures are logged; the next change of the instance writes it
    /// again.
    fn write_metas(&self) {
        let _metas = self.lock_metas();
        let metas = std::mem::take(&mut self.lock_pending().metas);
        for (id, meta) in metas {
            if let Err(error) = self.write_meta(&meta) {
                tracing::warn!(instance = %id, %error, "failed to write instance metadata");
            }
        }
    }

    /// Writes the metadata of an instance.
    fn write_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.changed.track(&meta.id());
        let dir = layout::instance_dir(&self.workspace, &meta.id());
        instance_directories::put_meta(&self.disk, &dir, meta)?;
        self.changed.record_write(meta);
        Ok(())
    }
}

struct DueWrites {
    events: Vec<Arc<RuntimeEvent>>,
    dropped: u64,
    metas: bool,
    close: Vec<(InstanceId, SyncSender<()>)>,
    flush: Vec<SyncSender<()>>,
    is_over: bool,
}

impl PendingWrites {
    /// Returns true if the writer must not wait for the next due time.
    fn is_urgent(&self) -> bool {
        self.is_over || !self.close.is_empty() || !self.flush.is_empty()
    }

    /// Returns the time of the next write; `None` if nothing is queued.
    fn next_due(&self) -> Option<Instant> {
        [self.events_due, self.metas_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes all queued events, and the queued metadata if it is due at `now`.
    fn take(&mut self, now: Instant) -> DueWrites {
        let metas = self.is_over || self.metas_due.is_some_and(|due| due <= now);
        if metas {
            self.metas_due = None;
        }
        self.events_due = None;
        DueWrites {
            events: std::mem::take(&mut self.events),
            dropped: std::mem::take(&mut self.dropped),
            metas,
            close: std::mem::take(&mut self.close),
            flush: std::mem::take(&mut self.flush),
            is_over: self.is_over,
        }
    }
}
