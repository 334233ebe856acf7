//! The messages between a call and its library, in this process or in a host process.

use goondan_abi::raw::Status;
use goondan_abi::wire::{self, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a call or an operation.
pub(crate) type Outcome<T> = Result<T, wire::ToolError>;

/// A message to a library. Messages are delivered in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LibraryCommand {
    Start {
        /// A unique id that is never reused.
        call: u64,
        request: Box<wire::CallRequest>,
    },
    /// Sends a message to an extension.
    Extend {
        /// A unique id that is never reused, or [`goondan_abi::raw::NO_CALL`] for a message without
        /// an answer.
        call: u64,
        message: Value,
    },
    /// Cancels a call.
    Cancel {
        /// The id of the call.
        call: u64,
    },
    Reply {
        /// The library's id of the request.
        operation: u64,
        outcome: Outcome<Value>,
    },
    /// Closes the library. It is the last message.
    Close,
}

impl LibraryCommand {
    /// Replaces a message larger than `limit` bytes. A call is answered with an error through `up`,
    /// and nothing is sent.
    pub(crate) fn or_refusal(
        self,
        limit: u64,
        up: &dyn LibraryCallbacks,
    ) -> Option<LibraryCommand> {
        let error = wire::ToolError::new(format!("a library accepts at most {limit} bytes"))
            .code(code::FAILED)
            .suggest("Pass less data, or pass a file.");
        match self {
            LibraryCommand::Start { call, .. } | LibraryCommand::Extend { call, .. } => {
                up.complete(call, Err(error));
                None
            }
            LibraryCommand::Reply { operation, .. } => Some(LibraryCommand::Reply {
                operation,
                outcome: Err(error),
            }),
            small => Some(small),
        }
    }
}

/// A message of a running call before its end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LibraryCallEvent {
    Progress(wire::Progress),
    Log(wire::LogLine),
    /// A request to the host.
    Request {
        /// The library's id of the request.
        operation: u64,
        /// Name of the operation, such as `runtime.request`.
        name: String,
        /// Arguments of the operation.
        payload: Value,
    },
}

/// Receives the messages of a library, on any thread. Implementations must not block or call into
/// the library.
pub(crate) trait LibraryCallbacks: Send + Sync {
    /// Answers a call. Only the first answer counts.
    fn complete(&self, call: u64, outcome: Outcome<wire::ToolOutput>) -> Status;
    /// Forwards a message of a call; [`goondan_abi::raw::NO_CALL`] for log lines without a call.
    fn event(&self, call: u64, event: LibraryCallEvent) -> Status;
    /// Returns true if a call is cancelled.
    fn is_cancelled(&self, call: u64) -> bool;
    /// Returns false if a call need not be started any more, and removes it.
    fn is_wanted(&self, call: u64) -> bool;
    /// Ends all open calls with `why`, because the library sends no further answers.
    fn close(&self, why: &wire::ToolError);
}
