//! Messages of a conversation, in their stored form.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::ports::tool::{Attachment, ToolCallError, ToolCallStatus};
use crate::redact::SecretRedactor;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Id, unique in the conversation; the target of replace and remove.
    pub id: String,
    /// Role and content.
    pub data: MessageData,
    /// Data of extensions.
    #[serde(default)]
    pub metadata: JsonObject,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Origin of the message.
    pub source: MessageSource,
}

/// Role and content of a message.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub struct MessageData {
    /// Author of the message.
    pub role: MessageRole,
    /// Content, in order.
    pub content: Vec<MessagePart>,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// A summary or an instruction inside the conversation.
    System,
    /// The requester: a person, another agent, or the runtime.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// Opaque JSON by provider family, such as `anthropic` or `openrouter`.
///
/// Stored with the conversation and returned unchanged to the same family. Other families never
/// receive it.
pub type ProviderMetadata = JsonObject;

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum MessagePart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Opaque data that the provider expects back with this text.
        #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
        provider_metadata: ProviderMetadata,
    },
    /// Reasoning that the model wrote before its answer. Never part of the answer's text.
    Reasoning {
        /// The readable reasoning; empty when the provider returns only encrypted reasoning.
        text: String,
        /// Signatures or encrypted reasoning that the provider expects back.
        #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
        provider_metadata: ProviderMetadata,
    },
    /// Content of a type that only its provider understands, such as the blocks of server-side
    /// tools.
    Opaque {
        /// The content in the provider's form.
        provider_metadata: ProviderMetadata,
    },
    /// A tool call of the model.
    ToolCall(ToolCall),
    /// Result of a tool call.
    ToolResult(ToolResultPart),
    /// Content that is not text.
    File(Attachment),
}

/// A tool call in the model's form.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Id, unique in the step; the result refers to it.
    pub tool_call_id: String,
    /// Tool name in the form `resource__export`.
    pub tool_name: String,
    /// The arguments. Usually an object; otherwise the JSON value that the model sent, or its
    /// invalid JSON as a string.
    pub input: Value,
    /// Opaque data that the provider expects back with this call, such as a thought signature.
    #[serde(skip_serializing_if = "ProviderMetadata::is_empty", default)]
    pub provider_metadata: ProviderMetadata,
}

/// Result of a tool call, in the form for the model.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultPart {
    /// Id of the tool call.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// Outcome of the call.
    pub status: ToolCallStatus,
    /// Output of the handler, after limits are applied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Cause of the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ToolCallError>,
    /// The result can contain untrusted content (`policy.untrusted`).
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub untrusted: bool,
}

/// Origin of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum MessageSource {
    /// An event from outside or from another agent.
    User,
    /// An answer of a model.
    Assistant {
        /// Step of the model call.
        step_id: String,
    },
    /// Results of the tool calls of one step.
    Tool {
        /// Step of the tool calls.
        step_id: String,
    },
    /// The runtime.
    System,
    /// A middleware.
    Extension {
        /// Name of the Extension.
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
    /// Adds a message at the end.
    Append {
        /// The new message.
        message: Message,
    },
    /// Replaces a message.
    Replace {
        /// Id of the old message.
        target_id: String,
        /// The new message.
        message: Message,
    },
    /// Removes a message.
    Remove {
        /// Id of the message.
        target_id: String,
    },
    /// Removes all messages.
    Truncate,
}

impl MessagePart {
    /// Returns a text part without provider metadata.
    pub fn text(text: impl Into<String>) -> Self {
        MessagePart::Text {
            text: text.into(),
            provider_metadata: ProviderMetadata::new(),
        }
    }

    /// Returns a reasoning part without provider metadata.
    pub fn reasoning(text: impl Into<String>) -> Self {
        MessagePart::Reasoning {
            text: text.into(),
            provider_metadata: ProviderMetadata::new(),
        }
    }

    /// Returns the text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            MessagePart::Text { text, .. } => Some(text),
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

impl MessagePart {
    /// Masks the secrets that are known to `redactor`, in text and reasoning.
    ///
    /// Opaque data with a secret is removed, and all opaque data of masked reasoning: a provider signs
    /// its reasoning, and refuses the signature of a changed text. Arguments of tool calls stay as they
    /// are: tools need them.
    pub fn mask(&mut self, redactor: &SecretRedactor) {
        let (is_changed, provider_metadata) = match self {
            MessagePart::Text {
                text,
                provider_metadata,
            } => {
                redactor.clean(text);
                (false, provider_metadata)
            }
            MessagePart::Reasoning {
                text,
                provider_metadata,
            } => {
                let is_changed = matches!(redactor.text(text), Cow::Owned(_));
                redactor.clean(text);
                (is_changed, provider_metadata)
            }
            MessagePart::Opaque { provider_metadata } => (false, provider_metadata),
            _ => return,
        };
        let mut clean = provider_metadata.clone();
        redactor.clean_object(&mut clean);
        if is_changed || clean != *provider_metadata {
            provider_metadata.clear();
        }
    }
}

impl Message {
    /// Returns the message for a reader: without opaque provider data, which may repeat a secret.
    pub fn for_reader(self: Arc<Self>) -> Arc<Message> {
        let has_opaque_data = |part: &MessagePart| match part {
            MessagePart::Reasoning {
                provider_metadata, ..
            } => !provider_metadata.is_empty(),
            MessagePart::Opaque { .. } => true,
            _ => false,
        };
        if !self.data.content.iter().any(has_opaque_data) {
            return self;
        }
        let mut message = Arc::unwrap_or_clone(self);
        let content = &mut message.data.content;
        content.retain(|part| !matches!(part, MessagePart::Opaque { .. }));
        for part in content {
            if let MessagePart::Reasoning {
                provider_metadata, ..
            } = part
            {
                provider_metadata.clear();
            }
        }
        Arc::new(message)
    }

    /// Returns the concatenated text parts.
    pub fn text(&self) -> String {
        self.data
            .content
            .iter()
            .filter_map(MessagePart::as_text)
            .collect()
    }

    /// Returns the readable reasoning, with an empty line between its parts.
    pub fn reasoning(&self) -> String {
        let reasoning = self.data.content.iter().filter_map(|part| match part {
            MessagePart::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        reasoning.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.data.content.iter().filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResultPart> {
        self.data.content.iter().filter_map(|part| match part {
            MessagePart::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use goondan_spec::Secret;
    use serde_json::json;

    use super::*;

    const REASONING: &str = "The key is hunter2-hunter2.";

    fn answer(parts: Vec<MessagePart>) -> Message {
        Message {
            id: "m1".into(),
            data: MessageData {
                role: MessageRole::Assistant,
                content: parts,
            },
            metadata: JsonObject::new(),
            created_at: DateTime::UNIX_EPOCH,
            source: MessageSource::System,
        }
    }

    fn masked(mut part: MessagePart) -> MessagePart {
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new("hunter2-hunter2")]);
        part.mask(&redactor);
        part
    }

    fn signed_reasoning(text: &str) -> MessagePart {
        let metadata = json!({"anthropic": {"signature": "c2ln"}});
        MessagePart::Reasoning {
            text: text.to_owned(),
            provider_metadata: metadata.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn secrets_in_reasoning_and_its_metadata_are_not_stored() {
        let plain = signed_reasoning("No key is needed.");
        assert_eq!(masked(plain.clone()), plain);
        let detail = json!({"openrouter": {"details": [{"text": REASONING}]}});
        let detail = detail.as_object().unwrap();
        let parts = [
            signed_reasoning(REASONING),
            MessagePart::Reasoning {
                text: "hm".to_owned(),
                provider_metadata: detail.clone(),
            },
            MessagePart::Opaque {
                provider_metadata: detail.clone(),
            },
        ];
        for part in parts {
            let kept = serde_json::to_string(&masked(part)).unwrap();
            assert!(!kept.contains("hunter2"), "{kept}");
            // The signature is invalid for the masked text.
            assert!(!kept.contains("c2ln"), "{kept}");
        }
    }

    #[test]
    fn readers_receive_no_opaque_data() {
        let opaque = MessagePart::Opaque {
            provider_metadata: JsonObject::new(),
        };
        let message = answer(vec![signed_reasoning("hm"), opaque]);
        let shown = serde_json::to_string(&Arc::new(message).for_reader()).unwrap();
        assert!(!shown.contains("c2ln"), "{shown}");
    }
}
