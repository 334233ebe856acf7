//! The lines that both sides exchange. Each is a JSON object with a `kind`.

use std::collections::BTreeMap;

use goondan_core::JsonObject;
use goondan_core::layering::{Begin, Kept};
use goondan_core::message::Message;
use goondan_core::ports::extension::Changes;
use goondan_core::ports::tool::{Attachment, LogLevel, ToolError};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length in bytes of a line from the process: a result of 16 MiB with its envelope.
pub(crate) const MAX_LINE: usize = 17 << 20;

/// A message to the process. Extension messages are separate ([`Begun`]).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Down<'a> {
    /// Runs a handler.
    Call(Call<'a>),
    /// Cancels a call.
    Cancel { id: u64 },
    /// Removes an extension's registration.
    Forget { session: u64 },
    /// Reports an event in the instance of an extension.
    Event { session: u64, event: &'a Value },
    /// Runs a connector.
    Connect(Connect<'a>),
    /// Answers a handler's request.
    Answer(Answer),
    /// Requests a pong.
    Ping,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    pub(crate) export: &'a str,
    /// The session of the extension that offers the handler, instead of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    pub(crate) input: &'a JsonObject,
    pub(crate) config: &'a JsonObject,
    pub(crate) context: Context<'a>,
}

/// A message to an extension, with the location of its code.
#[derive(Serialize)]
pub(crate) struct Begun<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    #[serde(flatten)]
    pub(crate) what: &'a Begin<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connect<'a> {
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
pub(crate) struct Context<'a> {
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
pub(crate) struct Answer {
    pub(crate) ask: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
}

/// A message from the process.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Up {
    /// The process is ready.
    Hello { runtime: String, version: String },
    /// A handler has returned.
    Done {
        id: u64,
        output: Value,
        #[serde(default)]
        more: More,
    },
    /// A handler has failed or does not exist, or its result is invalid.
    Fail {
        id: u64,
        error: Failure,
        #[serde(default)]
        fault: Option<Fault>,
        #[serde(default)]
        state: Option<Kept>,
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
pub(crate) enum Fault {
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

impl Fault {
    pub(crate) fn code(self) -> Code {
        match self {
            Fault::Module => Code::HOST_MODULE,
            Fault::Result => Code::HOST_RESULT,
            Fault::Load => Code::EXT_LOAD,
            Fault::Init => Code::EXT_INIT,
            Fault::Next => Code::EXT_NEXT,
        }
    }
}

/// Data that accompanies a result.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct More {
    /// Changes by a layer since `next`.
    #[serde(default)]
    pub(crate) changes: Changes,
    /// The new state of the extension.
    #[serde(default)]
    pub(crate) state: Option<Kept>,
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
pub(crate) struct Failure {
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

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        let Failure {
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

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        let ToolError {
            name,
            message,
            code,
            suggestion,
            help_url,
        } = error;
        Failure {
            name,
            message,
            code,
            suggestion,
            help_url,
        }
    }
}
