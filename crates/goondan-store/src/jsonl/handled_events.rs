//! Results of events that were handled before the store was opened, found without reading the log.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::synced_disk::SyncedDisk;
use super::{checksum, compaction, line_at};
use crate::fs::DataFile;
use crate::record::InboxRecord;
use crate::wal_index::{HandledEntry, hash_of};
use goondan_core::ports::store::StoreError;
use goondan_core::result_cache::{EncodedResult, MAX_CACHED_BYTES, MAX_CACHED_EVENTS};

/// Length of the hash and of the offset in hexadecimal digits.
const LONG_DIGITS: usize = 16;
/// Length of the size in hexadecimal digits.
const SHORT_DIGITS: usize = 8;
/// Length of an entry in hexadecimal digits: hash, offset and size.
const ENTRY_DIGITS: usize = 2 * LONG_DIGITS + SHORT_DIGITS;

const LINE_START: &[u8] = br#"{"record":"handled","entries":""#;

/// Appends the line with all entries, sorted by hash.
pub(super) fn add_line(bytes: &mut Vec<u8>, entries: &[HandledEntry], sequence: u64) {
    let start = bytes.len();
    bytes.extend_from_slice(LINE_START);
    let mut digits = String::with_capacity(entries.len() * ENTRY_DIGITS);
    for HandledEntry { hash, at, size } in entries {
        write!(digits, "{hash:016x}{at:016x}{size:08x}").expect("a String takes everything");
    }
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(b"\"}");
    checksum::seal(bytes, start, Some(sequence));
    bytes.push(b'\n');
}

/// Returns the digits of all entries; `None` if the line is damaged.
fn digits_of(line: &[u8]) -> Option<&[u8]> {
    if !checksum::is_sealed(line) || !checksum::is_intact(line) {
        return None;
    }
    let digits = line.strip_prefix(LINE_START)?;
    let end = digits.iter().position(|byte| *byte == b'"')?;
    Some(&digits[..end]).filter(|digits| digits.len().is_multiple_of(ENTRY_DIGITS))
}

/// Decodes one entry.
fn entry_of(digits: &[u8]) -> Option<HandledEntry> {
    let digits = std::str::from_utf8(digits).ok()?;
    let (hash, rest) = digits.split_at_checked(LONG_DIGITS)?;
    let (at, size) = rest.split_at_checked(LONG_DIGITS)?;
    Some(HandledEntry {
        hash: u64::from_str_radix(hash, 16).ok()?,
        at: u64::from_str_radix(at, 16).ok()?,
        size: u32::from_str_radix(size, 16).ok()?,
    })
}

/// Keeps as many of the newest events as the log keeps, and sorts them by hash.
pub(super) fn limit_entries(mut entries: Vec<HandledEntry>) -> Vec<HandledEntry> {
    entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.at));
    entries.truncate(MAX_CACHED_EVENTS);
    let mut bytes = 0;
    entries.retain(|entry| {
        bytes += usize::try_from(entry.size).unwrap_or(usize::MAX);
        bytes <= MAX_CACHED_BYTES
    });
    entries.sort_unstable();
    entries
}

/// Handled events of a checkpoint.
pub(super) struct HandledEvents {
    disk: Arc<SyncedDisk>,
    log: PathBuf,
    /// Line of the checkpoint.
    line: Vec<u8>,
    state: Mutex<LookupState>,
}

enum LookupState {
    /// The line was not read yet. The file is the log as it was when the store was opened; a
    /// compaction replaces the log with another file.
    Unverified(Box<dyn DataFile>),
    /// The line is intact, and its entries have this number of digits.
    Verified(Box<dyn DataFile>, usize),
    /// The checkpoint is damaged; the results come from the whole log.
    FromLog(HashMap<String, EncodedResult>),
}

impl HandledEvents {
    /// Opens the log for later lookups.
    pub(super) fn open(
        disk: &Arc<SyncedDisk>,
        log: &Path,
        line: Vec<u8>,
    ) -> Result<Self, StoreError> {
        let opened = disk.open(log);
        let file = opened
            .map_err(|cause| StoreError::file("open", log, cause))?
            .file;
        Ok(HandledEvents {
            disk: Arc::clone(disk),
            log: log.to_owned(),
            line,
            state: Mutex::new(LookupState::Unverified(file)),
        })
    }

    /// Returns the result of an event; `None` if it is not in the checkpoint or its record is
    /// damaged.
    pub(super) fn result(&self, event_id: &str) -> Option<EncodedResult> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match std::mem::replace(&mut *state, LookupState::FromLog(HashMap::new())) {
            LookupState::Unverified(file) => match digits_of(&self.line) {
                Some(digits) => LookupState::Verified(file, digits.len()),
                None => LookupState::FromLog(self.results_of_log()),
            },
            verified => verified,
        };
        match &mut *state {
            LookupState::Unverified(_) => None,
            LookupState::FromLog(results) => results.get(event_id).cloned(),
            LookupState::Verified(file, length) => {
                let digits = &self.line[LINE_START.len()..][..*length];
                find(digits, &mut **file, event_id)
            }
        }
    }

    /// Returns all entries; `None` if the line is damaged.
    pub(super) fn entries(&self) -> Option<Vec<HandledEntry>> {
        let digits = digits_of(&self.line)?;
        digits.chunks_exact(ENTRY_DIGITS).map(entry_of).collect()
    }

    /// Reads the results of all handled events from the whole log. Empty if the log can't be read.
    fn results_of_log(&self) -> HashMap<String, EncodedResult> {
        tracing::warn!(path = %self.log.display(), "the checkpoint of the log is damaged; the \
            whole log is read");
        let found = compaction::take_up(&**self.disk, &self.log);
        let handled = found.map(|found| found.held.recovered.handled);
        let handled = handled.inspect_err(|error| tracing::warn!(%error, "could not read the log"));
        let handled = handled.unwrap_or_default().into_iter();
        handled
            .map(|event| (event.event_id, event.result))
            .collect()
    }
}

/// Searches the sorted entries for an event, and reads its result from the log.
fn find(digits: &[u8], log: &mut dyn DataFile, event_id: &str) -> Option<EncodedResult> {
    let (entries, _) = digits.as_chunks::<ENTRY_DIGITS>();
    let hash = format!("{:016x}", hash_of(event_id));
    let first = entries.partition_point(|entry| entry[..LONG_DIGITS] < *hash.as_bytes());
    let matching = entries[first..]
        .iter()
        .take_while(|entry| entry[..LONG_DIGITS] == *hash.as_bytes());
    let mut results = matching.map(|entry| result_at(log, entry_of(entry)?.at, event_id));
    results.find_map(|result| result)
}

/// Reads the result of an event from the record at an offset.
fn result_at(log: &mut dyn DataFile, at: u64, event_id: &str) -> Option<EncodedResult> {
    let record = line_at::read_record(log, at);
    let record = record.inspect_err(|problem| {
        tracing::warn!(at, %problem, "the record of a handled event can't be read from the log; \
            the event counts as new");
    });
    match record.ok()? {
        InboxRecord::Done {
            event_ids, result, ..
        } if event_ids.iter().any(|id| id == event_id) => Some(EncodedResult::encode(&result)),
        _ => None,
    }
}

/// Merges the entries of the last checkpoint with those of later records.
pub(super) fn merge_entries(
    earlier: Vec<HandledEntry>,
    later: Vec<HandledEntry>,
    replaced: &HashSet<u64>,
) -> Vec<HandledEntry> {
    let mut entries = earlier;
    entries.retain(|entry| !replaced.contains(&entry.hash));
    entries.extend(later);
    limit_entries(entries)
}
