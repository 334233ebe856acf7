//! Content blocks of Converse requests.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goondan_core::message::{Message, MessagePart, ProviderMetadata, ToolResultPart};
use goondan_core::ports::tool::Attachment;
use goondan_spec::sent_schema::ProviderWireFormat;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::stream::{BLOCK, PUBLISHER, REDACTED, SIGNATURE};
use crate::formats::attachments::{AttachmentForm, attachment_form, file_name};
use crate::formats::call_ids::{plain_id, plain_name};
use crate::formats::results::{object_arguments, result_text};

/// Text of a result without output: no text may be empty.
const EMPTY_RESULT: &str = "[no output]";

/// Characters of the digest that distinguishes documents with equal names.
const DIGEST_LENGTH: usize = 8;

/// Maximum number of characters of a file name in the name of a document.
const MAX_NAME_LENGTH: usize = 100;

/// Owner of the opaque data that requests may contain. Publishers do not understand the data of
/// others.
#[derive(Clone, Copy)]
pub(super) struct ConverseOpaqueOwner<'a> {
    pub(super) family: &'a str,
    pub(super) publisher: &'a str,
}

pub(super) fn user_blocks(message: &Message) -> Vec<Value> {
    let texts = |part: &MessagePart| part.as_text().and_then(text_block);
    let parts = message.data.content.iter().enumerate();
    parts
        .flat_map(|(at, part)| match part {
            MessagePart::File(file) => encode_file(file, message, at),
            part => texts(part).into_iter().collect(),
        })
        .collect()
}

/// Returns the blocks of the attachments of a message.
pub(super) fn file_blocks(message: &Message) -> Vec<Value> {
    let parts = message.data.content.iter().enumerate();
    let files = parts.filter_map(|(at, part)| match part {
        MessagePart::File(file) => Some(encode_file(file, message, at)),
        _ => None,
    });
    files.flatten().collect()
}

/// Returns the blocks of an assistant message, in the order in which they came.
pub(super) fn assistant_blocks(message: &Message, owner: ConverseOpaqueOwner<'_>) -> Vec<Value> {
    let block = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } => text_block(text),
        MessagePart::Reasoning {
            text,
            provider_metadata,
        } => owner.reasoning_block(text, provider_metadata),
        MessagePart::Opaque { provider_metadata } => {
            owner.own_metadata(provider_metadata)?.get(BLOCK).cloned()
        }
        MessagePart::ToolCall(call) => Some(json!({
            "toolUse": {
                "toolUseId": plain_id(&call.tool_call_id),
                "name": plain_name(&call.tool_name),
                "input": object_arguments(&call.input),
            },
        })),
        MessagePart::ToolResult(_) | MessagePart::File(_) => None,
    };
    let mut blocks: Vec<Value> = message.data.content.iter().filter_map(block).collect();
    // No message may end with reasoning.
    while blocks.last().is_some_and(is_reasoning) {
        blocks.pop();
    }
    blocks
}

/// Returns true if `block` is reasoning, readable or not.
pub(super) fn is_reasoning(block: &Value) -> bool {
    block.get("reasoningContent").is_some()
}

pub(super) fn result_block(result: &ToolResultPart, has_status: bool) -> Value {
    let text = result_text(result);
    let text = if text.trim().is_empty() {
        EMPTY_RESULT
    } else {
        &text
    };
    let mut sent = json!({
        "toolUseId": plain_id(&result.tool_call_id),
        "content": [{"text": text}],
    });
    if has_status && result.error.is_some() {
        sent["status"] = "error".into();
    }
    json!({"toolResult": sent})
}

/// Returns the blocks of an attachment. A message with a document needs a text, and no cache point
/// may follow a document, so the file's name follows it.
fn encode_file(file: &Attachment, message: &Message, at: usize) -> Vec<Value> {
    if let AttachmentForm::Text(text) = attachment_form(ProviderWireFormat::Converse, file) {
        return text_block(&text).into_iter().collect();
    }
    let source = json!({"bytes": file.data});
    match file.media_type.strip_prefix("image/") {
        Some(format) => vec![json!({"image": {"format": format, "source": source}})],
        None => {
            let name = document_name(file, &message.id, at);
            let document = json!({"format": "pdf", "name": name, "source": source});
            let label = json!({"text": format!("[{}]", file_name(file))});
            vec![json!({"document": document}), label]
        }
    }
}

/// Returns a name in the characters that Bedrock accepts. No two documents of a request may have
/// the same name, so it ends with a digest of the attachment's place in the conversation.
fn document_name(file: &Attachment, message_id: &str, at: usize) -> String {
    let name = file_name(file);
    let stem = name
        .rsplit_once('.')
        .map_or(name.as_str(), |(stem, _)| stem);
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | ')');
    let words: String = stem
        .chars()
        .map(|c| if is_accepted(c) { c } else { '-' })
        .take(MAX_NAME_LENGTH)
        .collect();
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{message_id} {at}")));
    let digest: String = digest
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(DIGEST_LENGTH)
        .collect();
    format!("{words}-{digest}")
}

/// Bedrock refuses texts without content.
fn text_block(text: &str) -> Option<Value> {
    let is_blank = text.trim().is_empty();
    (!is_blank).then(|| json!({"text": text}))
}

impl ConverseOpaqueOwner<'_> {
    /// Returns the opaque data that the publisher of this model wrote.
    fn own_metadata(self, metadata: &ProviderMetadata) -> Option<&Value> {
        let own_fields = metadata.get(self.family)?;
        (own_fields[PUBLISHER] == self.publisher).then_some(own_fields)
    }

    /// Returns signed or encrypted reasoning. Models refuse any other.
    fn reasoning_block(self, text: &str, metadata: &ProviderMetadata) -> Option<Value> {
        let own_fields = self.own_metadata(metadata)?;
        let content = match (own_fields.get(REDACTED), own_fields.get(SIGNATURE)) {
            (Some(redacted), _) => json!({"redactedContent": redacted}),
            (None, Some(signature)) => {
                json!({"reasoningText": {"text": text, "signature": signature}})
            }
            (None, None) => return None,
        };
        Some(json!({"reasoningContent": content}))
    }
}
