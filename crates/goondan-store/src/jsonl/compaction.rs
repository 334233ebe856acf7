//! Reads an inbox file. The file may exceed the rest of a swarm's memory, so it is read one line at
//! a time. The first pass determines the needed records, the second pass loads them.

use std::io;
use std::path::Path;

use super::lines::{self, JsonlFileLine, LineReader};
use super::record_header::RecordHeader;
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
    let read = |line: &JsonlFileLine<'_>| line.value::<InboxRecord>(path);
    let mut held = WalState::default();
    let (mut count, mut closed_in) = (0, None);
    let mut ledger = WalIndex::default();
    index_records(fs, path, &mut ledger, |line| {
        closed_in = None;
        match read(line) {
            Ok(record) => {
                count += usize::from(record.is_some());
                let note = record.as_ref().map(RecordFacts::from);
                if let Some(InboxRecord::Closed { boot }) = record {
                    closed_in = Some(boot);
                }
                note
            }
            Err(problem) => {
                held.recovered.warnings.push(problem);
                None
            }
        }
    })?;
    for_each(fs, path, &ledger, |line| {
        if let Ok(Some(record)) = read(line) {
            ledger.take_up(line.place.start, record, &mut held);
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
        index_records(fs, path, ledger, |line| {
            outlined(line, path).map(|(_, note)| note)
        })?;
        Ok(CompactableFile { fs, path, ledger })
    }

    /// Passes the lines of an equivalent file without obsolete parts to `take`.
    pub(super) fn lines(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut encoded = Vec::new();
        for_each(self.fs, self.path, self.ledger, |line| {
            let Some((outline, note)) = outlined(line, self.path) else {
                return Ok(());
            };
            let Some(keeps) = self.ledger.keeps(line.place.start, &note) else {
                return Ok(());
            };
            let Some(reduced) = outline.reduced(keeps) else {
                return take(line.bytes);
            };
            encoded.clear();
            lines::encode(&mut encoded, [reduced])?;
            take(&encoded)
        })
    }
}

/// Parses a line; `None` if it is unreadable.
fn outlined<'a>(line: &JsonlFileLine<'a>, path: &Path) -> Option<(RecordHeader<'a>, RecordFacts)> {
    let outline: RecordHeader<'_> = line.value(path).ok()??;
    let note = outline.note().ok()?;
    Some((outline, note))
}

/// Applies all lines to the ledger. A record is identified by the offset of its line.
fn index_records(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &mut WalIndex,
    mut note: impl FnMut(&JsonlFileLine<'_>) -> Option<RecordFacts>,
) -> io::Result<()> {
    if let Some(mut lines) = LineReader::open(fs, path)? {
        while let Some(line) = lines.next()? {
            if let Some(note) = note(&line) {
                ledger.apply(line.place.start, note);
            }
        }
    }
    Ok(())
}

/// Visits the lines of needed records in order.
fn for_each(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &WalIndex,
    mut act: impl FnMut(&JsonlFileLine<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let places = ledger.places();
    let mut places = places.iter().peekable();
    let Some(mut lines) = LineReader::open(fs, path)? else {
        return Ok(());
    };
    while places.peek().is_some() {
        let Some(line) = lines.next()? else { break };
        if places.next_if_eq(&&line.place.start).is_some() {
            act(&line)?;
        }
    }
    Ok(())
}
