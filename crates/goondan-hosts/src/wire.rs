//! The lines that both sides exchange. Each is a JSON object with a `kind`.

use std::collections::BTreeMap;

use goondan_core::JsonObject;
use goondan_core::extension_protocol::{RunStart, SavedState};
use goondan_core::message::Message;
use goondan_core::ports::extension::LayerChanges;
use goondan_core::ports::tool::{Attachment, LogLevel, ToolError};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length in bytes of a line from the process: a result of 16 MiB with its envelope.
pub(crate) const MAX_LINE_BYTES: usize = 17 << 20;

/// A message to the process. Extension messages are separate ([`ExtensionRequest`]).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum ShimCommand<'a> {
    /// Runs a handler.
    Call(ScriptCall<'a>),
    /// Cancels a call.
    Cancel { id: u64 },
    /// Removes an extension's registration.
    Forget { session: u64 },
    /// Reports an event in the instance of an extension.
    Event { session: u64, event: &'a Value },
    /// Runs a connector.
    Connect(ConnectorRequest<'a>),
    /// Answers a handler's request.
    Answer(OperationAnswer),
    /// Requests a pong.
    Ping,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScriptCall<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    pub(crate) export: &'a str,
    /// The session of the extension that offers the handler, instead of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    pub(crate) input: &'a JsonObject,
    pub(crate) config: &'a JsonObject,
    pub(crate) context: ScriptCallContext<'a>,
}

/// A message to an extension, with the location of its code.
#[derive(Serialize)]
pub(crate) struct ExtensionRequest<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    #[serde(flatten)]
    pub(crate) what: &'a RunStart<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectorRequest<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    pub(crate) project_dir: &'a str,
    pub(crate) connection: &'a str,
    pub(crate) connector: &'a str,
    pub(crate) config: &'a BTreeMap<String, String>,
    pub(crate) secrets: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScriptCallContext<'a> {
    pub(crate) agent_name: &'a str,
    pub(crate) instance_key: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) trace_id: &'a str,
    pub(crate) tool_call_id: &'a str,
    pub(crate) message: &'a Message,
    pub(crate) workdir: String,
    pub(crate) project_dir: String,
    pub(crate) permissions: Vec<Permission>,
    pub(crate) timeout_ms: u64,
}

#[derive(Serialize)]
pub(crate) struct OperationAnswer {
    pub(crate) ask: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ScriptError>,
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
        error: ScriptError,
        #[serde(default)]
        fault: Option<ScriptFault>,
        #[serde(default)]
        state: Option<SavedState>,
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
        level: LogLevel,
        message: String,
        #[serde(default)]
        fields: JsonObject,
    },
    /// A handler reports its progress.
    Progress {
        id: u64,
        title: String,
        #[serde(default)]
        metadata: JsonObject,
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
    pub(crate) state: Option<SavedState>,
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

/// An error of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScriptError {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    help_url: Option<String>,
}

impl From<ScriptError> for ToolError {
    fn from(failure: ScriptError) -> Self {
        let ScriptError {
            name,
            message,
            code,
            suggestion,
            help_url,
        } = failure;
        ToolError {
            name,
            message,
            code,
            suggestion,
            help_url,
        }
    }
}

impl From<ToolError> for ScriptError {
    fn from(error: ToolError) -> Self {
        let ToolError {
            name,
            message,
            code,
            suggestion,
            help_url,
        } = error;
        ScriptError {
            name,
            message,
            code,
            suggestion,
            help_url,
        }
    }
}
