//! What the file of an inbox comes to. It may be larger than everything else that a swarm has in memory, so it is gone through
//! a line at a time: once to see what matters, and once more for that.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use super::lines::{self, LineReader};
use crate::ports::store::InboxRecord;
use crate::store::fs::FileSystem;
use crate::store::ledger::{Held, Ledger};

/// The records in a file that matter. A record is known by where its line begins.
pub(super) struct Records<'a> {
    fs: &'a dyn FileSystem,
    path: &'a Path,
    ledger: Ledger,
    places: Vec<usize>,
    warnings: Vec<String>,
    /// How many there are, with those that matter no more.
    pub(super) count: usize,
}

impl<'a> Records<'a> {
    /// Those in the file at `path`; none where there is no file.
    pub(super) fn in_file(fs: &'a dyn FileSystem, path: &'a Path) -> io::Result<Self> {
        let (mut ledger, mut warnings, mut count) = (Ledger::default(), Vec::new(), 0);
        if let Some(mut lines) = LineReader::open(fs, path)? {
            while let Some(line) = lines.next()? {
                match line.value(path) {
                    Ok(Some(record)) => {
                        count += 1;
                        ledger.apply(line.place.start, &record);
                    }
                    Ok(None) => {}
                    Err(problem) => warnings.push(problem),
                }
            }
        }
        let places = ledger.places();
        Ok(Records { fs, path, ledger, places, warnings, count })
    }

    /// What they hold.
    pub(super) fn take_up(mut self) -> io::Result<Held> {
        let mut held = Held::default();
        held.recovered.warnings = std::mem::take(&mut self.warnings);
        self.for_each(|place, _, record| {
            self.ledger.take_up(place, record, &mut held);
            Ok(())
        })?;
        Ok(held)
    }

    /// The lines that a file needs which says the same and nothing else.
    pub(super) fn reduced(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut encoded = Vec::new();
        self.for_each(|place, line, record| match self.ledger.reduce(place, &record) {
            None => Ok(()),
            Some(Cow::Borrowed(_)) => take(line),
            Some(Cow::Owned(record)) => {
                encoded.clear();
                lines::encode(&mut encoded, [record])?;
                take(&encoded)
            }
        })
    }

    /// Those that matter, in order, with their lines.
    fn for_each(&self, mut act: impl FnMut(usize, &[u8], InboxRecord) -> io::Result<()>) -> io::Result<()> {
        let mut places = self.places.iter().copied().peekable();
        let Some(mut lines) = LineReader::open(self.fs, self.path)? else { return Ok(()) };
        while let (Some(next), Some(line)) = (places.peek(), lines.next()?) {
            if line.place.start != *next {
                continue;
            }
            let place = places.next().expect("it was just looked at");
            if let Ok(Some(record)) = line.value(self.path) {
                act(place, line.bytes, record)?;
            }
        }
        Ok(())
    }
}
