//! The open calls of one library, as its callbacks reach them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan_abi::raw::{NO_CALL, Status};
use goondan_abi::wire::{LogLevel, LogLine};
use goondan_core::plugin_session::{CallRules, DeliveryStatus, OpenCalls, RunningMessage};
use goondan_core::ports::tool::HandlerError;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::counters::LibraryCounters;
use crate::library_messages::{LibraryCallbacks, Outcome};
use crate::limits::LibraryLimits;

/// Maximum number of queued log lines that belong to no call.
const LOG_QUEUE_LENGTH: usize = 256;
/// Minimum time between two progress updates of a call: users read at most ten per second.
const MIN_PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The running calls of one library.
pub(crate) struct LibraryCalls {
    open: OpenCalls,
    /// Receives log lines that belong to no call. `None` after closing.
    general: Mutex<Option<mpsc::Sender<LogLine>>>,
    counters: Arc<LibraryCounters>,
}

impl LibraryCalls {
    /// Creates the table of a new library. Log lines without a call go to the program's log. Needs a
    /// running Tokio runtime.
    pub(crate) fn new(name: &str, limits: &LibraryLimits, counters: &Arc<LibraryCounters>) -> Self {
        let (general, mut lines) = mpsc::channel::<LogLine>(LOG_QUEUE_LENGTH);
        let library = name.to_owned();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                write_general_log(&library, &line);
            }
        });
        LibraryCalls {
            open: OpenCalls::new(CallRules {
                name: name.to_owned(),
                cancel_grace: limits.cancel_grace,
                max_written_off: limits.max_written_off,
                progress_interval: MIN_PROGRESS_INTERVAL,
                polls_answers: true,
                answers_after_end: true,
            }),
            general: Mutex::new(Some(general)),
            counters: Arc::clone(counters),
        }
    }

    pub(crate) fn open(&self) -> &OpenCalls {
        &self.open
    }

    /// Forwards a request of a call. Blocks this thread while the call's queue is full.
    pub(crate) fn forward_request(&self, call: u64, request: RunningMessage) {
        self.status(self.open.blocking_event(call, request));
    }

    /// Converts the result of a delivery, and counts ignored messages.
    fn status(&self, delivery: DeliveryStatus) -> Status {
        match delivery {
            DeliveryStatus::Accepted => Status::OK,
            DeliveryStatus::QueueFull => Status::BUSY,
            DeliveryStatus::Closed => Status::CLOSED,
            DeliveryStatus::UnknownCall => {
                self.counters.ignored.fetch_add(1, Ordering::Relaxed);
                Status::UNKNOWN_CALL
            }
        }
    }

    fn lock_general_log(&self) -> MutexGuard<'_, Option<mpsc::Sender<LogLine>>> {
        self.general.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LibraryCallbacks for LibraryCalls {
    fn complete(&self, call: u64, outcome: Outcome) -> Status {
        self.status(self.open.complete(call, outcome.into()))
    }

    fn event(&self, call: u64, event: RunningMessage) -> Status {
        match (call, event) {
            (NO_CALL, RunningMessage::Log(line)) => match &*self.lock_general_log() {
                None => Status::CLOSED,
                Some(general) => match general.try_send(line) {
                    Ok(()) => Status::OK,
                    Err(TrySendError::Full(_)) => Status::BUSY,
                    Err(TrySendError::Closed(_)) => Status::CLOSED,
                },
            },
            (call, event) => self.status(self.open.event(call, event)),
        }
    }

    fn is_cancelled(&self, call: u64) -> bool {
        self.open.is_cancelled(call)
    }

    fn must_start(&self, call: u64) -> bool {
        self.open.must_start(call)
    }

    fn close(&self, why: &HandlerError) {
        *self.lock_general_log() = None;
        self.open.close(why);
    }
}

/// Writes a log line outside of calls.
fn write_general_log(library: &str, line: &LogLine) {
    let (message, fields) = (&line.message, Value::Object(line.fields.clone()));
    match line.level {
        LogLevel::Debug => tracing::debug!(target: "gdn::tool", library, %fields, "{message}"),
        LogLevel::Info => tracing::info!(target: "gdn::tool", library, %fields, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "gdn::tool", library, %fields, "{message}"),
        LogLevel::Error => tracing::error!(target: "gdn::tool", library, %fields, "{message}"),
    }
}
