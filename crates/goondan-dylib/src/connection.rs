//! The connection to one library that accepts calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use goondan_abi::raw::NO_CALL;
use goondan_abi::spin_wait::{MAX_SPIN_TIME, spin_until_found};
use goondan_abi::wire::{self, code};
use goondan_core::ports::tool::{LogLevel, ToolContext};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::calls::{LibraryCallReceivers, LibraryCalls};
use crate::library_messages::{LibraryCallEvent, LibraryCommand, Outcome};
use crate::limits::LibraryLimits;
use crate::metrics::LibraryCounters;

/// Maximum number of queued log lines that belong to no call.
const LOG_QUEUE_LENGTH: usize = 256;

/// A library that accepts calls. It is closed when the last reference is dropped.
pub(crate) struct LibraryConnection {
    down: mpsc::UnboundedSender<LibraryCommand>,
    calls: Arc<LibraryCalls>,
    cancel_grace: Duration,
    /// True if the last answer came so fast that polling for the next one is worthwhile.
    is_quick: AtomicBool,
}

/// Creates the table of a new library. Log lines without a call go to the program's log. Needs a
/// running Tokio runtime.
pub(crate) fn new_calls(
    name: &str,
    limits: &LibraryLimits,
    counters: &Arc<LibraryCounters>,
) -> Arc<LibraryCalls> {
    let (general, mut lines) = mpsc::channel::<wire::LogLine>(LOG_QUEUE_LENGTH);
    let library = name.to_owned();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            log_generally(&library, &line);
        }
    });
    Arc::new(LibraryCalls::new(
        name,
        limits.max_written_off,
        general,
        Arc::clone(counters),
    ))
}

impl LibraryConnection {
    pub(crate) fn new(
        down: mpsc::UnboundedSender<LibraryCommand>,
        calls: Arc<LibraryCalls>,
        limits: &LibraryLimits,
    ) -> Self {
        LibraryConnection {
            down,
            calls,
            cancel_grace: limits.cancel_grace,
            is_quick: AtomicBool::new(false),
        }
    }

    pub(crate) fn calls(&self) -> &LibraryCalls {
        &self.calls
    }

    /// Begins a call. Dropping the returned call cancels it in the library.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: wire::CallRequest,
    ) -> Outcome<LibraryCallHandle> {
        self.open(|call| LibraryCommand::Start {
            call,
            request: Box::new(request),
        })
    }

    /// Sends a message to an extension, and expects an answer.
    pub(crate) fn extend(
        self: &Arc<Self>,
        message: serde_json::Value,
    ) -> Outcome<LibraryCallHandle> {
        self.open(|call| LibraryCommand::Extend { call, message })
    }

    /// Sends a message to an extension without an answer.
    pub(crate) fn mention(&self, message: serde_json::Value) {
        // A closed library does not need the message.
        let _ = self.down.send(LibraryCommand::Extend {
            call: NO_CALL,
            message,
        });
    }

    /// Registers a call and sends the command for the call's id.
    fn open(
        self: &Arc<Self>,
        down: impl FnOnce(u64) -> LibraryCommand,
    ) -> Outcome<LibraryCallHandle> {
        let LibraryCallReceivers {
            call,
            answer,
            events,
        } = self.calls.begin()?;
        let open = LibraryCallHandle {
            connection: Arc::clone(self),
            call,
            answer,
            events,
            operations: Vec::new(),
            state: CallState::Running,
            began: Instant::now(),
        };
        open.send(down(call))?;
        Ok(open)
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum CallState {
    Running,
    Cancelled,
    Answered,
}

/// A running call. Dropping it abandons the call.
pub(crate) struct LibraryCallHandle {
    connection: Arc<LibraryConnection>,
    call: u64,
    answer: oneshot::Receiver<Outcome<wire::ToolOutput>>,
    events: mpsc::Receiver<LibraryCallEvent>,
    /// Requests of the library without a reply.
    operations: Vec<u64>,
    state: CallState,
    began: Instant,
}

/// An event of a running call.
pub(crate) enum LibraryCallUpdate {
    Event(LibraryCallEvent),
    Answer(Outcome<wire::ToolOutput>),
}

impl LibraryCallHandle {
    /// Returns the answer if the library is quick and has sent no other message.
    pub(crate) fn at_once(&mut self) -> Option<Outcome<wire::ToolOutput>> {
        if !self.connection.is_quick.load(Ordering::Relaxed) {
            return None;
        }
        let answer = spin_until_found(|| match self.answer.try_recv() {
            Err(TryRecvError::Empty) => None,
            answered => Some(answered.ok()),
        })?;
        Some(self.answered(answer))
    }

    /// Ends the call with `answer`; `None` means that the library was closed. Measures how quick
    /// the library is.
    fn answered(&mut self, answer: Option<Outcome<wire::ToolOutput>>) -> Outcome<wire::ToolOutput> {
        self.state = CallState::Answered;
        self.connection
            .is_quick
            .store(self.began.elapsed() < MAX_SPIN_TIME * 4, Ordering::Relaxed);
        answer.unwrap_or_else(|| Err(lost()))
    }

    /// Returns the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> LibraryCallUpdate {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => LibraryCallUpdate::Event(event),
            answer = &mut self.answer => LibraryCallUpdate::Answer(self.answered(answer.ok())),
        }
    }

    /// Returns the next queued message that preceded the answer.
    pub(crate) fn next_queued_event(&mut self) -> Option<LibraryCallEvent> {
        self.events.try_recv().ok()
    }

    /// Notes that the library waits for the result of `operation`.
    pub(crate) fn add_operation(&mut self, operation: u64) {
        self.operations.push(operation);
    }

    /// Sends the result of `operation` to the library.
    pub(crate) fn reply(&mut self, operation: u64, outcome: Outcome<serde_json::Value>) {
        self.operations.retain(|waiting| *waiting != operation);
        let _ = self.send(LibraryCommand::Reply { operation, outcome });
    }

    /// Cancels the call in the library.
    pub(crate) fn cancel(&mut self) {
        if self.state == CallState::Running {
            self.state = CallState::Cancelled;
            self.connection.calls.cancel(self.call);
            let _ = self.send(LibraryCommand::Cancel { call: self.call });
        }
    }

    /// Answers the call without the library. Its worker counts as lost from now on.
    pub(crate) fn write_off(&mut self) {
        self.connection.calls.give_up(self.call, Duration::ZERO);
    }

    fn send(&self, down: LibraryCommand) -> Result<(), wire::ToolError> {
        self.connection.down.send(down).map_err(|_| lost())
    }
}

impl Drop for LibraryCallHandle {
    fn drop(&mut self) {
        if self.state != CallState::Answered {
            // Abandon the call before the library is notified, so that even an immediate answer
            // finds no open call.
            self.connection
                .calls
                .give_up(self.call, self.connection.cancel_grace);
            self.cancel();
        }
        for operation in std::mem::take(&mut self.operations) {
            let over = wire::ToolError::new("the call is over").code(code::CANCELLED);
            let _ = self.send(LibraryCommand::Reply {
                operation,
                outcome: Err(over),
            });
        }
    }
}

/// Returns the error of a call whose library was closed.
fn lost() -> wire::ToolError {
    wire::ToolError::new("the library was closed during the call")
        .code(code::UNAVAILABLE)
        .suggest("Try again.")
}

/// Writes a log line of the library with the fields of its call.
pub(crate) fn log_for_call(ctx: &ToolContext, line: wire::LogLine) {
    let (level, message, fields) = parts(line);
    ctx.logger.log(level, &message, fields);
}

/// Splits a line into the arguments of a logger.
pub(crate) fn parts(line: wire::LogLine) -> (LogLevel, String, wire::JsonObject) {
    let level = match line.level {
        wire::LogLevel::Debug => LogLevel::Debug,
        wire::LogLevel::Info => LogLevel::Info,
        wire::LogLevel::Warn => LogLevel::Warn,
        wire::LogLevel::Error => LogLevel::Error,
    };
    let mut fields = line.fields;
    if let Some(target) = line.target {
        fields.insert("target".to_owned(), target.into());
    }
    (level, line.message, fields)
}

/// Writes a log line that belongs to no call.
fn log_generally(library: &str, line: &wire::LogLine) {
    let (message, fields) = (
        &line.message,
        serde_json::Value::Object(line.fields.clone()),
    );
    match line.level {
        wire::LogLevel::Debug => {
            tracing::debug!(target: "gdn::tool", library, %fields, "{message}")
        }
        wire::LogLevel::Info => tracing::info!(target: "gdn::tool", library, %fields, "{message}"),
        wire::LogLevel::Warn => tracing::warn!(target: "gdn::tool", library, %fields, "{message}"),
        wire::LogLevel::Error => {
            tracing::error!(target: "gdn::tool", library, %fields, "{message}")
        }
    }
}
