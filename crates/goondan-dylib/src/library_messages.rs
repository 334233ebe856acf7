//! The messages between a call and its library, in this process or in a host process.

use goondan_abi::raw::Status;
use goondan_abi::wire;
use goondan_core::plugin_session::RunningMessage;
use goondan_core::ports::tool::{HandlerError, ToolOutput};
use goondan_spec::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a call.
pub(crate) type Outcome = Result<ToolOutput, HandlerError>;

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
        outcome: Result<Value, HandlerError>,
    },
    /// Closes the library. It is the last message.
    Close,
}

impl LibraryCommand {
    /// Replaces a message larger than `limit` bytes. A call is answered with an error through
    /// `callbacks`, and nothing is sent.
    pub(crate) fn or_refusal(
        self,
        limit: u64,
        callbacks: &dyn LibraryCallbacks,
    ) -> Option<LibraryCommand> {
        let error = HandlerError::new(format!("a library accepts at most {limit} bytes"))
            .code(Code::TOOL_FAILED)
            .suggest("Pass less data, or pass a file.");
        match self {
            LibraryCommand::Start { call, .. } | LibraryCommand::Extend { call, .. } => {
                callbacks.complete(call, Err(error));
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

/// Receives the messages of a library, on any thread. Implementations must not block or call into
/// the library.
pub(crate) trait LibraryCallbacks: Send + Sync {
    /// Answers a call. Only the first answer counts.
    fn complete(&self, call: u64, outcome: Outcome) -> Status;
    /// Forwards a message of a call; [`goondan_abi::raw::NO_CALL`] for log lines without a call.
    fn event(&self, call: u64, event: RunningMessage) -> Status;
    /// Returns true if a call is cancelled.
    fn is_cancelled(&self, call: u64) -> bool;
    /// Returns true if a call is still open and must be started. A call that is no longer open is
    /// removed, and never starts.
    fn must_start(&self, call: u64) -> bool;
    /// Ends all open calls with `why`, because the library sends no further answers.
    fn close(&self, why: &HandlerError);
}
