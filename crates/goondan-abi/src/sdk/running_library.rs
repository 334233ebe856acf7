//! A library that a host has opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cancellation::CancellationSignal;
use super::connector::{ConnectorContext, ErasedConnector as RunConnector};
use super::context::ToolContext;
use super::export::Library;
use super::extension::{ExtensionSessions, MessageResources};
use super::handler::ErasedTool;
use super::host::HostLink;
use super::operations::PendingOperations;
use super::panics;
use super::threads::CallThreads;
use crate::raw::Status;
use crate::wire::{CallRequest, ConnectorStart, ExtensionMessage, ToolError, ToolOutput, code};

/// The target of `this` in the library table.
pub(super) struct RunningLibrary {
    host: HostLink,
    manifest: Vec<u8>,
    tools: HashMap<String, Arc<dyn ErasedTool>>,
    extension: Option<Arc<ExtensionSessions>>,
    connector: Option<RunConnector>,
    operations: Arc<PendingOperations>,
    calls: Arc<CallCancellations>,
    threads: Arc<CallThreads>,
}

/// The running calls with their cancellation signals. `None` after closing.
struct CallCancellations(Mutex<Option<HashMap<u64, Arc<CancellationSignal>>>>);

impl CallCancellations {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, Arc<CancellationSignal>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningLibrary {
    pub(super) fn new(host: HostLink, library: Library) -> Result<Self, serde_json::Error> {
        Ok(RunningLibrary {
            host,
            manifest: serde_json::to_vec(&library.manifest())?,
            extension: library
                .extension()
                .map(|register| Arc::new(ExtensionSessions::new(register))),
            connector: library.connector(),
            tools: library
                .into_tools()
                .map(|(name, run)| (name, Arc::from(run)))
                .collect(),
            operations: Arc::default(),
            calls: Arc::new(CallCancellations(Mutex::new(Some(HashMap::new())))),
            threads: Arc::default(),
        })
    }

    pub(super) fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Begins a call. After `OK`, the call is completed in any case.
    pub(super) fn start(&self, call: u64, request: &[u8]) -> Status {
        let Ok(mut request) = serde_json::from_slice::<CallRequest>(request) else {
            return Status::BAD_ARGUMENT;
        };
        let Some(tool) = self.tools.get(&request.export).cloned() else {
            let error = ToolError::new(format!("this library has no export `{}`", request.export));
            self.host.complete(call, Status::FAILED, &error);
            return Status::OK;
        };
        let Some(cancellation) = self.register_call(call) else {
            return Status::CLOSED;
        };
        let links = (self.host, Arc::clone(&self.operations));
        let ctx = ToolContext::of_call(call, &mut request, cancellation, links);
        let (host, calls) = (self.host, Arc::clone(&self.calls));
        let started = self
            .threads
            .spawn(move || run(host, &calls, call, tool.as_ref(), ctx, request));
        if started.is_err() {
            self.forget(call);
            return Status::BUSY;
        }
        Status::OK
    }

    /// Sends a message to the extension, or runs the connector. After `OK`, the call is completed
    /// in any case.
    pub(super) fn extend(&self, call: u64, message: &[u8]) -> Status {
        let Ok(message) = serde_json::from_slice::<ExtensionMessage>(message) else {
            return Status::BAD_ARGUMENT;
        };
        if let ExtensionMessage::Connect(message) = message {
            return self.connect(call, message);
        }
        let Some(extension) = self.extension.clone() else {
            return Status::UNKNOWN_OPERATION;
        };
        if let ExtensionMessage::Forget { session } = message {
            extension.forget(session);
            return Status::OK;
        }
        if let ExtensionMessage::Event { session, event } = message {
            extension.happened(session, event, &self.threads);
            return Status::OK;
        }
        let Some(cancellation) = self.register_call(call) else {
            return Status::CLOSED;
        };
        let (host, calls) = (self.host, Arc::clone(&self.calls));
        let means = MessageResources {
            call,
            cancellation,
            host,
            operations: Arc::clone(&self.operations),
        };
        let started = self.threads.spawn(move || {
            finish(host, &calls, call, EXTENSION_PANIC, || {
                Ok(ToolOutput {
                    output: serde_json::to_value(extension.run(message, means))?,
                    ..ToolOutput::default()
                })
            });
        });
        if started.is_err() {
            self.forget(call);
            return Status::BUSY;
        }
        Status::OK
    }

    /// Runs the connector on its own thread. After `OK`, the call is completed in any case.
    fn connect(&self, call: u64, connect: ConnectorStart) -> Status {
        let Some(connector) = self.connector.clone() else {
            return Status::UNKNOWN_OPERATION;
        };
        let Some(cancellation) = self.register_call(call) else {
            return Status::CLOSED;
        };
        let (host, calls, threads) = (
            self.host,
            Arc::clone(&self.calls),
            Arc::clone(&self.threads),
        );
        let means = MessageResources {
            call,
            cancellation: Arc::clone(&cancellation),
            host,
            operations: Arc::clone(&self.operations),
        };
        let started = self.threads.spawn(move || {
            finish(host, &calls, call, CONNECTOR_PANIC, || {
                let ran =
                    panics::catch(|| connector.run(ConnectorContext::new(connect, means, threads)));
                // Other work for the connection ends with it.
                cancellation.fire();
                ran.unwrap_or_else(|panic| Err(panic_error(CONNECTOR_PANIC, &panic)))
                    .map(|()| ToolOutput::default())
            });
        });
        if started.is_err() {
            self.forget(call);
            return Status::BUSY;
        }
        Status::OK
    }

    /// Registers a call and returns its cancellation signal; `None` if the library is closed.
    fn register_call(&self, call: u64) -> Option<Arc<CancellationSignal>> {
        let cancellation = Arc::new(CancellationSignal::default());
        self.calls
            .lock()
            .as_mut()?
            .insert(call, Arc::clone(&cancellation));
        Some(cancellation)
    }

    /// Cancels a call, if it is running.
    pub(super) fn cancel(&self, call: u64) {
        let cancellation = self
            .calls
            .lock()
            .as_ref()
            .and_then(|calls| calls.get(&call).cloned());
        if let Some(cancellation) = cancellation {
            cancellation.fire();
        }
    }

    /// Passes the reply of the host to the waiting operation.
    pub(super) fn reply(&self, operation: u64, status: Status, bytes: &[u8]) {
        self.operations.reply(operation, status, bytes);
    }

    /// Cancels all calls, and waits for them.
    pub(super) fn close(&self, grace: Duration) -> Status {
        let calls = self.calls.lock().take().unwrap_or_default();
        calls.values().for_each(|cancellation| cancellation.fire());
        if self.threads.join_all(grace) {
            Status::OK
        } else {
            Status::BUSY
        }
    }

    /// Removes a call that was not started.
    fn forget(&self, call: u64) {
        if let Some(calls) = &mut *self.calls.lock() {
            calls.remove(&call);
        }
    }
}

/// Runs one call on its thread, from its arguments to its completion.
fn run(
    host: HostLink,
    calls: &CallCancellations,
    call: u64,
    tool: &dyn ErasedTool,
    ctx: ToolContext,
    request: CallRequest,
) {
    let CallRequest {
        export, arguments, ..
    } = request;
    finish(host, calls, call, (&export, TOOL_ADVICE), || {
        tool.run(ctx, arguments)
    });
}

/// Suggestion after a panic in a tool.
const TOOL_ADVICE: &str = "This is a bug in the tool. Try other arguments or another tool.";
/// Subject of the message about an extension's panic, and the suggestion.
const EXTENSION_PANIC: (&str, &str) = (
    "it",
    "This is a bug in the extension. The log shows the location.",
);
/// Subject of the message about a connector's panic, and the suggestion.
const CONNECTOR_PANIC: (&str, &str) = (
    "it",
    "This is a bug in the connector. The log shows the location.",
);

/// Returns the error of a panic.
fn panic_error((subject, advice): (&str, &str), panic: &str) -> ToolError {
    ToolError::new(format!("{subject} panicked: {panic}"))
        .code(code::PANIC)
        .suggest(advice)
}

/// Does the work of a call and completes the call. Converts a panic to an error with the subject
/// and the suggestion in `panic_texts`.
fn finish(
    host: HostLink,
    calls: &CallCancellations,
    call: u64,
    panic_texts: (&str, &str),
    work: impl FnOnce() -> Result<ToolOutput, ToolError>,
) {
    let _working = panics::working_for(call);
    let outcome = panics::catch(work);
    if let Some(calls) = &mut *calls.lock() {
        calls.remove(&call);
    }
    let status = match outcome {
        Ok(Ok(output)) => host.complete(call, Status::OK, &output),
        Ok(Err(error)) => host.complete(call, Status::FAILED, &error),
        Err(panic) => host.complete(call, Status::PANIC, &panic_error(panic_texts, &panic)),
    };
    // If the status is not `OK`, the host has answered the call itself.
    let _ = status;
}
