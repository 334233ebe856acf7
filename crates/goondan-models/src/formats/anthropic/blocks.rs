//! Content blocks of Anthropic requests.

use goondan_core::message::{Message, MessagePart, ProviderMetadata, ToolCall, ToolResultPart};
use goondan_core::ports::tool::Attachment;
use goondan_spec::sent_schema::ProviderWireFormat;
use serde_json::{Value, json};

use super::stream::{REDACTED, SIGNATURE};
use crate::formats::attachments::{AttachmentForm, attachment_form};
use crate::formats::call_ids::{plain_id, plain_name};
use crate::formats::results::{object_arguments, result_text};

/// Owner of the opaque data that requests may contain.
#[derive(Clone, Copy)]
pub(super) struct AnthropicOpaqueOwner<'a> {
    pub(super) family: &'a str,
    /// Thinking without a signature is also returned. Claude models refuse it; some others write no
    /// signatures.
    pub(super) accepts_unsigned: bool,
}

pub(super) fn user_blocks(message: &Message) -> Vec<Value> {
    let block = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } => text_block(text),
        part => file_block(part),
    };
    message.data.content.iter().filter_map(block).collect()
}

/// Returns the blocks of an assistant message, in the order in which they came.
pub(super) fn assistant_blocks(message: &Message, owner: AnthropicOpaqueOwner<'_>) -> Vec<Value> {
    let block = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } => text_block(text),
        MessagePart::Reasoning {
            text,
            provider_metadata,
        } => owner.thinking_block(text, provider_metadata),
        MessagePart::Opaque { provider_metadata } => provider_metadata.get(owner.family).cloned(),
        MessagePart::ToolCall(call) => Some(owner.tool_use_block(call)),
        MessagePart::ToolResult(_) | MessagePart::File(_) => None,
    };
    let mut blocks: Vec<Value> = message.data.content.iter().filter_map(block).collect();
    // No message may end with thinking.
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

/// Returns true if `block` is thinking, readable or not.
pub(super) fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

pub(super) fn result_block(result: &ToolResultPart) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": plain_id(&result.tool_call_id),
        "content": result_text(result),
    });
    if result.error.is_some() {
        block["is_error"] = true.into();
    }
    block
}

/// Returns the block of an attachment.
pub(super) fn file_block(part: &MessagePart) -> Option<Value> {
    let MessagePart::File(file) = part else {
        return None;
    };
    match attachment_form(ProviderWireFormat::Anthropic, file) {
        AttachmentForm::Text(text) => text_block(&text),
        AttachmentForm::Data => Some(data_block(file)),
    }
}

fn data_block(file: &Attachment) -> Value {
    let source = json!({"type": "base64", "media_type": file.media_type, "data": file.data});
    if file.media_type.starts_with("image/") {
        return json!({"type": "image", "source": source});
    }
    match &file.name {
        Some(name) => json!({"type": "document", "title": name, "source": source}),
        None => json!({"type": "document", "source": source}),
    }
}

/// The API refuses blocks of text without content.
fn text_block(text: &str) -> Option<Value> {
    let is_blank = text.trim().is_empty();
    (!is_blank).then(|| json!({"type": "text", "text": text}))
}

impl AnthropicOpaqueOwner<'_> {
    /// Returns the block of reasoning that came from this provider's family. Returns `None` without
    /// a signature, unless unsigned blocks are accepted.
    fn thinking_block(self, text: &str, metadata: &ProviderMetadata) -> Option<Value> {
        let own_fields = metadata.get(self.family)?;
        if let Some(data) = own_fields.get(REDACTED) {
            return Some(json!({"type": "redacted_thinking", "data": data}));
        }
        match own_fields.get(SIGNATURE)?.as_str()? {
            "" if self.accepts_unsigned => Some(json!({"type": "thinking", "thinking": text})),
            "" => None,
            signature => {
                Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
            }
        }
    }

    /// Returns the block of a tool call, with the fields that the provider added to it.
    fn tool_use_block(self, call: &ToolCall) -> Value {
        let mut block = json!({
            "type": "tool_use",
            "id": plain_id(&call.tool_call_id),
            "name": plain_name(&call.tool_name),
            "input": object_arguments(&call.input),
        });
        let own_fields = call
            .provider_metadata
            .get(self.family)
            .and_then(Value::as_object);
        for (key, value) in own_fields.into_iter().flatten() {
            block[key.as_str()] = value.clone();
        }
        block
    }
}
