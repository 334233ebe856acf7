//! Calls of code in other languages: in a library of this process, in the host process of a library,
//! or in a process of its runtime.
//!
//! All three exchange the messages of `goondan_abi::wire`. A [`PluginTransport`] delivers them to the
//! code. Messages from the code arrive in a table ([`OpenCalls`]), which answers each call exactly
//! once. A caller begins a call ([`PluginCall::begin`]) and receives its messages until the answer.
//! [`run_tool_call`] does so for tools, `extension_protocol` for extensions, and `connector_host` for
//! connectors.

mod open_calls;
mod plugin_call;
mod progress_gate;
mod restart_delay;
mod tool_call;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use goondan_abi::wire;
use goondan_abi::wire::{CallContext, CallRequest, JsonObject, KeptState, LogLine, Progress};
use goondan_spec::kinds::Permission;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

pub use self::open_calls::{CallRules, DeliveryStatus, OpenCalls};
pub use self::plugin_call::{CallUpdate, PluginCall, closed_error};
pub use self::restart_delay::{RestartDelay, pause_after};
pub use self::tool_call::{never_ended_error, run_tool_call};
use crate::message::{Message, MessageEvent};
use crate::ports::extension::LayerChanges;
use crate::ports::tool::{HandlerError, LogLevel, ToolContext, ToolOutput};

/// Message to an extension or a connector.
pub type ExtensionMessage = wire::ExtensionMessage<Arc<Message>, Arc<MessageEvent>>;

/// First message of a call.
pub enum PluginStart {
    /// Runs a tool.
    Tool(Box<CallRequest>),
    /// Runs an extension or a connector.
    Extension(Box<ExtensionMessage>),
}

impl From<CallRequest> for PluginStart {
    fn from(request: CallRequest) -> Self {
        PluginStart::Tool(Box::new(request))
    }
}

impl From<ExtensionMessage> for PluginStart {
    fn from(message: ExtensionMessage) -> Self {
        PluginStart::Extension(Box::new(message))
    }
}

/// Work that a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A tool, or a connector.
    Plain,
    /// The registration of an extension.
    Registration,
    /// A layer of an extension.
    Layer,
    /// A tool of an extension.
    ExtensionTool,
}

impl PluginStart {
    /// Returns the kind of the call.
    fn kind(&self) -> CallKind {
        match self {
            PluginStart::Tool(_) => CallKind::Plain,
            PluginStart::Extension(message) => match **message {
                wire::ExtensionMessage::Register(_) => CallKind::Registration,
                wire::ExtensionMessage::Layer(_) => CallKind::Layer,
                wire::ExtensionMessage::Call(_) => CallKind::ExtensionTool,
                _ => CallKind::Plain,
            },
        }
    }
}

/// Way to send messages to the code of a plugin. No method blocks.
pub trait PluginTransport: Send + Sync {
    /// Returns the open calls of the code.
    fn calls(&self) -> &OpenCalls;

    /// Sends the first message of the call with this id.
    ///
    /// # Errors
    /// The code accepts no messages, or the message can't be encoded.
    fn start(&self, call: u64, start: PluginStart) -> Result<(), HandlerError>;

    /// Sends a message without an answer. Events are dropped if too many are queued.
    fn notify(&self, message: ExtensionMessage);

    /// Asks the code to end a call. Returns the ping that was sent with the request.
    fn cancel(&self, call: u64) -> LivenessPing;

    /// Answers a request of the code.
    fn answer(&self, request: u64, outcome: Result<Value, HandlerError>);

    /// Handles a call that did not end before its caller stopped waiting. The call was cancelled
    /// with `ping`.
    fn abandoned(&self, _ping: LivenessPing) {}

    /// Reads the answer of a call.
    fn read_end(&self, _kind: CallKind, ended: FinalMessage) -> FinalMessage {
        ended
    }
}

/// Ping that a process must answer to show that it does not hang.
#[derive(Debug, Clone, Copy)]
pub struct LivenessPing {
    /// Number of the ping in its process; 0 if the transport has no pings.
    pub number: u64,
    /// Time at which it was sent.
    pub at: Instant,
}

/// Message of a call before its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunningMessage {
    /// A log line.
    Log(LogLine),
    /// Progress.
    Progress(Progress),
    /// A request to the engine.
    Request {
        /// Number of the request; the answer refers to it.
        operation: u64,
        /// Name of the operation, such as `runtime.request`.
        name: String,
        /// Data of the operation.
        payload: Value,
    },
}

/// Last message of a call.
#[derive(Debug)]
pub struct FinalMessage {
    /// Output, or the error.
    pub outcome: Result<ToolOutput, HandlerError>,
    /// Changes of a layer at its end.
    pub changes: LayerChanges,
    /// New state of the extension, if it changed.
    pub state: Option<KeptState>,
    /// New list of subscribed event types, if it changed.
    pub listens: Option<Vec<String>>,
}

impl From<Result<ToolOutput, HandlerError>> for FinalMessage {
    fn from(outcome: Result<ToolOutput, HandlerError>) -> Self {
        FinalMessage {
            outcome,
            changes: LayerChanges::default(),
            state: None,
            listens: None,
        }
    }
}

/// Returns the arguments of a logger for `line`.
pub fn log_arguments(line: LogLine) -> (LogLevel, String, JsonObject) {
    let mut fields = line.fields;
    if let Some(target) = line.target {
        fields.insert("target".to_owned(), target.into());
    }
    (line.level, line.message, fields)
}

/// Returns the name of an operation without its prefix, for messages.
pub fn short_name(operation: &str) -> &str {
    operation.rsplit('.').next().unwrap_or(operation)
}

/// Returns the context of a call in the form for the code. `timeout` is passed to the code; the
/// engine enforces it.
pub fn call_context(ctx: &ToolContext, project: &Path, timeout: Duration) -> CallContext {
    CallContext {
        agent_name: ctx.agent_name.clone(),
        instance_key: ctx.instance_key.clone(),
        turn_id: ctx.turn_id.clone(),
        trace_id: ctx.trace_id.clone(),
        tool_call_id: ctx.tool_call_id.clone(),
        workdir: ctx.workdir.to_string_lossy().into_owned(),
        project_dir: project.to_string_lossy().into_owned(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        permissions: ctx.granted.iter().copied().map(permission).collect(),
        message: serde_json::to_value(&*ctx.message).unwrap_or_default(),
    }
}

fn permission(permission: Permission) -> wire::Permission {
    match permission {
        Permission::Read => wire::Permission::Read,
        Permission::Write => wire::Permission::Write,
        Permission::Execute => wire::Permission::Execute,
        Permission::Network => wire::Permission::Network,
    }
}
