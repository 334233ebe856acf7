//! The inbox of a workspace: one file, one writer thread, one fsync for all records that wait (rule C4).

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::lines::{Appender, read_lines, replace_file};
use crate::event::TurnResult;
use crate::inbound::AgentEvent;
use crate::ports::store::{InboxRecord, OnDurable, Recovered, StoreError};

/// Results of that many events are kept, for answers that are asked for again and events that come twice.
const KEPT_RESULTS: usize = 10_000;

/// At the most that many records go to disk with one fsync.
const MAX_BATCH: usize = 1_024;

type Job = (InboxRecord, OnDurable);

/// Takes records; a thread of its own puts them on disk.
pub(super) struct Inbox {
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl Inbox {
    /// Reads what was left, rewrites the file without what is settled, and starts the writer.
    pub(super) fn open(path: &Path) -> Result<(Self, Recovered), StoreError> {
        let read = read_lines::<InboxRecord>(path).map_err(|cause| StoreError::new("read", path, &cause))?;
        let recovered = recover(read.0, read.1);
        compact(path, &recovered)?;
        let (jobs, queue) = channel();
        let appender = Appender::new(path.to_owned());
        let spawned = std::thread::Builder::new().name("gdn-inbox".to_owned()).spawn(move || write(&queue, appender));
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

fn write(queue: &Receiver<Job>, mut appender: Appender) {
    while let Ok(first) = queue.recv() {
        let batch: Vec<Job> = std::iter::once(first).chain(queue.try_iter().take(MAX_BATCH - 1)).collect();
        let written = appender.append_all(batch.iter().map(|(record, _)| record)).and_then(|()| appender.sync());
        for (_, on_durable) in batch {
            on_durable(written.clone());
        }
    }
}

fn recover(records: Vec<InboxRecord>, warnings: Vec<String>) -> Recovered {
    let mut accepted: Vec<AgentEvent> = Vec::new();
    let mut settled: HashSet<String> = HashSet::new();
    let mut handled: VecDeque<(String, TurnResult)> = VecDeque::new();
    for record in records {
        match record {
            InboxRecord::Accepted { event } => accepted.push(event),
            InboxRecord::Withdrawn { event_id, .. } => {
                settled.insert(event_id);
            }
            InboxRecord::Done { event_ids, result, answer, .. } => {
                for id in event_ids {
                    handled.push_back((id.clone(), (*result).clone()));
                    settled.insert(id);
                }
                accepted.extend(answer.map(|event| *event));
            }
        }
    }
    let excess = handled.len().saturating_sub(KEPT_RESULTS);
    handled.drain(..excess);
    let mut seen = HashSet::new();
    let pending = accepted.into_iter().filter(|e| !settled.contains(&e.id) && seen.insert(e.id.clone())).collect();
    Recovered { pending, handled: handled.into(), warnings }
}

/// Only what still matters stays: pending events, and the results that are kept.
fn compact(path: &Path, recovered: &Recovered) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let mut by_turn: HashMap<&str, usize> = HashMap::new();
    let mut records: Vec<InboxRecord> = Vec::new();
    for (event_id, result) in &recovered.handled {
        match by_turn.get(result.turn_id.as_str()) {
            Some(at) => match &mut records[*at] {
                InboxRecord::Done { event_ids, .. } => event_ids.push(event_id.clone()),
                _ => unreachable!("only Done records are indexed"),
            },
            None => {
                by_turn.insert(&result.turn_id, records.len());
                records.push(done(event_id, result));
            }
        }
    }
    records.extend(recovered.pending.iter().map(|event| InboxRecord::Accepted { event: event.clone() }));
    let mut bytes = Vec::new();
    for record in &records {
        serde_json::to_writer(&mut bytes, record).map_err(|cause| StoreError::new("encode", path, &cause))?;
        bytes.push(b'\n');
    }
    replace_file(path, &bytes, true)
}

fn done(event_id: &str, result: &TurnResult) -> InboxRecord {
    InboxRecord::Done {
        turn_id: result.turn_id.clone(),
        event_ids: vec![event_id.to_owned()],
        result: Box::new(result.clone()),
        answer: None,
    }
}
