//! Messages of a conversation, in the shape in which they lie on disk.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::ports::tool::{Attachment, ToolCallError, ToolCallStatus};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Unique in its conversation; what replace and remove point at.
    pub id: String,
    /// Who says what.
    pub data: MessageData,
    /// Free for extensions.
    #[serde(default)]
    pub metadata: JsonObject,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// What made it.
    pub source: MessageSource,
}

/// Role and content.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub struct MessageData {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Part>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A summary or an instruction inside the conversation.
    System,
    /// The one who asks: a person, another agent, the runtime.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// Opaque JSON by provider family, such as `anthropic` or `openrouter`.
///
/// It is stored with the conversation and returned unchanged to the same family. Other families never receive it.
pub type ProviderMetadata = JsonObject;

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Opaque data that the provider expects back with this text.
        #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
        provider_metadata: ProviderMetadata,
    },
    /// Reasoning that the model wrote before its answer. It is never part of the answer's text.
    Reasoning {
        /// The readable reasoning; empty when the provider returns only encrypted reasoning.
        text: String,
        /// Signatures or encrypted reasoning that the provider expects back.
        #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
        provider_metadata: ProviderMetadata,
    },
    /// Content of a type that only its provider understands, such as the blocks of server-side tools.
    Opaque {
        /// The content as the provider sent it.
        provider_metadata: ProviderMetadata,
    },
    /// The model wants a tool to run.
    ToolCall(ToolCall),
    /// What came of it.
    ToolResult(ToolResultPart),
    /// Something that is not text.
    File(Attachment),
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Unique in its step; results point at it.
    pub tool_call_id: String,
    /// `resource__export`.
    pub tool_name: String,
    /// The arguments: an object, or whatever the model sent instead (text that is no JSON stays a string).
    pub input: Value,
    /// Opaque data that the provider expects back with this call, such as a thought signature.
    #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
    pub provider_metadata: ProviderMetadata,
}

/// A result as the model gets it back.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultPart {
    /// The call it answers.
    pub tool_call_id: String,
    /// The tool that was called.
    pub tool_name: String,
    /// How it ended.
    pub status: ToolCallStatus,
    /// What the handler returned, limits applied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ToolCallError>,
    /// It may hold what a stranger wrote (`policy.untrusted`).
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub untrusted: bool,
}

/// What made a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum MessageSource {
    /// An event from outside or from another agent.
    User,
    /// A model's answer.
    Assistant {
        /// The step that asked.
        step_id: String,
    },
    /// The results of one step's calls.
    Tool {
        /// The step that called.
        step_id: String,
    },
    /// The runtime.
    System,
    /// A middleware.
    Extension {
        /// Its name.
        extension_name: String,
    },
}

/// A change to a conversation (rule C1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum MessageEvent {
    /// Adds at the end.
    Append {
        /// The new message.
        message: Message,
    },
    /// Puts a message in another's place.
    Replace {
        /// The message that goes.
        target_id: String,
        /// The message that comes.
        message: Message,
    },
    /// Takes a message out.
    Remove {
        /// The message that goes.
        target_id: String,
    },
    /// Takes all messages out.
    Truncate,
}

impl Part {
    /// Returns a text part without provider metadata.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text {
            text: text.into(),
            provider_metadata: ProviderMetadata::new(),
        }
    }

    /// Returns a reasoning part without provider metadata.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Part::Reasoning {
            text: text.into(),
            provider_metadata: ProviderMetadata::new(),
        }
    }

    /// Returns the text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl ToolCall {
    /// Returns a call without provider metadata.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        ToolCall {
            tool_call_id: id.into(),
            tool_name: name.into(),
            input,
            provider_metadata: ProviderMetadata::new(),
        }
    }
}

impl Message {
    /// All text parts, one after another.
    pub fn text(&self) -> String {
        self.data.content.iter().filter_map(Part::as_text).collect()
    }

    /// Returns the readable reasoning, with an empty line between its parts.
    pub fn reasoning(&self) -> String {
        let reasoning = self.data.content.iter().filter_map(|part| match part {
            Part::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        reasoning.collect::<Vec<_>>().join("\n\n")
    }

    /// The calls in it, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.data.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The results in it, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResultPart> {
        self.data.content.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}
