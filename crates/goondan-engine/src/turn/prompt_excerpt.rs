//! Prompt excerpts for telemetry and for the log of model calls: the newest messages, without
//! secrets.

use std::sync::Arc;

use goondan_core::content_capture::CapturedContent;
use goondan_core::limits::head;
use goondan_core::message::{MessageData, MessagePart};

use crate::engine::Engine;
use crate::policy::redact::SecretRedactor;
use crate::turn::model_call::{ModelAnswer, ModelCall};

/// Maximum total bytes of the messages in an excerpt; the oldest are left out. Also the maximum
/// characters of the system prompt.
pub(crate) const MAX_EXCERPT_BYTES: usize = 64 * 1024;

/// Returns the content of `call` and its answer, or `None` if no telemetry consumer records
/// content.
pub(crate) fn prompt_excerpt(
    engine: &Engine,
    call: &ModelCall<'_>,
    answer: Option<&ModelAnswer>,
) -> Option<Arc<CapturedContent>> {
    if !engine.tracing.wants_words(&call.trace) {
        return None;
    }
    let redactor = &engine.redactor;
    let messages = &call.request.messages;
    let input = newest_messages(messages.iter().rev().map(|message| &message.data), redactor);
    let mut output = answer
        .map(|answer| answer.parts.clone())
        .unwrap_or_default();
    for part in &mut output {
        redact_part(redactor, part);
    }
    Some(Arc::new(CapturedContent {
        system: call
            .request
            .system
            .as_ref()
            .map(|text| head(&redactor.text(text), MAX_EXCERPT_BYTES).to_owned()),
        left_out: messages.len() - input.len(),
        input,
        output,
    }))
}

/// Returns the newest messages that fit the limit, oldest first.
pub(crate) fn newest_messages<'m>(
    newest_first: impl Iterator<Item = &'m MessageData>,
    redactor: &SecretRedactor,
) -> Vec<MessageData> {
    let mut room = MAX_EXCERPT_BYTES;
    let mut messages: Vec<MessageData> = newest_first
        .map(|message| {
            let mut content: Vec<MessagePart> = message.content.iter().map(without_data).collect();
            for part in &mut content {
                redact_part(redactor, part);
            }
            MessageData {
                role: message.role,
                content,
            }
        })
        .take_while(|message| {
            let size = serde_json::to_string(message).map_or(usize::MAX, |text| text.len());
            let has_room = size <= room;
            room = room.saturating_sub(size);
            has_room
        })
        .collect();
    messages.reverse();
    messages
}

/// Copies a part of a message; a file is copied without its content.
fn without_data(part: &MessagePart) -> MessagePart {
    match part {
        MessagePart::File(file) => MessagePart::File(goondan_core::ports::tool::Attachment {
            media_type: file.media_type.clone(),
            data: String::new(),
            name: file.name.clone(),
        }),
        other => other.clone(),
    }
}

/// Removes secrets and provider metadata from a part.
pub(crate) fn redact_part(redactor: &SecretRedactor, part: &mut MessagePart) {
    match part {
        MessagePart::Text {
            text,
            provider_metadata,
        }
        | MessagePart::Reasoning {
            text,
            provider_metadata,
        } => {
            redactor.clean(text);
            provider_metadata.clear();
        }
        MessagePart::Opaque { provider_metadata } => provider_metadata.clear(),
        MessagePart::ToolCall(call) => {
            redactor.clean_value(&mut call.input);
            call.provider_metadata.clear();
        }
        MessagePart::ToolResult(result) => {
            if let Some(output) = result.output.as_mut() {
                redactor.clean_value(output);
            }
            if let Some(error) = result.error.as_mut() {
                redactor.clean(&mut error.message);
            }
        }
        MessagePart::File(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_core::message::MessageRole;
    use goondan_spec::Secret;

    fn text(text: &str) -> MessageData {
        MessageData {
            role: MessageRole::User,
            content: vec![MessagePart::text(text)],
        }
    }

    #[test]
    fn an_excerpt_keeps_the_newest_messages_and_masks_secrets() {
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new("sk-0123456789")]);
        let long = text(&"x".repeat(MAX_EXCERPT_BYTES / 2));
        let messages = [
            text("old"),
            long.clone(),
            text("the key is sk-0123456789"),
            long.clone(),
        ];
        let kept = newest_messages(messages.iter().rev(), &redactor);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[1], long);
        assert!(
            !serde_json::to_string(&kept[0]).unwrap().contains("sk-"),
            "{:?}",
            kept[0]
        );
    }
}
