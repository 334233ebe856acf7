//! Writes what nobody waits for, on a thread of its own: runtime events, and what is known of instances.
//!
//! Waking a thread costs more than writing a line, and what is known of an instance changes with each turn. So both wait a
//! little for what comes next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::runtime_events::RuntimeEventFiles;
use super::{folders, layout};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, StoreError};

/// That many events wait for a slow disk; what comes on top is dropped and counted.
const MAX_WAITING: usize = 65_536;

/// How long the first event waits for others.
const EVENTS_WAIT: Duration = Duration::from_millis(20);

/// How long the metadata of an instance waits for the end of its next turn.
const METAS_WAIT: Duration = Duration::from_millis(250);

/// What is written in the background.
pub(super) struct Background {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    disk: Arc<Disk>,
    workspace: PathBuf,
    waiting: Mutex<Waiting>,
    /// Tells the writer that something new waits.
    wake: Condvar,
    /// Held while metadata is written, so that the older one never comes last.
    metas: Mutex<()>,
}

/// What waits for the writer.
#[derive(Default)]
struct Waiting {
    events: Vec<Arc<RuntimeEvent>>,
    events_due: Option<Instant>,
    /// How many events found no room.
    dropped: u64,
    metas: HashMap<InstanceId, InstanceMeta>,
    metas_due: Option<Instant>,
    /// When the writer looks at this again by itself.
    wakes_at: Option<Instant>,
    /// Files of instances to let go of, and whom to tell.
    close: Vec<(InstanceId, SyncSender<()>)>,
    /// Who waits for the events to be written.
    flush: Vec<SyncSender<()>>,
    is_over: bool,
}

impl Background {
    /// Writes for the workspace in that folder.
    pub(super) fn start(disk: Arc<Disk>, workspace: PathBuf) -> std::io::Result<Self> {
        let files = RuntimeEventFiles::new(Arc::clone(&disk), workspace.clone());
        let (waiting, metas) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared {
            disk,
            workspace,
            waiting,
            wake: Condvar::new(),
            metas,
        });
        let of_writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gdn-background".to_owned());
        let writer = thread.spawn(move || of_writer.run(files))?;
        Ok(Background {
            shared,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Appends `event`, soon. Never waits: an event that finds no room is dropped.
    pub(super) fn log(&self, event: Arc<RuntimeEvent>) {
        let mut waiting = self.shared.waiting();
        if waiting.events.len() >= MAX_WAITING {
            waiting.dropped += 1;
            return;
        }
        waiting.events.push(event);
        if waiting.events_due.is_none() {
            let due = Instant::now() + EVENTS_WAIT;
            waiting.events_due = Some(due);
            self.shared.wake_before(waiting, due);
        }
    }

    /// Writes `meta`, soon.
    pub(super) fn put_meta_soon(&self, meta: InstanceMeta) {
        let mut waiting = self.shared.waiting();
        waiting.metas.insert(meta.id(), meta);
        if waiting.metas_due.is_none() {
            let due = Instant::now() + METAS_WAIT;
            waiting.metas_due = Some(due);
            self.shared.wake_before(waiting, due);
        }
    }

    /// Writes `meta` now.
    pub(super) fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        let _metas = self.shared.metas();
        self.shared.waiting().metas.remove(&meta.id());
        self.shared.write_meta(meta)
    }

    /// What is known of an instance, written or not; `None` where there is none.
    pub(super) fn meta(&self, id: &InstanceId) -> Option<InstanceMeta> {
        // Held, so that it is in one of the two places.
        let _metas = self.shared.metas();
        let waiting = self.shared.waiting().metas.get(id).cloned();
        waiting.or_else(|| {
            folders::find(
                &self.shared.disk,
                &layout::instance_dir(&self.shared.workspace, id),
            )
        })
    }

    /// Writes the events that wait, and comes back when that is done.
    pub(super) fn flush_events(&self) {
        let (done, wait) = sync_channel(1);
        self.shared.waiting().flush.push(done);
        self.shared.wake.notify_one();
        // The writer only ends with the store; then all is written.
        let _ = wait.recv();
    }

    /// Writes what waits, and lets go of the files of an instance that is about to be deleted.
    pub(super) fn close(&self, id: &InstanceId) {
        let (done, wait) = sync_channel(1);
        let mut waiting = self.shared.waiting();
        waiting.metas.remove(id);
        waiting.close.push((id.clone(), done));
        drop(waiting);
        self.shared.wake.notify_one();
        // The writer only ends with the store; then nothing is open.
        let _ = wait.recv();
    }
}

impl Drop for Background {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.shared.waiting().is_over = true;
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

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metas(&self) -> MutexGuard<'_, ()> {
        self.metas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut files: RuntimeEventFiles) {
        loop {
            let due = self.wait();
            files.append(&due.events);
            if due.dropped > 0 {
                tracing::warn!(
                    dropped = due.dropped,
                    "runtime events were not written: the disk is too slow"
                );
            }
            if due.metas {
                self.write_metas();
            }
            for (id, done) in due.close {
                files.close(&id);
                // Nobody waits any more where the store is being dropped.
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

    /// Sees to it that the writer looks at what waits at `due`. To wake a thread costs more than all the rest of a log call, so
    /// it is left alone where it wakes in time by itself.
    fn wake_before(&self, waiting: MutexGuard<'_, Waiting>, due: Instant) {
        let is_late = waiting.wakes_at.is_none_or(|at| at > due);
        drop(waiting);
        if is_late {
            self.wake.notify_one();
        }
    }

    /// Waits until something is due, and takes it. Metadata stays where it can still be replaced. Behind work, it looks once
    /// more after a while before it sleeps for good: where there was something, there is soon something again.
    fn wait(&self) -> Due {
        let mut waiting = self.waiting();
        let mut doze = Some(Instant::now() + EVENTS_WAIT);
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

    fn write_metas(&self) {
        let _metas = self.metas();
        let metas = std::mem::take(&mut self.waiting().metas);
        for (id, meta) in metas {
            if let Err(error) = self.write_meta(&meta) {
                tracing::warn!(instance = %id, %error, "what is known of an instance was not written");
            }
        }
    }

    fn write_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        folders::put_meta(
            &self.disk,
            &layout::instance_dir(&self.workspace, &meta.id()),
            meta,
        )
    }
}

/// What is written now.
struct Due {
    events: Vec<Arc<RuntimeEvent>>,
    dropped: u64,
    metas: bool,
    close: Vec<(InstanceId, SyncSender<()>)>,
    flush: Vec<SyncSender<()>>,
    is_over: bool,
}

impl Waiting {
    fn is_urgent(&self) -> bool {
        self.is_over || !self.close.is_empty() || !self.flush.is_empty()
    }

    fn next_due(&self) -> Option<Instant> {
        [self.events_due, self.metas_due]
            .into_iter()
            .flatten()
            .min()
    }

    fn take(&mut self, now: Instant) -> Due {
        let metas = self.is_over || self.metas_due.is_some_and(|due| due <= now);
        if metas {
            self.metas_due = None;
        }
        self.events_due = None;
        Due {
            events: std::mem::take(&mut self.events),
            dropped: std::mem::take(&mut self.dropped),
            metas,
            close: std::mem::take(&mut self.close),
            flush: std::mem::take(&mut self.flush),
            is_over: self.is_over,
        }
    }
}
