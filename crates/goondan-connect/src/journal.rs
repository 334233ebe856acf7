//! A JSON Lines file with concurrent writers: one sync covers all waiting lines.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use goondan::internal::private_files;
use tokio::sync::oneshot;

/// A line that waits for the writer thread.
struct QueuedLine {
    line: Vec<u8>,
    result_sender: oneshot::Sender<io::Result<()>>,
}

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
    /// Replaces the file by `snapshot` and starts the writer thread, which appends to it.
    pub(crate) fn open(path: PathBuf, snapshot: JournalSnapshot) -> io::Result<JsonLinesJournal> {
        let file = private_files::replace_durably(&path, &snapshot())?;
        let (lines, queued_lines) = channel();
        let writer = JournalWriter {
            path,
            file,
            appended_bytes: 0,
            must_rewrite: false,
            snapshot,
        };
        std::thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || writer.run(&queued_lines))?;
        Ok(JsonLinesJournal { lines })
    }

    /// Appends a line and waits until it is durable.
    pub(crate) async fn append(&self, line: Vec<u8>) -> io::Result<()> {
        let (result_sender, result) = oneshot::channel();
        let writer_stopped = || io::Error::other("the writer of the file has stopped");
        self.lines
            .send(QueuedLine {
                line,
                result_sender,
            })
            .map_err(|_| writer_stopped())?;
        result.await.map_err(|_| writer_stopped())?
    }
}

struct JournalWriter {
    path: PathBuf,
    file: File,
    /// Bytes appended since the file was last rewritten.
    appended_bytes: u64,
    must_rewrite: bool,
    snapshot: JournalSnapshot,
}

impl JournalWriter {
    /// Writes queued lines until all senders are dropped. Lines that arrive during a write are
    /// written together.
    fn run(mut self, queued_lines: &Receiver<QueuedLine>) {
        while let Ok(first) = queued_lines.recv() {
            let mut batch = vec![first];
            batch.extend(queued_lines.try_iter());
            let outcome = self.write(&batch);
            if outcome.is_err() {
                // A failed write may leave a partial line, so the file is rewritten before the next
                // line.
                self.must_rewrite = true;
            }
            for queued in batch {
                let copied_outcome = match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // The caller may have been cancelled.
                let _ = queued.result_sender.send(copied_outcome);
            }
        }
    }

    /// Writes the lines and waits until they are on disk.
    fn write(&mut self, batch: &[QueuedLine]) -> io::Result<()> {
        if self.must_rewrite || self.appended_bytes > REWRITE_AFTER_BYTES {
            self.file = private_files::replace_durably(&self.path, &(self.snapshot)())?;
            self.must_rewrite = false;
            self.appended_bytes = 0;
        }
        let bytes = batch
            .iter()
            .map(|queued| queued.line.as_slice())
            .collect::<Vec<_>>()
            .concat();
        self.file.write_all(&bytes)?;
        self.appended_bytes += bytes.len() as u64;
        self.file.sync_data()
    }
}
