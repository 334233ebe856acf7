//! Reads an inbox file. The file may exceed the rest of a swarm's memory, so it is read one line at
//! a time. The first pass determines the needed records, the second pass loads them.

use std::io;
use std::path::Path;

use super::lines::{self, FIRST_SEQUENCE, JsonlFileLine, LineReader};
use super::record_header::RecordHeader;
use super::record_sequence::{LineContent, RecordSequence};
use super::{checksum, file_format};
use crate::fs::FileSystem;
use crate::record::InboxRecord;
use crate::record_facts::RecordFacts;
use crate::wal_index::{WalIndex, WalState};

/// The contents of an inbox file. A missing file counts as empty.
pub(super) struct TakenUp {
    pub(super) held: WalState,
    pub(super) count: usize,
    /// The boot id at the time the workspace was closed, if it was closed.
    pub(super) closed_in: Option<String>,
}

/// Reads the log and returns the state of the workspace, the number of records, and the boot id of
/// a clean shutdown at its end.
pub(super) fn take_up(fs: &dyn FileSystem, path: &Path) -> io::Result<TakenUp> {
    let mut held = WalState::default();
    let (mut count, mut closed_in) = (0, None);
    let mut ledger = WalIndex::default();
    let problems = index_records(fs, path, &mut ledger, |line| {
        closed_in = None;
        let record = line.value::<InboxRecord>(path)?;
        count += 1;
        let facts = RecordFacts::from(&record);
        if let InboxRecord::Closed { boot } = record {
            closed_in = Some(boot);
        }
        Ok(facts)
    })?;
    if !problems.is_empty() {
        // The process may also have lost later lines.
        closed_in = None;
    }
    held.recovered.warnings.extend(problems);
    for_each(fs, path, &ledger, |line| {
        if let Ok(record) = line.value::<InboxRecord>(path) {
            ledger.take_up(line.range.start, record, &mut held);
        }
        Ok(())
    })?;
    Ok(TakenUp {
        held,
        count,
        closed_in,
    })
}

/// A file that may contain obsolete records.
pub(super) struct CompactableFile<'a> {
    fs: &'a dyn FileSystem,
    path: &'a Path,
    ledger: &'a WalIndex,
}

impl<'a> CompactableFile<'a> {
    /// Opens the file at `path`. Clears `ledger` first.
    pub(super) fn open(
        fs: &'a dyn FileSystem,
        path: &'a Path,
        ledger: &'a mut WalIndex,
    ) -> io::Result<Self> {
        ledger.clear();
        let problems = index_records(fs, path, ledger, |line| {
            decode_outline(line, path).map(|(_, facts)| facts)
        })?;
        for problem in problems {
            tracing::warn!("{problem}");
        }
        Ok(CompactableFile { fs, path, ledger })
    }

    /// Passes the lines of an equivalent file without obsolete parts to `take`, beginning with its
    /// header.
    pub(super) fn lines(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (mut encoded, mut next) = (Vec::new(), FIRST_SEQUENCE);
        file_format::add_header(&mut encoded, self.path);
        take(&encoded)?;
        for_each(self.fs, self.path, self.ledger, |line| {
            let Ok((outline, facts)) = decode_outline(line, self.path) else {
                return Ok(());
            };
            let Some(keeps) = self.ledger.retained_parts(line.range.start, &facts) else {
                return Ok(());
            };
            encoded.clear();
            match outline.retain_parts(keeps) {
                None => checksum::reseal(&mut encoded, line.bytes, Some(next)),
                Some(reduced) => {
                    lines::encode_sealed(&mut encoded, Some(next), [reduced])?;
                }
            }
            next += 1;
            take(&encoded)
        })
    }
}

/// Decodes the parts of a line that decide if its record must be kept.
pub(super) fn decode_outline<'a>(
    line: &JsonlFileLine<'a>,
    path: &Path,
) -> Result<(RecordHeader<'a>, RecordFacts), String> {
    let outline: RecordHeader<'_> = line.value(path)?;
    let facts = outline.facts();
    let facts = facts.map_err(|error| {
        line.describe_problem(
            path,
            &format!("skipped a record that can't be read: {error}"),
        )
    })?;
    Ok((outline, facts))
}

/// Applies all records to the ledger, in the order of their numbers. A record is identified by the
/// offset of its line. Returns the problems of the file.
fn index_records(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &mut WalIndex,
    mut read_facts: impl FnMut(&JsonlFileLine<'_>) -> Result<RecordFacts, String>,
) -> io::Result<Vec<String>> {
    let (mut problems, mut sequence) = (Vec::new(), RecordSequence::new(path));
    // Records after one that is not in its place are applied at the end, in order.
    let (mut last, mut delayed) = (0, Vec::new());
    let Some(mut lines) = LineReader::open(fs, path)? else {
        return Ok(problems);
    };
    while let Some(line) = lines.next()? {
        match sequence.check(&line)? {
            LineContent::Nothing => {}
            LineContent::Damaged(problem) | LineContent::CutOff(problem) => {
                problems.push(line.describe_problem(path, &problem));
            }
            LineContent::Record(number) => match read_facts(&line) {
                Err(problem) => problems.push(problem),
                Ok(facts) if delayed.is_empty() && number == last + 1 => {
                    ledger.apply(line.range.start, facts);
                    last = number;
                }
                Ok(facts) => delayed.push((number, line.range.start, facts)),
            },
        }
    }
    delayed.sort_by_key(|(number, ..)| *number);
    for (_, position, facts) in delayed {
        ledger.apply(position, facts);
    }
    problems.extend(sequence.into_problems());
    Ok(problems)
}

/// Visits the lines of needed records in order.
fn for_each(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &WalIndex,
    mut act: impl FnMut(&JsonlFileLine<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let positions = ledger.needed_positions();
    let mut positions = positions.iter().peekable();
    let Some(mut lines) = LineReader::open(fs, path)? else {
        return Ok(());
    };
    while positions.peek().is_some() {
        let Some(line) = lines.next()? else { break };
        if positions.next_if_eq(&&line.range.start).is_some() {
            act(&line)?;
        }
    }
    Ok(())
}
