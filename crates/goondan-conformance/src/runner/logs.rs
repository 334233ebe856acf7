//! What the runtime logs while a case runs. Each case has its own buffer, although the subscriber of a process is one:
//! every thread that works for a case gets a subscriber of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use goondan::inside::{Redacted, Redactor};
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Later lines are dropped once there are that many bytes.
const LIMIT: usize = 8 << 20;

/// Log lines, collected. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logs {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// As in the command, the log writer knows the secrets of the run.
    pub(crate) redactor: Redactor,
}

impl Logs {
    /// A subscriber that writes here.
    pub(crate) fn dispatch(&self) -> Dispatch {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false);
        Dispatch::new(subscriber.with_writer(self.clone()).finish())
    }

    /// Does `work`, with what it logs collected here.
    pub(crate) fn hear<T>(&self, work: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch(), work)
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < LIMIT {
            bytes.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Logs {
    type Writer = Redacted<Logs>;

    fn make_writer(&'w self) -> Redacted<Logs> {
        self.redactor.writer(self.clone())
    }
}
