//! A call: its request, its result and its messages.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, Permission};

/// The tool call that the host passes to the library function `start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRequest {
    /// The name of the Tool resource.
    pub tool: String,
    /// The name of the export.
    pub export: String,
    /// The arguments, validated against the export's schema and completed with defaults.
    pub arguments: JsonObject,
    /// `spec.config` of the Tool resource.
    #[serde(default)]
    pub config: JsonObject,
    /// The origin of the call.
    pub context: CallContext,
}

/// The context of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallContext {
    /// The agent whose model made the call.
    pub agent_name: String,
    /// The key of the conversation.
    pub instance_key: String,
    /// The id of the turn.
    pub turn_id: String,
    /// The trace id.
    pub trace_id: String,
    /// The model's id of this call.
    pub tool_call_id: String,
    /// The working directory of this conversation's tools.
    pub workdir: String,
    /// The directory of the project.
    #[serde(default)]
    pub project_dir: String,
    /// Maximum duration in milliseconds, counted from the start of the call.
    pub timeout_ms: u64,
    /// The granted permissions among those that the export requires or uses optionally.
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// The assistant message that contains the call.
    #[serde(default)]
    pub message: Value,
}

/// The result of a successful call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// The value for the model.
    #[serde(default)]
    pub output: Value,
    /// A short summary for users.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Data for users and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Contents other than text, for models that accept them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

impl From<Value> for ToolOutput {
    fn from(output: Value) -> Self {
        ToolOutput {
            output,
            ..ToolOutput::default()
        }
    }
}

/// Binary content that accompanies a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Contents in Base64.
    pub data: String,
    /// File name, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

/// The error of a call or an operation.
///
/// It does not implement [`std::error::Error`], so that `?` can convert every such error to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// The type of error, such as `NotFound`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The message for the model.
    pub message: String,
    /// A stable code. Default: `E_TOOL`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// A URL with more information.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub help_url: Option<String>,
}

/// Error codes with a fixed meaning.
pub mod code {
    /// A failure without a specific code.
    pub const FAILED: &str = "E_TOOL";
    /// The handler panicked.
    pub const PANIC: &str = "E_TOOL_PANIC";
    /// The call was cancelled.
    pub const CANCELLED: &str = "E_TOOL_CANCELLED";
    /// The call timed out.
    pub const TIMEOUT: &str = "E_TOOL_TIMEOUT";
    /// The library or its host process cannot answer.
    pub const UNAVAILABLE: &str = "E_TOOL_UNAVAILABLE";
    /// The arguments do not match the export's schema.
    pub const INVALID_ARGS: &str = "E_TOOL_INVALID_ARGS";
    /// A layer of an extension called `next` twice.
    pub const NEXT: &str = "E_EXT_NEXT";
    /// An extension returned an invalid value.
    pub const RESULT: &str = "E_EXT_RESULT";
}

impl ToolError {
    /// Creates an error with only a message.
    pub fn new(message: impl Into<String>) -> Self {
        ToolError {
            message: message.into(),
            ..ToolError::default()
        }
    }

    /// Sets a stable code, such as `E_NOT_FOUND`.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the suggested next step.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Sets a URL with more information.
    #[must_use]
    pub fn help(mut self, url: impl Into<String>) -> Self {
        self.help_url = Some(url.into());
        self
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        ToolError::new(error.to_string())
    }
}

/// The argument of `progress`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// A short description of the current activity.
    #[serde(default)]
    pub title: String,
    /// Data for observers.
    #[serde(default)]
    pub metadata: JsonObject,
}

/// The argument of `log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// The severity.
    pub level: LogLevel,
    /// The message.
    pub message: String,
    /// The part of the library that logs the line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// Structured fields.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub fields: JsonObject,
}

/// The severity of a log line, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author of the tool.
    Debug,
    /// Informational.
    Info,
    /// A warning.
    Warn,
    /// An error.
    Error,
}
