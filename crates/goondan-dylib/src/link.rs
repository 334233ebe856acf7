//! What travels between a call and its library, whether that runs here or in a host of its own.

use goondan_abi::raw::Status;
use goondan_abi::wire::{self, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a call or an operation ended.
pub(crate) type Outcome<T> = Result<T, wire::ToolError>;

/// What goes down to a library, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Down {
    /// Begin a call.
    Start {
        /// Never used again for another.
        call: u64,
        /// What to run.
        request: Box<wire::CallRequest>,
    },
    /// Tell an extension something.
    Extend {
        /// Never used again for another; [`goondan_abi::raw::NO_CALL`] where nothing comes of it.
        call: u64,
        /// What it is told.
        message: Value,
    },
    /// End a call soon.
    Cancel {
        /// The call.
        call: u64,
    },
    /// The answer to a request.
    Reply {
        /// The library's number for it.
        operation: u64,
        /// What came of it.
        outcome: Outcome<Value>,
    },
    /// Close the library. Nothing follows.
    Close,
}

impl Down {
    /// What goes down instead where this is larger than `limit` bytes: nothing for a call, which is answered through `up`.
    pub(crate) fn or_refusal(self, limit: u64, up: &dyn Upcalls) -> Option<Down> {
        let error = wire::ToolError::new(format!(
            "more than {limit} bytes cannot be handed to a library"
        ))
        .code(code::FAILED)
        .suggest("Pass less at once, or pass a file.");
        match self {
            Down::Start { call, .. } | Down::Extend { call, .. } => {
                up.complete(call, Err(error));
                None
            }
            Down::Reply { operation, .. } => Some(Down::Reply {
                operation,
                outcome: Err(error),
            }),
            small => Some(small),
        }
    }
}

/// What a library says about a running call, besides its end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Event {
    /// For whoever watches.
    Progress(wire::Progress),
    /// A log line.
    Log(wire::LogLine),
    /// A question to the host.
    Request {
        /// The library's number for it.
        operation: u64,
        /// Such as `runtime.request`.
        name: String,
        /// What the operation takes.
        payload: Value,
    },
}

/// Takes what comes up from a library: from any thread, never blocking, never calling back into it.
pub(crate) trait Upcalls: Send + Sync {
    /// Answers a call, the first time.
    fn complete(&self, call: u64, outcome: Outcome<wire::ToolOutput>) -> Status;
    /// Hands on what a call says; [`goondan_abi::raw::NO_CALL`] for log lines about none.
    fn event(&self, call: u64, event: Event) -> Status;
    /// Whether a call should end.
    fn is_cancelled(&self, call: u64) -> bool;
    /// Whether a call is worth starting; a call that is not is forgotten.
    fn is_wanted(&self, call: u64) -> bool;
    /// The library answers nothing any more: all open calls end with `why`.
    fn close(&self, why: &wire::ToolError);
}
