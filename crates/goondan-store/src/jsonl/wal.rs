//! The inbox of a workspace: one file, and one sync for all waiting records (rule C4).
//!
//! A caller that must not block hands its record to the inbox's thread. A caller that may block
//! writes the record itself if the inbox is idle: a quick disk is faster than a thread switch.
//! Records that arrive during a sync are written together by the thread with the next sync.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::appender::FileAppender;
use super::compaction::{self, CompactableFile, TakenUp};
use super::lines;
use super::log_checkpoint::LogState;
use super::synced_disk::SyncedDisk;
use crate::fs::FileSystem;
use crate::record::InboxRecord;
use crate::wal_index::{TurnCheckpoint, WalIndex, WalState};
use goondan_core::ports::store::{
    DurabilityResolver, DurabilityTicket, RecoveredState, StoreError,
};

/// Maximum number of records per sync.
const MAX_BATCH_RECORDS: usize = 1_024;

/// Minimum file size in bytes for compaction.
const MIN_COMPACTION_BYTES: u64 = 4 * 1024 * 1024;

/// Size in bytes of the write buffer during compaction.
const COMPACTION_BUFFER_BYTES: usize = 64 * 1024;

/// A new inbox may be in new directories: `<state root>/workspaces/<workspace>/`, and the state
/// root itself.
const WAL_PARENT_DEPTH: usize = 4;

pub(super) struct InboxWal {
    shared: Arc<WalShared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct OpenedWal {
    pub(super) inbox: InboxWal,
    pub(super) recovered: RecoveredState,
    /// Folds whose bases may not be durable, in creation order.
    pub(super) unsettled: Vec<TurnCheckpoint>,
    /// True if the file contains at least one readable record.
    pub(super) has_records: bool,
    /// True if the last process closed the inbox during the same boot, so that all writes are
    /// readable.
    pub(super) is_closed: bool,
    /// True if the state came from a checkpoint.
    pub(super) is_restored: bool,
}

struct WalShared {
    disk: Arc<SyncedDisk>,
    queue: Mutex<WalQueue>,
    wake: Condvar,
    /// Locked by the current writer.
    file: Mutex<WalFile>,
}

#[derive(Default)]
struct WalQueue {
    jobs: Vec<WalAppend>,
    current_writer: WalWriter,
    /// Set if several records waited for the last sync. The next callers then leave the work to the
    /// thread and continue.
    is_crowded: bool,
    is_over: bool,
}

/// The current writer of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WalWriter {
    #[default]
    None,
    /// A caller that writes its own record.
    Submitter,
    Thread,
}

struct WalAppend {
    line: Vec<u8>,
    /// `None` if no caller waits for the record.
    receipt: Option<DurabilityResolver>,
}

struct WalFile {
    /// True if this process has replaced the file by a compaction.
    is_rewritten: bool,
    lines: FileAppender,
    worth_compacting: u64,
    /// The state of the last compaction, kept to reuse its memory. Repeatedly freeing and
    /// allocating several hundred KB makes the system allocator retain more memory.
    ledger: WalIndex,
    /// File size in bytes at which the next compaction is considered.
    check_at: u64,
}

impl InboxWal {
    /// Reads the existing file and starts the writer thread.
    pub(super) fn open(
        disk: Arc<SyncedDisk>,
        path: &Path,
        state: Option<&LogState>,
    ) -> Result<OpenedWal, StoreError> {
        InboxWal::open_with(disk, path, state, MIN_COMPACTION_BYTES)
    }

    /// Opens the log and returns its pending state. Reads only the needed records if the `state` of
    /// the log is known. `worth_compacting`: size in bytes from which the log is compacted.
    fn open_with(
        disk: Arc<SyncedDisk>,
        path: &Path,
        state: Option<&LogState>,
        worth_compacting: u64,
    ) -> Result<OpenedWal, StoreError> {
        let failed = |cause: io::Error| StoreError::file("read", path, cause);
        let restored = state.and_then(|state| restore(&**disk, path, state));
        let is_restored = restored.is_some();
        let TakenUp {
            held,
            count,
            closed_in,
        } = match restored {
            Some(restored) => restored,
            None => compaction::take_up(&**disk, path).map_err(failed)?,
        };
        let WalState {
            recovered,
            unsettled,
            ..
        } = held;
        let is_closed = is_restored || (closed_in.is_some() && closed_in == disk.boot_id());
        let mut lines = FileAppender::new(Arc::clone(&disk), path.to_owned(), WAL_PARENT_DEPTH);
        if count > 0 && !is_closed {
            // An earlier process may have been killed before this sync. Turns build on these
            // records, so they must not disappear.
            lines.sync()?;
        }
        let check_at = worth_compacting;
        let ledger = WalIndex::default();
        let file = Mutex::new(WalFile {
            is_rewritten: false,
            lines,
            worth_compacting,
            ledger,
            check_at,
        });
        let shared = Arc::new(WalShared {
            disk,
            queue: Mutex::default(),
            wake: Condvar::new(),
            file,
        });
        let of_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new()
            .name("gdn-inbox".to_owned())
            .spawn(move || of_thread.run());
        let writer =
            spawned.map_err(|cause| StoreError::file("start the writer of", path, cause))?;
        let inbox = InboxWal {
            shared,
            writer: Mutex::new(Some(writer)),
        };
        Ok(OpenedWal {
            inbox,
            recovered,
            unsettled,
            has_records: count > 0,
            is_closed,
            is_restored,
        })
    }

    /// Queues a record in call order. Never waits for the disk.
    pub(super) fn submit(&self, record: &InboxRecord) -> DurabilityTicket {
        let (queue, ticket) = match self.prepare_append(record) {
            Ok(admitted) => admitted,
            Err(error) => return DurabilityTicket::settled(Err(error)),
        };
        self.shared.wake_thread(queue);
        ticket
    }

    /// Queues a record like [`InboxWal::submit`], but may write it on the calling thread.
    pub(super) fn commit(&self, record: &InboxRecord) -> DurabilityTicket {
        let (queue, ticket) = match self.prepare_append(record) {
            Ok(admitted) => admitted,
            Err(error) => return DurabilityTicket::settled(Err(error)),
        };
        self.shared.work_or_wake(queue);
        ticket
    }

    /// Queues a record that no caller waits for. It is written together with the next awaited
    /// record.
    pub(super) fn submit_later(&self, record: &InboxRecord) {
        if let Ok(line) = line_of(record) {
            self.shared.queue().jobs.push(WalAppend {
                line,
                receipt: None,
            });
        }
    }

    /// Writes a final record without a sync. The record may be lost.
    pub(super) fn append_unsynced(&self, record: &InboxRecord) {
        let queue = self.shared.queue();
        let is_idle = queue.current_writer == WalWriter::None && queue.jobs.is_empty();
        drop(queue);
        match line_of(record) {
            // If this write fails, the next process reads the files instead.
            Ok(line) if is_idle => {
                drop(self.shared.file().lines.append_lines([&*line].into_iter()))
            }
            Ok(_) => self.submit_later(record),
            Err(_) => {}
        }
    }

    /// Encodes a record before it locks the queue.
    fn prepare_append(
        &self,
        record: &InboxRecord,
    ) -> Result<(MutexGuard<'_, WalQueue>, DurabilityTicket), StoreError> {
        let path = || self.shared.file().lines.path().to_owned();
        let line = line_of(record)
            .map_err(|cause| StoreError::file("encode a record of", &path(), cause))?;
        let (receipt, ticket) = DurabilityTicket::new();
        let mut queue = self.shared.queue();
        queue.jobs.push(WalAppend {
            line,
            receipt: Some(receipt),
        });
        Ok((queue, ticket))
    }
}

impl Drop for InboxWal {
    fn drop(&mut self) {
        self.close();
    }
}

/// Restores the state of the log from a checkpoint. Reports a record that can't be read.
fn restore(fs: &dyn FileSystem, path: &Path, state: &LogState) -> Option<TakenUp> {
    let restored = state.restore(fs, path);
    let restored = restored.inspect_err(|problem| {
        tracing::warn!(path = %path.display(), "a record of the checkpoint can't be read: \
            {problem}. The whole log is read");
    });
    restored.ok()
}

impl InboxWal {
    /// Returns true if a compaction replaced the file.
    pub(super) fn is_rewritten(&self) -> bool {
        self.shared.file().is_rewritten
    }

    /// Waits until all submitted records are durable. No record may be submitted afterwards.
    pub(super) fn close(&self) {
        self.shared.queue().is_over = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            // A callback may drop the last reference on the writer's own thread, which cannot join
            // itself.
            if writer.thread().id() != std::thread::current().id() {
                let _ = writer.join();
            }
        }
    }
}

impl WalShared {
    fn queue(&self) -> MutexGuard<'_, WalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread, unless a writer is active: it checks the queue again after its batch.
    /// Unlocks the queue first, because otherwise the thread would wait for the lock.
    fn wake_thread(&self, mut queue: MutexGuard<'_, WalQueue>) {
        if queue.current_writer == WalWriter::None {
            queue.current_writer = WalWriter::Thread;
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Writes the records on this thread if the inbox is idle and the disk is quick; otherwise
    /// wakes the thread.
    fn work_or_wake(&self, mut queue: MutexGuard<'_, WalQueue>) {
        if queue.current_writer != WalWriter::None || queue.is_crowded || !self.disk.is_quick() {
            return self.wake_thread(queue);
        }
        queue.current_writer = WalWriter::Submitter;
        let batch = queue.take_batch();
        drop(queue);
        let is_large = self.write(batch);
        let mut queue = self.queue();
        queue.current_writer = WalWriter::None;
        queue.is_crowded = queue.is_awaited();
        if is_large || queue.is_awaited() || queue.is_over {
            self.wake_thread(queue);
        }
    }

    fn file(&self) -> MutexGuard<'_, WalFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes queued records until the log is closed, and compacts the file when that is
    /// worthwhile.
    fn run(&self) {
        loop {
            let is_idle = |queue: &mut WalQueue| match queue.current_writer {
                WalWriter::Thread => false,
                WalWriter::None => !queue.is_over,
                WalWriter::Submitter => true,
            };
            let waited = self.wake.wait_while(self.queue(), is_idle);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
            if queue.is_over && queue.jobs.is_empty() {
                return;
            }
            queue.current_writer = WalWriter::Thread;
            let batch = queue.take_batch();
            queue.is_crowded = batch.iter().filter(|job| job.receipt.is_some()).count() > 1;
            drop(queue);
            if self.write(batch) {
                self.file().compact_if_worthwhile(&self.disk);
            }
            let mut queue = self.queue();
            if !queue.is_awaited() {
                queue.current_writer = WalWriter::None;
            }
        }
    }

    /// Writes and syncs records and notifies the callers in order. Returns true if the file is
    /// large enough to consider compaction.
    fn write(&self, batch: Vec<WalAppend>) -> bool {
        let mut file = self.file();
        let written = file
            .lines
            .append_lines(batch.iter().map(|job| &*job.line))
            .and_then(|()| file.lines.sync());
        let is_large = file.lines.len() >= file.check_at;
        drop(file);
        for receipt in batch.into_iter().filter_map(|job| job.receipt) {
            receipt.settle(written.clone());
        }
        is_large
    }
}

impl WalQueue {
    /// Takes up to [`MAX_BATCH_RECORDS`] queued records.
    fn take_batch(&mut self) -> Vec<WalAppend> {
        let rest = self.jobs.split_off(self.jobs.len().min(MAX_BATCH_RECORDS));
        std::mem::replace(&mut self.jobs, rest)
    }

    /// Returns true if a caller waits for any record.
    fn is_awaited(&self) -> bool {
        self.jobs.iter().any(|job| job.receipt.is_some())
    }
}

impl WalFile {
    /// Rewrites the file if less than half of it is still needed. A failure changes nothing and is
    /// retried later.
    fn compact_if_worthwhile(&mut self, disk: &SyncedDisk) {
        let before = self.lines.len();
        let path = self.lines.path().to_owned();
        match self.compact(disk, &path) {
            Ok(kept) => self.check_at = self.worth_compacting.max(kept * 3),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "could not compact the inbox; \
                    retrying later");
                self.check_at = before + self.worth_compacting;
            }
        }
    }

    /// Returns the number of bytes kept.
    fn compact(&mut self, disk: &SyncedDisk, path: &Path) -> io::Result<u64> {
        let reducible = CompactableFile::open(&**disk, path, &mut self.ledger)?;
        let mut kept = 0;
        reducible.lines(|line| {
            kept += line.len() as u64;
            Ok(())
        })?;
        if kept * 2 < self.lines.len() {
            // The next sync makes the new file's name durable before it acknowledges a record.
            self.is_rewritten = true;
            self.lines.replace_with(|file| {
                let mut file = BufWriter::with_capacity(COMPACTION_BUFFER_BYTES, file);
                reducible.lines(|line| file.write_all(line))?;
                file.flush()
            })?;
        }
        Ok(kept)
    }
}

/// Encodes a record as one line of JSON.
fn line_of(record: &InboxRecord) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    lines::encode(&mut line, [record])?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::fs::sim::SimFs;
    use crate::suite::samples::{accepted, done, event, instance};
    use goondan_core::agent_event::AgentEvent;
    use goondan_core::ports::store::LogRecord;

    const PATH: &str = "/w/inbox.jsonl";
    const COMPACTION_BYTES: u64 = 8_000;

    fn open(fs: &SimFs) -> (InboxWal, RecoveredState) {
        let found = InboxWal::open_with(
            SyncedDisk::new(Arc::new(fs.clone())),
            Path::new(PATH),
            None,
            COMPACTION_BYTES,
        )
        .unwrap();
        (found.inbox, found.recovered)
    }

    fn submit(inbox: &InboxWal, record: LogRecord) -> Result<(), StoreError> {
        inbox.commit(&record.into()).wait_here()
    }

    /// The events that the inbox has acknowledged.
    #[derive(Default)]
    struct Acknowledged {
        accepted: HashSet<String>,
        done: HashSet<String>,
    }

    /// Accepts events and finishes six of seven, until the process is killed.
    fn work(inbox: &InboxWal, round: usize) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let events: Vec<AgentEvent> = (0..60)
            .map(|n| event(&format!("{round}-{n}"), &instance("k")))
            .collect();
        for (n, event) in events.iter().enumerate() {
            if submit(inbox, accepted(event)).is_err() {
                break;
            }
            acknowledged.accepted.insert(event.id.clone());
            if n % 7 > 0 && submit(inbox, done(event)).is_ok() {
                acknowledged.done.insert(event.id.clone());
            }
        }
        acknowledged
    }

    fn check(acknowledged: &Acknowledged, recovered: &RecoveredState) {
        let pending: HashSet<String> = recovered
            .pending
            .iter()
            .map(|event| event.id.clone())
            .collect();
        let handled: HashSet<&str> = recovered
            .handled
            .iter()
            .map(|handled| handled.event_id.as_str())
            .collect();
        let lost = |id: &&String| !pending.contains(*id) && !handled.contains(id.as_str());
        assert_eq!(
            acknowledged.accepted.iter().find(lost),
            None,
            "an accepted event is lost"
        );
        assert_eq!(
            acknowledged.done.intersection(&pending).next(),
            None,
            "a handled event is pending again"
        );
    }

    #[test]
    fn a_file_of_mostly_obsolete_records_is_compacted_during_writes() {
        let fs = SimFs::new();
        let (inbox, _) = open(&fs);
        // Results of handled events are kept, so this test repeats one event: then most records are
        // obsolete.
        let one = event("one", &instance("k"));
        for _ in 0..500 {
            submit(&inbox, accepted(&one)).unwrap();
            submit(&inbox, done(&one)).unwrap();
        }
        drop(inbox);
        assert!(fs.contents(Path::new(PATH)).unwrap().len() < 10_000);
        assert_eq!(open(&fs.kill()).1.handled.len(), 1);
    }

    #[test]
    fn a_crash_during_compaction_loses_no_record() {
        for end in [None, Some(None), Some(Some(7)), Some(Some(8))] {
            for change in (0..700).step_by(19) {
                let fs = SimFs::new();
                let (inbox, _) = open(&fs);
                let first = work(&inbox, 0);
                fs.kill_after(change);
                let second = work(&inbox, 1);
                drop(inbox);
                let fs = match end {
                    None => fs.kill(),
                    Some(seed) => fs.lose_power(seed),
                };
                let (inbox, recovered) = open(&fs);
                check(&first, &recovered);
                check(&second, &recovered);
                check(&work(&inbox, 2), &{
                    drop(inbox);
                    open(&fs.kill()).1
                });
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_the_inbox_intact() {
        let fs = SimFs::new();
        let (inbox, _) = open(&fs);
        let acknowledged = work(&inbox, 0);
        fs.limit_free_space(Some(300));
        let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
        submit(&inbox, accepted(&one)).unwrap();
        submit(&inbox, accepted(&two)).unwrap_err();
        fs.limit_free_space(None);
        submit(&inbox, accepted(&two)).unwrap();
        drop(inbox);
        let recovered = open(&fs.kill()).1;
        check(&acknowledged, &recovered);
        let last: Vec<_> = recovered
            .pending
            .iter()
            .rev()
            .take(2)
            .map(|event| &*event.id)
            .collect();
        assert_eq!(last, ["two", "one"]);
    }
}
