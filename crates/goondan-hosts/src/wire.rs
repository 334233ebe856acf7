//! The lines that both sides exchange. Each is one JSON object with a `kind`.

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

/// The longest line that is read from a host, in bytes: a result of 16 MiB, with what is around it.
pub(crate) const MAX_LINE: usize = 17 << 20;

/// What a host is told, beside what extensions begin ([`Begun`]).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Down<'a> {
    /// Run a handler.
    Call(Call<'a>),
    /// A call is no longer wanted.
    Cancel { id: u64 },
    /// An extension is no longer wanted at an instance.
    Forget { session: u64 },
    /// Something happened in the instance of an extension.
    Event { session: u64, event: &'a Value },
    /// Run a connector.
    Connect(Connect<'a>),
    /// Answers a question of a handler.
    Answer(Answer),
    /// Say that you are there.
    Ping,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    pub(crate) export: &'a str,
    /// The extension that offers the handler, in place of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    pub(crate) input: &'a JsonObject,
    pub(crate) config: &'a JsonObject,
    pub(crate) context: Context<'a>,
}

/// What an extension begins, and where its code is.
#[derive(Serialize)]
pub(crate) struct Begun<'a> {
    pub(crate) id: u64,
    pub(crate) module: &'a str,
    pub(crate) package: &'a str,
    #[serde(flatten)]
    pub(crate) what: &'a Begin<'a>,
}

/// A connector that is to run.
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

/// What a handler knows about its call.
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

/// The answer to a question.
#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) ask: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
}

/// What a host says.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Up {
    /// It is there.
    Hello { runtime: String, version: String },
    /// A handler has returned.
    Done {
        id: u64,
        output: Value,
        #[serde(default)]
        more: More,
    },
    /// A handler has failed, or there is none, or its result is none.
    Fail {
        id: u64,
        error: Failure,
        #[serde(default)]
        fault: Option<Fault>,
        #[serde(default)]
        state: Option<Kept>,
        #[serde(default)]
        listens: Option<Vec<String>>,
        /// It had no memory left, and may have none for the next call.
        #[serde(default)]
        spent: bool,
    },
    /// A handler, or somebody in the host, has something for the log.
    Log {
        #[serde(default)]
        id: Option<u64>,
        level: LogLevel,
        message: String,
        #[serde(default)]
        fields: JsonObject,
    },
    /// A handler says how far it is.
    Progress {
        id: u64,
        title: String,
        #[serde(default)]
        metadata: JsonObject,
    },
    /// A handler wants something of the runtime.
    Ask {
        id: u64,
        ask: u64,
        name: String,
        #[serde(default)]
        payload: Value,
    },
    /// The answer to a ping.
    Pong,
    /// It is about to end, and says why.
    Fatal { message: String },
}

/// What is at fault, where that is not the handler.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Fault {
    /// The module can't be loaded, or lacks the handler.
    Module,
    /// The result can't be told.
    Result,
    /// The module of an extension does not register.
    Load,
    /// Registering has failed.
    Init,
    /// A layer called `next` twice.
    Next,
}

impl Fault {
    /// The code of such an error.
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

/// What people see of a result, and what came along with it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct More {
    /// What a layer has changed since `next`.
    #[serde(default)]
    pub(crate) changes: Changes,
    /// What the extension keeps from now on.
    #[serde(default)]
    pub(crate) state: Option<Kept>,
    /// The events that the extension listens to from now on.
    #[serde(default)]
    pub(crate) listens: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) metadata: JsonObject,
    #[serde(default)]
    pub(crate) attachments: Vec<Attachment>,
}

/// Why something failed.
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
