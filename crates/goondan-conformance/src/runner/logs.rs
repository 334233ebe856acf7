//! Log output of the runtime for one test case. The process has only one default log subscriber, so
//! every thread of a test case gets its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use goondan::internal::{RedactingWriter, SecretRedactor};
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum size of the log in bytes. Later lines are dropped.
const MAX_LOG_BYTES: usize = 8 << 20;

/// Collected log lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaseLogs {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Masks secrets, like the log writer of the command.
    pub(crate) redactor: SecretRedactor,
}

impl CaseLogs {
    /// Returns a subscriber that writes to this log.
    pub(crate) fn dispatch(&self) -> Dispatch {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false);
        Dispatch::new(subscriber.with_writer(self.clone()).finish())
    }

    /// Runs `work` and collects its log lines.
    pub(crate) fn collect<T>(&self, work: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch(), work)
    }

    /// Returns all lines so far.
    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for CaseLogs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < MAX_LOG_BYTES {
            bytes.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for CaseLogs {
    type Writer = RedactingWriter<CaseLogs>;

    fn make_writer(&'w self) -> RedactingWriter<CaseLogs> {
        self.redactor.writer(self.clone())
    }
}
