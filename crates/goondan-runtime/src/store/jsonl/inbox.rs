//! The inbox of a workspace: one file, one writer thread, one fsync for all records that wait (rule C4).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::appender::Appender;
use super::disk::Disk;
use super::lines;
use crate::ports::store::{InboxRecord, OnDurable, Recovered, StoreError};
use crate::store::ledger::{Ledger, reduce};

/// At the most that many records go to disk with one fsync.
const MAX_BATCH: usize = 1_024;

/// A smaller file is left as it is, whatever is in it.
const WORTH_COMPACTING: u64 = 16 * 1024 * 1024;

/// A new inbox may lie in new folders: `<state root>/workspaces/<workspace>/`, and the state root's own name.
const DEPTH: usize = 4;

type Job = (InboxRecord, OnDurable);

/// Takes records; a thread of its own puts them on disk.
pub(super) struct Inbox {
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl Inbox {
    /// Reads what was left, and starts the writer.
    pub(super) fn open(disk: Arc<Disk>, path: &Path) -> Result<(Self, Recovered), StoreError> {
        let read = lines::read::<InboxRecord>(&**disk, path).map_err(|cause| StoreError::new("read", path, &cause))?;
        let (records, warnings) = read.into_values();
        let records: Vec<&InboxRecord> = records.iter().collect();
        let recovered = Ledger::of(records.iter().copied()).recover(&records, warnings);
        let mut lines = Appender::new(Arc::clone(&disk), path.to_owned(), DEPTH);
        if !records.is_empty() {
            // An earlier process may have been killed before it did this. What turns build on must not vanish under them.
            lines.sync()?;
        }
        let (jobs, queue) = channel();
        let writer = Writer { disk, lines, check_at: 0 };
        let spawned = std::thread::Builder::new().name("gdn-inbox".to_owned()).spawn(move || writer.run(&queue));
        let writer = spawned.map_err(|cause| StoreError::new("start the writer of", path, &cause))?;
        Ok((Inbox { jobs: Some(jobs), writer: Some(writer) }, recovered))
    }

    /// Appends in the order of the calls.
    pub(super) fn submit(&self, record: InboxRecord, on_durable: OnDurable) {
        let jobs = self.jobs.as_ref().expect("the writer lives until the inbox is dropped");
        if let Err(refused) = jobs.send((record, on_durable)) {
            (refused.0.1)(Err(StoreError { message: "the writer of the inbox has ended".to_owned() }));
        }
    }
}

impl Drop for Inbox {
    /// Waits until everything that was submitted is on disk.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // The last reference may be dropped by a callback, on the writer's own thread.
            if writer.thread().id() != std::thread::current().id() {
                let _ = writer.join();
            }
        }
    }
}

/// What the writer thread owns.
struct Writer {
    disk: Arc<Disk>,
    lines: Appender,
    /// Once the file is that long, it is looked at whether most of it may go.
    check_at: u64,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let batch: Vec<Job> = std::iter::once(first).chain(queue.try_iter().take(MAX_BATCH - 1)).collect();
            let appended = self.lines.append_all(batch.iter().map(|(record, _)| record));
            let written = appended.and_then(|()| self.lines.sync());
            for (_, on_durable) in batch {
                on_durable(written.clone());
            }
            if self.lines.len() >= self.check_at.max(WORTH_COMPACTING) {
                self.compact_if_worthwhile();
            }
        }
    }

    /// Rewrites the file where less than half of it still matters. A failure changes nothing: it is tried again later.
    fn compact_if_worthwhile(&mut self) {
        let before = self.lines.len();
        let path = self.lines.path().to_owned();
        match self.compact(&path) {
            Ok(kept) => self.check_at = kept * 3,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the inbox was not compacted");
                self.check_at = before + WORTH_COMPACTING;
            }
        }
    }

    /// Gives back how many bytes matter.
    fn compact(&mut self, path: &Path) -> std::io::Result<u64> {
        let (records, _) = lines::read::<InboxRecord>(&**self.disk, path)?.into_values();
        let records: Vec<&InboxRecord> = records.iter().collect();
        let bytes = encode(&reduce(&records))?;
        let kept = bytes.len() as u64;
        if kept * 2 < self.lines.len() {
            // The name of the new file is on disk before the next record is acknowledged: the next sync sees to that.
            self.lines.replace(&bytes)?;
        }
        Ok(kept)
    }
}

fn encode(records: &[Cow<'_, InboxRecord>]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for record in records {
        serde_json::to_writer(&mut bytes, record)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
