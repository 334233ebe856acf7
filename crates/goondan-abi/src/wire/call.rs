//! One call: what goes down, and what comes up.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, Permission};

/// What `start` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRequest {
    /// The Tool resource's name.
    pub tool: String,
    /// The export to call.
    pub export: String,
    /// Checked against the export's schema, with defaults filled in.
    pub arguments: JsonObject,
    /// `spec.config` of the Tool resource.
    #[serde(default)]
    pub config: JsonObject,
    /// Where the call comes from.
    pub context: CallContext,
}

/// What a handler knows about its call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallContext {
    /// The agent whose model made the call.
    pub agent_name: String,
    /// The conversation.
    pub instance_key: String,
    /// The turn.
    pub turn_id: String,
    /// The causal chain.
    pub trace_id: String,
    /// The model's id of this call.
    pub tool_call_id: String,
    /// Where tools of this conversation work.
    pub workdir: String,
    /// How long the call may take, in milliseconds from its start.
    pub timeout_ms: u64,
    /// What the call may do of what the export needs or makes use of.
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// The assistant message that holds the call.
    #[serde(default)]
    pub message: Value,
}

/// What a successful call brings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// What the model gets.
    #[serde(default)]
    pub output: Value,
    /// A short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Things that are not text, for models that can see them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

/// Binary content beside a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Such as `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: String,
    /// A file name, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

/// Why a call or an operation failed.
///
/// It is not a [`std::error::Error`] itself, so that `?` can turn every such error into it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// The type of error, such as `NotFound`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// What went wrong, for the model.
    pub message: String,
    /// A stable code; without one it gets `E_TOOL`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub help_url: Option<String>,
}

/// Codes that have a meaning of their own.
pub mod code {
    /// A failure without a code of its own.
    pub const FAILED: &str = "E_TOOL";
    /// The handler panicked.
    pub const PANIC: &str = "E_TOOL_PANIC";
    /// The call was cancelled.
    pub const CANCELLED: &str = "E_TOOL_CANCELLED";
    /// It took too long.
    pub const TIMEOUT: &str = "E_TOOL_TIMEOUT";
    /// The library or its host cannot answer.
    pub const UNAVAILABLE: &str = "E_TOOL_UNAVAILABLE";
    /// The arguments are not what the export takes.
    pub const INVALID_ARGS: &str = "E_TOOL_INVALID_ARGS";
    /// A layer of an extension called `next` twice.
    pub const NEXT: &str = "E_EXT_NEXT";
    /// An extension gave something back that makes no sense.
    pub const RESULT: &str = "E_EXT_RESULT";
}

impl ToolError {
    /// An error that only says what went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        ToolError {
            message: message.into(),
            ..ToolError::default()
        }
    }

    /// Adds a stable code, such as `E_NOT_FOUND`.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Adds where to read more.
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

/// What `progress` takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is going on, in a few words.
    #[serde(default)]
    pub title: String,
    /// Data for whoever shows it.
    #[serde(default)]
    pub metadata: JsonObject,
}

/// What `log` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// How loud it is.
    pub level: LogLevel,
    /// What there is to say.
    pub message: String,
    /// The part of the library that says it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// Structured fields.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub fields: JsonObject,
}

/// How loud a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author of the tool.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}
