//! Outcomes of tool calls: results and errors as values.

use goondan_abi::wire::Attachment;
use goondan_spec::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// Error of a handler. Default code: `E_TOOL` (rule T6).
///
/// Handler files and nodes exchange it in this form. Nodes of earlier versions send `help_url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct HandlerError {
    /// Type of the error, such as `NotFound`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Message for the model.
    pub message: String,
    /// Stable code: from the table of gdn, or defined by the tool's author.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Suggested next action.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// Address of further documentation.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "help_url")]
    pub help_url: Option<String>,
}

impl From<goondan_abi::wire::ToolError> for HandlerError {
    fn from(error: goondan_abi::wire::ToolError) -> Self {
        HandlerError {
            name: error.name,
            message: error.message,
            code: error.code,
            suggestion: error.suggestion,
            help_url: error.help_url,
        }
    }
}

impl HandlerError {
    /// Returns an error with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        HandlerError {
            message: message.into(),
            ..HandlerError::default()
        }
    }

    /// Adds a stable code.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds a suggested next action.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCallStatus {
    /// The handler returned a result.
    Ok,
    /// Any other outcome.
    Error,
}

/// Result of a tool call in every case (rule T6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// Id of the call.
    pub tool_call_id: String,
    /// Tool name in the form `resource__export`.
    pub tool_name: String,
    /// Outcome of the call.
    pub status: ToolCallStatus,
    /// Present on `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Present on `error`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ToolCallError>,
    /// Short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Structured data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Content that is not text.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

/// Error part of a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallError {
    /// Type of the error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Message, truncated to the tool's limit.
    pub message: String,
    /// Stable code.
    pub code: String,
    /// Suggested next action.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// Address of further documentation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub help_url: Option<String>,
}

impl ToolCallError {
    /// Returns the stable text form for the model (rule T8).
    pub fn to_model_text(&self) -> String {
        let mut text = format!("ERROR: {}\nCODE: {}", self.message, self.code);
        if let Some(suggestion) = &self.suggestion {
            text.push_str(&format!("\nSUGGESTION: {suggestion}"));
        }
        if let Some(url) = &self.help_url {
            text.push_str(&format!("\nHELP: {url}"));
        }
        text
    }
}
