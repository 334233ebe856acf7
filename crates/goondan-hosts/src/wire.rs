//! The lines that both sides exchange. Each is a JSON object with a `kind`.

use goondan_core::JsonObject;
use goondan_core::plugin_session::wire::{CallRequest, KeptState, LayerChanges, LogLine, Progress};
use goondan_core::plugin_session::{ExtensionMessage, PluginStart};
use goondan_core::ports::tool::{Attachment, HandlerError};
use goondan_spec::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length in bytes of a line from the process: a result of 16 MiB with its envelope.
pub(crate) const MAX_LINE_BYTES: usize = 17 << 20;

/// A message to the process, besides messages to extensions.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum ShimCommand {
    /// Cancels a call.
    Cancel { id: u64 },
    /// Answers a handler's request.
    Answer(OperationAnswer),
    /// Requests a pong.
    Ping,
}

/// The first message of a call: the message of the wire format with the location of its code.
#[derive(Serialize)]
pub(crate) struct ShimStart<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    #[serde(flatten)]
    pub(crate) message: ShimMessageBody<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ShimMessageBody<'a> {
    /// A call of a tool. The tools of extensions have the same kind, and a session.
    Tool {
        kind: &'static str,
        #[serde(flatten)]
        request: &'a CallRequest,
    },
    Extension(&'a ExtensionMessage),
}

impl<'a> From<&'a PluginStart> for ShimMessageBody<'a> {
    fn from(start: &'a PluginStart) -> Self {
        match start {
            PluginStart::Tool(request) => ShimMessageBody::Tool {
                kind: "call",
                request,
            },
            PluginStart::Extension(message) => ShimMessageBody::Extension(message),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct OperationAnswer {
    ask: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<HandlerError>,
}

impl OperationAnswer {
    pub(crate) fn new(ask: u64, outcome: Result<Value, HandlerError>) -> Self {
        let (value, error) = match outcome {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        OperationAnswer { ask, value, error }
    }
}

/// A message from the process.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum ShimMessage {
    /// The process is ready.
    Hello { runtime: String, version: String },
    /// A handler has returned.
    Done {
        id: u64,
        output: Value,
        #[serde(default)]
        more: ResultExtras,
    },
    /// A handler has failed or does not exist, or its result is invalid.
    Fail {
        id: u64,
        error: HandlerError,
        #[serde(default)]
        fault: Option<ScriptFault>,
        #[serde(default)]
        state: Option<KeptState>,
        #[serde(default)]
        listens: Option<Vec<String>>,
        /// True if memory ran out, so that the next call may fail as well.
        #[serde(default)]
        spent: bool,
    },
    /// A handler or the process has logged a line.
    Log {
        #[serde(default)]
        id: Option<u64>,
        #[serde(flatten)]
        line: LogLine,
    },
    /// A handler reports its progress.
    Progress {
        id: u64,
        #[serde(flatten)]
        progress: Progress,
    },
    /// A handler requests a runtime operation.
    Ask {
        id: u64,
        ask: u64,
        name: String,
        #[serde(default)]
        payload: Value,
    },
    /// The answer to a ping.
    Pong,
    /// The process is about to end for this reason.
    Fatal { message: String },
}

/// The cause of an error outside of the handler.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ScriptFault {
    /// The module cannot be loaded, or lacks the handler.
    Module,
    /// The result cannot be encoded.
    Result,
    /// The module of an extension does not register.
    Load,
    /// The registration has failed.
    Init,
    /// A layer has called `next` twice.
    Next,
}

impl ScriptFault {
    /// Returns the error code of the fault.
    pub(crate) fn code(self) -> Code {
        match self {
            ScriptFault::Module => Code::HOST_MODULE,
            ScriptFault::Result => Code::HOST_RESULT,
            ScriptFault::Load => Code::EXT_LOAD,
            ScriptFault::Init => Code::EXT_INIT,
            ScriptFault::Next => Code::EXT_NEXT,
        }
    }
}

/// Data that accompanies a result.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ResultExtras {
    /// Changes by a layer since `next`.
    #[serde(default)]
    pub(crate) changes: LayerChanges,
    /// The new state of the extension.
    #[serde(default)]
    pub(crate) state: Option<KeptState>,
    /// The events that the extension now listens to.
    #[serde(default)]
    pub(crate) listens: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) metadata: JsonObject,
    #[serde(default)]
    pub(crate) attachments: Vec<Attachment>,
}
