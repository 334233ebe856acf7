//! A JSON Lines file with concurrent writers: one sync covers all waiting lines.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use goondan::internal::private_files;
use tokio::sync::oneshot;

/// A line and the sender of its write result.
type QueuedLine = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// Produces the compacted content of the file.
pub(crate) type JournalSnapshot = Box<dyn Fn() -> Vec<u8> + Send>;

/// Bytes of growth after which the file is rewritten.
const REWRITE_AFTER_BYTES: u64 = 4 * 1024 * 1024;

/// An open journal. Its writer thread ends when it is dropped.
#[derive(Debug)]
pub(crate) struct JsonLinesJournal {
    lines: Sender<QueuedLine>,
}

impl JsonLinesJournal {
    /// Replaces the file by `digest` and appends after it.
    pub(crate) fn open(path: PathBuf, digest: JournalSnapshot) -> io::Result<JsonLinesJournal> {
        let file = private_files::replace_durably(&path, &digest())?;
        let (lines, waiting) = channel();
        let writer = JournalWriter {
            path,
            file,
            grown: 0,
            must_renew: false,
            digest,
        };
        std::thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || writer.run(&waiting))?;
        Ok(JsonLinesJournal { lines })
    }

    /// Appends a line and waits until it is durable.
    pub(crate) async fn append(&self, line: Vec<u8>) -> io::Result<()> {
        let (sender, written) = oneshot::channel();
        let writer_stopped = || io::Error::other("the writer of the file has stopped");
        self.lines
            .send((line, sender))
            .map_err(|_| writer_stopped())?;
        written.await.map_err(|_| writer_stopped())?
    }
}

struct JournalWriter {
    path: PathBuf,
    file: File,
    grown: u64,
    must_renew: bool,
    digest: JournalSnapshot,
}

impl JournalWriter {
    /// Writes queued lines until all senders are dropped.
    fn run(mut self, waiting: &Receiver<QueuedLine>) {
        while let Ok(first) = waiting.recv() {
            let batch: Vec<QueuedLine> = [first].into_iter().chain(waiting.try_iter()).collect();
            let outcome = self.write(&batch);
            // A failed write may leave a partial line, so the file is rewritten before the next
            // line.
            self.must_renew |= outcome.is_err();
            for (_, waiter) in batch {
                let outcome = match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // The caller may have been cancelled.
                let _ = waiter.send(outcome);
            }
        }
    }

    /// Writes the lines and waits until they are on disk.
    fn write(&mut self, batch: &[QueuedLine]) -> io::Result<()> {
        if self.must_renew || self.grown > REWRITE_AFTER_BYTES {
            self.file = private_files::replace_durably(&self.path, &(self.digest)())?;
            (self.must_renew, self.grown) = (false, 0);
        }
        let bytes = batch
            .iter()
            .map(|(line, _)| line.as_slice())
            .collect::<Vec<_>>()
            .concat();
        self.file.write_all(&bytes)?;
        self.grown += bytes.len() as u64;
        self.file.sync_data()
    }
}
