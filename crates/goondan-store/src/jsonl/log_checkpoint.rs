//! The state of the log in a checkpoint: it is restored from single records, and updated from the
//! records after it.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::compaction::{self, TakenUp};
use super::file_format::{self, FoundHeader};
use super::handled_events;
use super::lines::{FIRST_SEQUENCE, JsonlFileLine, LineReader};
use super::{checksum, line_at};
use crate::fs::FileSystem;
use crate::wal_index::{HandledEntry, NeededRecords, WalIndex, WalState};

/// The state of a log without damage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogState {
    /// Length of the file in bytes.
    pub(super) length: u64,
    /// Time of the last change of the file; `None` if the file is missing.
    pub(super) modified: Option<u64>,
    /// Sequence number of the next record.
    next: u64,
    needed: NeededRecords,
}

impl LogState {
    /// The state of a missing log.
    const EMPTY: LogState = LogState {
        length: 0,
        modified: None,
        next: FIRST_SEQUENCE,
        needed: NeededRecords::EMPTY,
    };

    /// Returns true if the log at `path` did not change since the checkpoint.
    pub(super) fn is_current(&self, fs: &dyn FileSystem, path: &Path) -> bool {
        let length = fs.file_len(path).ok();
        length.map(Option::unwrap_or_default) == Some(self.length)
            && fs.modified(path) == self.modified
    }

    /// Reads the needed records.
    ///
    /// # Errors
    /// Fails with a description if one of them can't be read.
    pub(super) fn restore(&self, fs: &dyn FileSystem, path: &Path) -> Result<TakenUp, String> {
        let index = WalIndex::from_needed(&self.needed);
        let mut held = WalState::default();
        let positions = index.needed_positions();
        if !positions.is_empty() {
            let mut file = fs.open(path).map_err(|error| error.to_string())?.file;
            for position in positions {
                let record = line_at::read_record(&mut *file, position as u64)?;
                index.take_up(position, record, &mut held);
            }
        }
        let count = usize::try_from(self.next - FIRST_SEQUENCE).unwrap_or(usize::MAX);
        Ok(TakenUp {
            held,
            count,
            closed_in: None,
        })
    }
}

/// The state of the log at the end of a process.
pub(super) struct LogSummary {
    pub(super) state: LogState,
    /// Handled events, sorted by hash.
    pub(super) handled: Vec<HandledEntry>,
}

/// Determines the state of the log at `path`. `earlier` is the state at the last checkpoint, unless
/// the log was rewritten since. Returns `None` if the log is damaged or has no sequence numbers.
pub(super) fn summarize(
    fs: &dyn FileSystem,
    path: &Path,
    earlier: Option<(&LogState, Vec<HandledEntry>)>,
) -> io::Result<Option<LogSummary>> {
    let empty = LogState::EMPTY;
    let (state, handled) = earlier.unwrap_or((&empty, Vec::new()));
    let mut index = WalIndex::from_needed(&state.needed);
    let modified = fs.modified(path);
    let Some(end) = index_from(fs, path, state, &mut index)? else {
        return Ok(None);
    };
    let replaced: HashSet<u64> = index.event_hashes().collect();
    Ok(Some(LogSummary {
        state: LogState {
            modified,
            needed: index.needed_records(),
            ..end
        },
        handled: handled_events::merge_entries(handled, index.handled_entries(), &replaced),
    }))
}

/// Adds the records after `state` to the index. Returns the state of the file, without its needed
/// records; `None` if a line is not as expected.
fn index_from(
    fs: &dyn FileSystem,
    path: &Path,
    state: &LogState,
    index: &mut WalIndex,
) -> io::Result<Option<LogState>> {
    let mut end = LogState {
        length: state.length,
        next: state.next,
        ..LogState::EMPTY
    };
    let Some(mut lines) = LineReader::open_at(fs, path, state.length)? else {
        return Ok((state.length == 0).then_some(end));
    };
    while let Some(line) = lines.next()? {
        if line.range.start == 0 {
            if !matches!(
                file_format::read_header(line.bytes, path)?,
                Some(FoundHeader::Intact)
            ) {
                return Ok(None);
            }
        } else {
            if !is_record(&line, end.next) {
                return Ok(None);
            }
            let Ok((_, facts)) = compaction::decode_outline(&line, path) else {
                return Ok(None);
            };
            index.apply(line.range.start, facts);
            end.next += 1;
        }
        end.length = line.range.end as u64;
    }
    Ok(Some(end))
}

/// Returns true if the line is the intact record with this number.
fn is_record(line: &JsonlFileLine<'_>, sequence: u64) -> bool {
    line.bytes.last() == Some(&b'\n')
        && checksum::is_intact(line.bytes)
        && checksum::sequence_number(line.bytes) == Some(sequence)
}
