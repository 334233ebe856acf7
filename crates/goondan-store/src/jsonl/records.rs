//! What the file of an inbox comes to. It may be larger than everything else that a swarm has in memory, so it is gone through
//! a line at a time: once to see what matters, and once more for that.

use std::io;
use std::path::Path;

use super::lines::{self, Line, LineReader};
use super::outline::Outline;
use crate::fs::FileSystem;
use crate::ledger::{Held, Ledger};
use crate::note::Note;
use crate::record::InboxRecord;

/// What the file at `path` holds; no file is an empty file.
pub(super) struct TakenUp {
    pub(super) held: Held,
    /// How many records it has.
    pub(super) count: usize,
    /// In which run of the machine the workspace was closed, if it was.
    pub(super) closed_in: Option<String>,
}

/// Reads the file at `path`.
pub(super) fn take_up(fs: &dyn FileSystem, path: &Path) -> io::Result<TakenUp> {
    let read = |line: &Line<'_>| line.value::<InboxRecord>(path);
    let mut held = Held::default();
    let (mut count, mut closed_in) = (0, None);
    let mut ledger = Ledger::default();
    survey(fs, path, &mut ledger, |line| {
        closed_in = None;
        match read(line) {
            Ok(record) => {
                count += usize::from(record.is_some());
                let note = record.as_ref().map(Note::from);
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

/// A file of which something may go.
pub(super) struct Reducible<'a> {
    fs: &'a dyn FileSystem,
    path: &'a Path,
    ledger: &'a Ledger,
}

impl<'a> Reducible<'a> {
    /// The file at `path`. What `ledger` had in it is forgotten.
    pub(super) fn open(
        fs: &'a dyn FileSystem,
        path: &'a Path,
        ledger: &'a mut Ledger,
    ) -> io::Result<Self> {
        ledger.clear();
        survey(fs, path, ledger, |line| {
            outlined(line, path).map(|(_, note)| note)
        })?;
        Ok(Reducible { fs, path, ledger })
    }

    /// The lines that a file needs which says the same and nothing else.
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

/// What a line says; `None` where it can't be read.
fn outlined<'a>(line: &Line<'a>, path: &Path) -> Option<(Outline<'a>, Note)> {
    let outline: Outline<'_> = line.value(path).ok()??;
    let note = outline.note().ok()?;
    Some((outline, note))
}

/// What all lines come to. A record is known by where its line begins.
fn survey(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &mut Ledger,
    mut note: impl FnMut(&Line<'_>) -> Option<Note>,
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

/// The lines of the records that matter, in their order.
fn for_each(
    fs: &dyn FileSystem,
    path: &Path,
    ledger: &Ledger,
    mut act: impl FnMut(&Line<'_>) -> io::Result<()>,
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
