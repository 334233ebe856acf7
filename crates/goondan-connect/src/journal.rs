//! A file of JSON Lines that many write to at the same time: one sync serves all who wait.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use goondan::inside::private;
use tokio::sync::oneshot;

/// A line, and who waits until it is on disk.
type Line = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// Makes the whole content of the file anew, without what nobody needs any more.
pub(crate) type Digest = Box<dyn Fn() -> Vec<u8> + Send>;

/// A file that has grown by so many bytes is written anew.
const GROWTH: u64 = 4 * 1024 * 1024;

/// An open journal. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct Journal {
    lines: Sender<Line>,
}

impl Journal {
    /// Puts `digest` in place of what the file held, and goes on behind it.
    pub(crate) fn open(path: PathBuf, digest: Digest) -> io::Result<Journal> {
        let file = private::replace_durably(&path, &digest())?;
        let (lines, waiting) = channel();
        let writer = Writer {
            path,
            file,
            grown: 0,
            must_renew: false,
            digest,
        };
        std::thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || writer.run(&waiting))?;
        Ok(Journal { lines })
    }

    /// Appends a line; returns once it is on disk.
    pub(crate) async fn append(&self, line: Vec<u8>) -> io::Result<()> {
        let (sender, written) = oneshot::channel();
        let gone = || io::Error::other("nobody writes the file any more");
        self.lines.send((line, sender)).map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    grown: u64,
    must_renew: bool,
    digest: Digest,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Line>) {
        while let Ok(first) = waiting.recv() {
            let batch: Vec<Line> = [first].into_iter().chain(waiting.try_iter()).collect();
            let outcome = self.write(&batch);
            // Half a line may be there now, and the next one must not stand behind it.
            self.must_renew |= outcome.is_err();
            for (_, waiter) in batch {
                let outcome = match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // Whoever gave up needs no answer.
                let _ = waiter.send(outcome);
            }
        }
    }

    fn write(&mut self, batch: &[Line]) -> io::Result<()> {
        if self.must_renew || self.grown > GROWTH {
            self.file = private::replace_durably(&self.path, &(self.digest)())?;
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
