//! The inbox of a workspace: one file, and one sync for all records that wait (rule C4).
//!
//! Whoever must not wait for the disk hands its record to a thread of the inbox's own. Whoever may, and finds nobody at it,
//! puts it on disk where it stands: to be woken again takes longer than a quick disk. What comes meanwhile goes with the next
//! sync, all of it at once, on that thread. And a record may be written first, and synced when others have learned of it.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::appender::Appender;
use super::disk::Disk;
use super::lines;
use super::records::{self, Reducible};
use crate::ledger::{Carried, Held, Ledger};
use goondan_core::ports::store::{InboxRecord, OnDurable, Recovered, StoreError};

/// At the most that many records go to disk with one sync.
const MAX_BATCH: usize = 1_024;

/// A smaller file is left as it is, whatever is in it.
const WORTH_COMPACTING: u64 = 4 * 1024 * 1024;

/// A new file is written in pieces of that many bytes.
const BUFFER: usize = 64 * 1024;

/// A new inbox may lie in new folders: `<state root>/workspaces/<workspace>/`, and the state root's own name.
const DEPTH: usize = 4;

/// Takes records.
pub(super) struct Inbox {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What was left in an inbox.
pub(super) struct Found {
    pub(super) inbox: Inbox,
    pub(super) recovered: Recovered,
    /// Folds whose bases may not be on disk, in the order in which they were made.
    pub(super) unsettled: Vec<Carried>,
}

/// What all who append share.
struct Shared {
    disk: Arc<Disk>,
    queue: Mutex<Queue>,
    /// Tells the thread that there is something for it to do.
    wake: Condvar,
    /// Held by whoever writes.
    file: Mutex<File>,
}

/// Records that wait.
#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// There are records that are written, and that nobody syncs at the moment.
    has_unsynced: bool,
    at_work: Worker,
    /// Several waited for the last sync: those who come next are better off doing something else meanwhile.
    is_crowded: bool,
    is_over: bool,
}

/// Who puts records on disk at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Worker {
    #[default]
    Nobody,
    /// One who has a record there.
    Submitter,
    Thread,
}

struct Job {
    line: Vec<u8>,
    /// `None` where nobody waits for it.
    on_durable: Option<OnDurable>,
}

struct File {
    lines: Appender,
    /// Those who wait for records that are written and not synced.
    unsynced: Vec<OnDurable>,
    worth_compacting: u64,
    /// What the last compaction came to, for its room: some hundred KB that are asked for and given back now and then have the
    /// system's allocator keep more of everything.
    ledger: Ledger,
    /// Once the file is that long, it is looked at whether most of it may go.
    check_at: u64,
}

impl Inbox {
    /// Reads what was left, and starts the writer.
    pub(super) fn open(disk: Arc<Disk>, path: &Path) -> Result<Found, StoreError> {
        Inbox::open_with(disk, path, WORTH_COMPACTING)
    }

    fn open_with(disk: Arc<Disk>, path: &Path, worth_compacting: u64) -> Result<Found, StoreError> {
        let failed = |cause: io::Error| StoreError::new("read", path, &cause);
        let (Held { recovered, unsettled, .. }, records) = records::take_up(&**disk, path).map_err(failed)?;
        let mut lines = Appender::new(Arc::clone(&disk), path.to_owned(), DEPTH);
        if records > 0 {
            // An earlier process may have been killed before it did this. What turns build on must not vanish under them.
            lines.sync()?;
        }
        let check_at = worth_compacting;
        let ledger = Ledger::default();
        let file = Mutex::new(File { lines, unsynced: Vec::new(), worth_compacting, ledger, check_at });
        let shared = Arc::new(Shared { disk, queue: Mutex::default(), wake: Condvar::new(), file });
        let of_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name("gdn-inbox".to_owned()).spawn(move || of_thread.run());
        let writer = spawned.map_err(|cause| StoreError::new("start the writer of", path, &cause))?;
        Ok(Found { inbox: Inbox { shared, writer: Mutex::new(Some(writer)) }, recovered, unsettled })
    }

    /// Appends in the order of the calls, and never waits for the disk.
    pub(super) fn submit(&self, record: &InboxRecord, on_durable: OnDurable) {
        if let Some((mut queue, job)) = self.admit(record, on_durable) {
            queue.jobs.push(job);
            self.shared.wake_thread(&mut queue);
        }
    }

    /// As [`Inbox::submit`], and may put it on disk right here.
    pub(super) fn commit(&self, record: &InboxRecord, on_durable: OnDurable) {
        let Some((mut queue, job)) = self.admit(record, on_durable) else { return };
        queue.jobs.push(job);
        self.shared.work_or_wake(queue);
    }

    /// As [`Inbox::submit`], but where nobody is at it, it is written right here, and goes to disk with the next
    /// [`Inbox::flush`]. Whether it is written.
    pub(super) fn write(&self, record: &InboxRecord, on_durable: OnDurable) -> bool {
        let Some((mut queue, job)) = self.admit(record, on_durable) else { return false };
        queue.jobs.push(job);
        self.shared.write_or_wake(queue)
    }

    /// Appends a record that nobody waits for: it goes to disk with the next one that somebody waits for.
    pub(super) fn submit_later(&self, record: &InboxRecord) {
        if let Ok(line) = line_of(record) {
            self.shared.queue().jobs.push(Job { line, on_durable: None });
        }
    }

    /// Puts everything on disk that was submitted so far; may do so right here.
    pub(super) fn flush(&self, on_durable: OnDurable) {
        let mut queue = self.shared.queue();
        if queue.jobs.is_empty() && !queue.has_unsynced && queue.at_work == Worker::Nobody {
            drop(queue);
            return on_durable(Ok(()));
        }
        queue.jobs.push(Job { line: Vec::new(), on_durable: Some(on_durable) });
        self.shared.work_or_wake(queue);
    }

    /// Encodes a record before the queue is held.
    fn admit(&self, record: &InboxRecord, on_durable: OnDurable) -> Option<(MutexGuard<'_, Queue>, Job)> {
        match line_of(record) {
            Ok(line) => Some((self.shared.queue(), Job { line, on_durable: Some(on_durable) })),
            Err(error) => {
                on_durable(Err(StoreError { message: format!("failed to encode a record of the inbox: {error}") }));
                None
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inbox {
    /// Waits until everything that was submitted is on disk. Nothing may be submitted afterwards.
    pub(super) fn close(&self) {
        self.shared.queue().is_over = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The last reference may be dropped by a callback, on the writer's own thread.
            if writer.thread().id() != std::thread::current().id() {
                let _ = writer.join();
            }
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_thread(&self, queue: &mut Queue) {
        if queue.at_work == Worker::Nobody {
            queue.at_work = Worker::Thread;
            self.wake.notify_one();
        }
    }

    /// Does the work here where that is quick and nobody is at it; else it is left to the thread.
    fn work_or_wake(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.at_work != Worker::Nobody || queue.is_crowded || !self.disk.is_quick() {
            return self.wake_thread(&mut queue);
        }
        queue.at_work = Worker::Submitter;
        let batch = queue.take_batch();
        drop(queue);
        let is_large = self.write(batch);
        let mut queue = self.queue();
        queue.at_work = Worker::Nobody;
        queue.is_crowded = queue.is_awaited();
        if is_large || queue.is_awaited() || queue.is_over {
            self.wake_thread(&mut queue);
        }
    }

    /// Writes what waits where nobody is at it; else it is left to the thread. Whether all is written.
    fn write_or_wake(&self, mut queue: MutexGuard<'_, Queue>) -> bool {
        if queue.at_work != Worker::Nobody || queue.jobs.len() > MAX_BATCH {
            self.wake_thread(&mut queue);
            return false;
        }
        queue.at_work = Worker::Submitter;
        let batch = queue.take_batch();
        drop(queue);
        let refused = self.file().append(batch);
        let is_written = refused.result.is_ok();
        refused.tell();
        let mut queue = self.queue();
        queue.at_work = Worker::Nobody;
        queue.has_unsynced = true;
        if queue.is_awaited() || queue.is_over {
            self.wake_thread(&mut queue);
        }
        is_written
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn run(&self) {
        loop {
            let is_idle = |queue: &mut Queue| match queue.at_work {
                Worker::Thread => false,
                Worker::Nobody => !queue.is_over,
                Worker::Submitter => true,
            };
            let waited = self.wake.wait_while(self.queue(), is_idle);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
            if queue.is_over && queue.jobs.is_empty() && !queue.has_unsynced {
                return;
            }
            queue.at_work = Worker::Thread;
            let batch = queue.take_batch();
            queue.is_crowded = batch.iter().filter(|job| job.on_durable.is_some()).count() > 1;
            drop(queue);
            if self.write(batch) {
                self.file().compact_if_worthwhile(&self.disk);
            }
            let mut queue = self.queue();
            if !queue.is_awaited() {
                queue.at_work = Worker::Nobody;
            }
        }
    }

    /// Puts records on disk and tells those who wait, in their order. Whether it is time to look at the size of the file.
    fn write(&self, batch: Vec<Job>) -> bool {
        let mut file = self.file();
        let (refused, synced) = (file.append(batch), file.sync());
        let is_large = file.lines.len() >= file.check_at;
        drop(file);
        synced.tell();
        refused.tell();
        is_large
    }
}

/// What came of records, and who has to be told.
struct News {
    waiting: Vec<OnDurable>,
    result: Result<(), StoreError>,
}

impl News {
    fn tell(self) {
        for on_durable in self.waiting {
            on_durable(self.result.clone());
        }
    }
}

impl Queue {
    /// Of what is synced next, the part that has to be written.
    fn take_batch(&mut self) -> Vec<Job> {
        self.has_unsynced = false;
        let rest = self.jobs.split_off(self.jobs.len().min(MAX_BATCH));
        std::mem::replace(&mut self.jobs, rest)
    }

    /// Whether somebody waits for a record to be on disk.
    fn is_awaited(&self) -> bool {
        self.jobs.iter().any(|job| job.on_durable.is_some())
    }
}

impl File {
    /// Appends records. Where that fails, it is told who is to know; else they are told with the next sync.
    fn append(&mut self, batch: Vec<Job>) -> News {
        let result = self.lines.append_lines(batch.iter().map(|job| &*job.line));
        let mut waiting: Vec<OnDurable> = batch.into_iter().filter_map(|job| job.on_durable).collect();
        if result.is_ok() {
            self.unsynced.append(&mut waiting);
        }
        News { waiting, result }
    }

    /// Puts all that was appended on disk.
    fn sync(&mut self) -> News {
        let result = self.lines.sync();
        News { waiting: std::mem::take(&mut self.unsynced), result }
    }

    /// Rewrites the file where less than half of it still matters. A failure changes nothing: it is tried again later.
    fn compact_if_worthwhile(&mut self, disk: &Disk) {
        let before = self.lines.len();
        let path = self.lines.path().to_owned();
        match self.compact(disk, &path) {
            Ok(kept) => self.check_at = self.worth_compacting.max(kept * 3),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the inbox was not compacted");
                self.check_at = before + self.worth_compacting;
            }
        }
    }

    /// Gives back how many bytes matter.
    fn compact(&mut self, disk: &Disk, path: &Path) -> io::Result<u64> {
        let reducible = Reducible::open(&**disk, path, &mut self.ledger)?;
        let mut kept = 0;
        reducible.lines(|line| {
            kept += line.len() as u64;
            Ok(())
        })?;
        if kept * 2 < self.lines.len() {
            // The name of the new file is on disk before the next record is acknowledged: the next sync sees to that.
            self.lines.replace_with(|file| {
                let mut file = BufWriter::with_capacity(BUFFER, file);
                reducible.lines(|line| file.write_all(line))?;
                file.flush()
            })?;
        }
        Ok(kept)
    }
}

fn line_of(record: &InboxRecord) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    lines::encode(&mut line, [record])?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::fs::sim::SimFs;
    use crate::suite::samples::{accepted, done, event, instance};
    use goondan_core::inbound::AgentEvent;

    const PATH: &str = "/w/inbox.jsonl";
    const SMALL: u64 = 8_000;

    fn open(fs: &SimFs) -> (Inbox, Recovered) {
        let found = Inbox::open_with(Disk::new(Arc::new(fs.clone())), Path::new(PATH), SMALL).unwrap();
        (found.inbox, found.recovered)
    }

    fn submit(inbox: &Inbox, record: InboxRecord) -> Result<(), StoreError> {
        let (sender, receiver) = channel();
        inbox.commit(&record, Box::new(move |written| sender.send(written).unwrap()));
        receiver.recv().unwrap()
    }

    /// What an inbox has acknowledged.
    #[derive(Default)]
    struct Acknowledged {
        accepted: HashSet<String>,
        done: HashSet<String>,
    }

    /// Accepts events, and is done with all but every seventh, until the process dies.
    fn work(inbox: &Inbox, round: usize) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let events: Vec<AgentEvent> = (0..60).map(|n| event(&format!("{round}-{n}"), &instance("k"))).collect();
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

    fn check(acknowledged: &Acknowledged, recovered: &Recovered) {
        let pending: HashSet<String> = recovered.pending.iter().map(|event| event.id.clone()).collect();
        let handled: HashSet<&str> = recovered.handled.iter().map(|handled| handled.event_id.as_str()).collect();
        let lost = |id: &&String| !pending.contains(*id) && !handled.contains(id.as_str());
        assert_eq!(acknowledged.accepted.iter().find(lost), None, "an accepted event is lost");
        assert_eq!(acknowledged.done.intersection(&pending).next(), None, "an event that is done comes back");
    }

    #[test]
    fn what_is_written_outlives_a_kill_and_is_synced_in_its_order() {
        for round in 0..20 {
            let fs = SimFs::new();
            let (inbox, _) = open(&fs);
            let (sender, receiver) = channel();
            let told = |name: &'static str| {
                let sender = sender.clone();
                // Nobody listens any more once the process was killed.
                Box::new(move |written: Result<(), StoreError>| drop(sender.send((name, written))))
            };
            let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
            assert!(inbox.write(&accepted(&one), told("one")), "nobody else is at it");
            if round % 2 == 0 {
                assert_eq!(open(&fs.kill()).1.pending, [one]);
                continue;
            }
            inbox.commit(&accepted(&two), told("two"));
            assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], [("one", Ok(())), ("two", Ok(()))]);
            assert_eq!(open(&fs.lose_power(None)).1.pending, [one, two]);
        }
    }

    #[test]
    fn a_file_that_is_mostly_dead_is_made_small_while_it_is_written() {
        let fs = SimFs::new();
        let (inbox, _) = open(&fs);
        // Results of handled events stay: so many records with the same events that most are dead.
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
    fn no_death_while_it_is_made_small_loses_a_record() {
        for end in [None, Some(None), Some(Some(7)), Some(Some(8))] {
            for death in (0..700).step_by(19) {
                let fs = SimFs::new();
                let (inbox, _) = open(&fs);
                let first = work(&inbox, 0);
                fs.die_after(death);
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
    fn a_full_disk_keeps_it_as_it_is() {
        let fs = SimFs::new();
        let (inbox, _) = open(&fs);
        let acknowledged = work(&inbox, 0);
        fs.leave_room(Some(300));
        let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
        submit(&inbox, accepted(&one)).unwrap();
        submit(&inbox, accepted(&two)).unwrap_err();
        fs.leave_room(None);
        submit(&inbox, accepted(&two)).unwrap();
        drop(inbox);
        let recovered = open(&fs.kill()).1;
        check(&acknowledged, &recovered);
        let last: Vec<_> = recovered.pending.iter().rev().take(2).map(|event| &*event.id).collect();
        assert_eq!(last, ["two", "one"]);
    }
}
