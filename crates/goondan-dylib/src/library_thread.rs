//! The thread that makes all calls into a library, from mapping it to closing it.
//!
//! The library therefore receives its calls in order and one at a time. A blocking call delays only
//! its own library. Thread-local destructors that the library registers on this thread run when the
//! thread ends, while the code is still mapped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use goondan_abi::raw::{NO_CALL, Status};
use goondan_abi::spin_wait::spin_until_found;
use goondan_abi::wire;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use serde_json::Value;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::counters::LibraryCounters;
use crate::failure::LibraryFailure;
use crate::library_messages::{LibraryCallbacks, LibraryCommand};
use crate::limits::LibraryLimits;
use crate::native::{HostPort, LoadedLibrary};

/// Number of retired mappings above which a restart is recommended. Each of them is harmless.
const RETIRED_WARNING_COUNT: u64 = 50;

/// Input of the thread that opens and serves a library.
pub(crate) struct LibraryThreadStart {
    /// The private copy to load.
    pub(crate) path: PathBuf,
    /// The library's name, for messages.
    pub(crate) name: String,
    pub(crate) callbacks: Arc<dyn LibraryCallbacks>,
    pub(crate) limits: LibraryLimits,
    pub(crate) counters: Arc<LibraryCounters>,
}

/// Handles of a started library thread.
pub(crate) struct LibraryThread {
    /// Sends messages to the library. The thread ends when all senders are dropped.
    pub(crate) command_sender: mpsc::UnboundedSender<LibraryCommand>,
    /// Resolves after the handshake.
    pub(crate) opened: oneshot::Receiver<Result<LibraryDescription, LibraryFailure>>,
    pub(crate) thread: JoinHandle<()>,
}

pub(crate) struct LibraryDescription {
    pub(crate) manifest: wire::Manifest,
    /// True if the library accepts messages.
    pub(crate) extends: bool,
}

impl LibraryThreadStart {
    /// Starts the thread, which then opens the library.
    pub(crate) fn spawn(self) -> std::io::Result<LibraryThread> {
        let (command_sender, commands) = mpsc::unbounded_channel();
        let (ready, opened) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("lane {}", self.name))
            .spawn(move || self.run(commands, ready))?;
        Ok(LibraryThread {
            command_sender,
            opened,
            thread,
        })
    }

    /// Opens the library, sends its description to `ready`, then executes commands until `Close`.
    fn run(
        self,
        mut commands: mpsc::UnboundedReceiver<LibraryCommand>,
        ready: oneshot::Sender<Result<LibraryDescription, LibraryFailure>>,
    ) {
        let mut thread = OpenLibraryThread {
            start: self,
            is_mapped: false,
        };
        let opened = thread.open();
        let library = match opened {
            Ok((library, manifest)) => match ready.send(Ok(LibraryDescription {
                manifest,
                extends: library.extends(),
            })) {
                Ok(()) => library,
                // The caller's timeout has expired, so close the library again.
                Err(_) => return thread.close(library),
            },
            Err(failure) => {
                let _ = ready.send(Err(failure));
                return;
            }
        };
        while let Some(command) = next(&mut commands) {
            match command {
                LibraryCommand::Start { call, request } => {
                    thread.start_call(&library, call, &request)
                }
                LibraryCommand::Extend { call, message } => thread.extend(&library, call, &message),
                LibraryCommand::Cancel { call } => library.cancel(call),
                LibraryCommand::Reply { operation, outcome } => {
                    thread.reply(&library, operation, outcome)
                }
                LibraryCommand::Close => break,
            }
        }
        thread.close(library);
    }
}

/// Returns the next command; `None` when all senders are dropped.
pub(crate) fn next(
    commands: &mut mpsc::UnboundedReceiver<LibraryCommand>,
) -> Option<LibraryCommand> {
    let soon = spin_until_found(|| match commands.try_recv() {
        Ok(command) => Some(Some(command)),
        Err(TryRecvError::Disconnected) => Some(None),
        Err(TryRecvError::Empty) => None,
    });
    soon.unwrap_or_else(|| commands.blocking_recv())
}

/// The running thread of a library. Dropping it answers all open calls with an error.
struct OpenLibraryThread {
    start: LibraryThreadStart,
    /// True once the library's code is in memory, where it stays after the end of the thread.
    is_mapped: bool,
}

impl OpenLibraryThread {
    /// Maps the library and reads its manifest.
    fn open(&mut self) -> Result<(LoadedLibrary, wire::Manifest), LibraryFailure> {
        let LibraryThreadStart {
            path,
            name,
            callbacks,
            limits,
            counters,
        } = &self.start;
        let mapped = &mut self.is_mapped;
        let host = || HostPort::leak(Arc::clone(callbacks), limits.max_payload);
        let library = LoadedLibrary::open(path, name, host, || {
            *mapped = true;
            counters.mapped.fetch_add(1, Ordering::Relaxed);
        })?;
        let manifest = library.describe(name)?;
        Ok((library, manifest))
    }

    fn start_call(&self, library: &LoadedLibrary, call: u64, request: &wire::CallRequest) {
        self.begin(call, request, |bytes| library.start(call, bytes));
    }

    fn extend(&self, library: &LoadedLibrary, call: u64, message: &Value) {
        self.begin(call, message, |bytes| library.extend(call, bytes));
    }

    /// Passes `payload` to `begin` as JSON, and reports a failure as the result of the call.
    fn begin(
        &self,
        call: u64,
        payload: &impl serde::Serialize,
        begin: impl FnOnce(&[u8]) -> Status,
    ) {
        let LibraryThreadStart {
            name,
            callbacks,
            limits,
            ..
        } = &self.start;
        if call != NO_CALL && !callbacks.must_start(call) {
            return;
        }
        let status = match serde_json::to_vec(payload) {
            Ok(bytes) if bytes.len() as u64 <= limits.max_payload => begin(&bytes),
            Ok(_) => Status::TOO_LARGE,
            Err(_) => Status::BAD_ARGUMENT,
        };
        if status != Status::OK && call != NO_CALL {
            callbacks.complete(call, Err(rejected_call_error(name, status)));
        }
    }

    /// Passes the result of an operation to the library.
    fn reply(&self, library: &LoadedLibrary, operation: u64, outcome: Result<Value, HandlerError>) {
        let (status, bytes) = match outcome {
            Ok(value) => (Status::OK, serde_json::to_vec(&value)),
            Err(error) if error.code.as_deref() == Some(Code::TOOL_CANCELLED.as_str()) => {
                (Status::CANCELLED, serde_json::to_vec(&error))
            }
            Err(error) => (Status::FAILED, serde_json::to_vec(&error)),
        };
        match bytes {
            Ok(bytes) if bytes.len() as u64 <= self.start.limits.max_payload => {
                library.reply(operation, status, &bytes)
            }
            Ok(_) => library.reply(operation, Status::TOO_LARGE, &[]),
            Err(_) => library.reply(operation, Status::INTERNAL, &[]),
        }
    }

    /// Answers all open calls with an error, then closes the library.
    fn close(&self, library: LoadedLibrary) {
        let name = &self.start.name;
        self.start.callbacks.close(&closed_error(name));
        if !library.close(self.start.limits.close_grace) {
            tracing::warn!(library = %name, "threads of the library did not end; its code stays \
                in memory");
        }
    }
}

impl Drop for OpenLibraryThread {
    fn drop(&mut self) {
        self.start.callbacks.close(&closed_error(&self.start.name));
        if !self.is_mapped {
            return;
        }
        let retired = self.start.counters.retired.fetch_add(1, Ordering::Relaxed) + 1;
        if retired > RETIRED_WARNING_COUNT {
            tracing::warn!(
                retired,
                "many libraries were replaced; their code stays in memory until a restart"
            );
        }
    }
}

/// Returns the error of calls whose library was closed.
fn closed_error(name: &str) -> HandlerError {
    HandlerError::new(format!("{name} was closed"))
        .code(Code::TOOL_UNAVAILABLE)
        .suggest("Try again.")
}

/// Returns the error of a call that the library rejected with `status`.
fn rejected_call_error(name: &str, status: Status) -> HandlerError {
    let error = HandlerError::new(format!("{name} rejected the call: {}", status.name()));
    match status {
        Status::PANIC => error.code(Code::TOOL_PANIC),
        Status::TOO_LARGE => error
            .code(Code::TOOL_FAILED)
            .suggest("Pass less data, or pass a file."),
        Status::CLOSED | Status::BUSY => error
            .code(Code::TOOL_UNAVAILABLE)
            .suggest("Try again later."),
        _ => error.code(Code::TOOL_FAILED),
    }
}
