//! Replay of a stored conversation for an editor that loads it.

use std::sync::Arc;

use agent_client_protocol::v1::schema as wire;
use goondan::message::{
    Message, MessagePart, MessageRole, MessageSource, ToolCall, ToolResultPart,
};
use goondan::ports::tool::Attachment;

use super::session::EditorSession;
use super::updates::{self, ShownCall};

/// Sends the visible messages to the editor.
pub(super) fn replay_messages(messages: &[Arc<Message>], session: &EditorSession) {
    for message in messages {
        for part in &message.data.content {
            if let Some(update) = update(message, part, session) {
                session.send_update(update);
            }
        }
    }
}

/// Converts a part of a message; `None` if the editor does not show the part.
fn update(
    message: &Message,
    part: &MessagePart,
    session: &EditorSession,
) -> Option<wire::SessionUpdate> {
    // The live stream uses the same message ids.
    let step_id = match &message.source {
        MessageSource::Assistant { step_id } | MessageSource::Tool { step_id } => step_id,
        _ => &message.id,
    };
    match part {
        MessagePart::Text { text, .. } if text.is_empty() => None,
        MessagePart::Text { text, .. } => {
            message_update(message.data.role, updates::text(text, Some(step_id)))
        }
        MessagePart::Reasoning { text, .. } => {
            let id = updates::reasoning_id(step_id);
            (!text.is_empty())
                .then(|| wire::SessionUpdate::AgentThoughtChunk(updates::text(text, Some(&id))))
        }
        MessagePart::Opaque { .. } => None,
        MessagePart::File(file) => message_update(
            message.data.role,
            image_chunk(file)?.message_id(wire::MessageId::new(&**step_id)),
        ),
        MessagePart::ToolCall(call) => Some(tool_call_update(call, step_id, session)),
        MessagePart::ToolResult(result) => Some(tool_result_update(result, step_id)),
    }
}

/// Creates the update for text or an image of a message; `None` for messages that only the model
/// sees.
fn message_update(role: MessageRole, chunk: wire::ContentChunk) -> Option<wire::SessionUpdate> {
    match role {
        MessageRole::User => Some(wire::SessionUpdate::UserMessageChunk(chunk)),
        MessageRole::Assistant => Some(wire::SessionUpdate::AgentMessageChunk(chunk)),
        // Instructions and summaries are only for the model.
        MessageRole::System | MessageRole::Tool => None,
    }
}

/// Converts an image; `None` for other files.
fn image_chunk(file: &Attachment) -> Option<wire::ContentChunk> {
    let image = wire::ImageContent::new(file.data.clone(), file.media_type.clone());
    file.media_type
        .starts_with("image/")
        .then(|| wire::ContentChunk::new(wire::ContentBlock::Image(image)))
}

/// Converts a tool call to the update that announces it.
fn tool_call_update(
    call: &ToolCall,
    step_id: &str,
    session: &EditorSession,
) -> wire::SessionUpdate {
    let id = updates::call_id(step_id, &call.tool_call_id);
    let call = ShownCall {
        id,
        tool: &call.tool_name,
        arguments: &call.input,
        workdir: &session.workdir,
    };
    wire::SessionUpdate::ToolCall(call.initial_update(wire::ToolCallStatus::Pending))
}

/// Converts a tool result to the update that completes its call.
fn tool_result_update(result: &ToolResultPart, step_id: &str) -> wire::SessionUpdate {
    let error = result.error.as_ref().map(|error| error.message.clone());
    let text = error.or_else(|| result.output.as_ref().and_then(updates::output_text));
    let fields = wire::ToolCallUpdateFields::new()
        .status(updates::status(result.status))
        .content(text.map(|text| vec![updates::content(&text)]))
        .raw_output(result.output.clone());
    wire::SessionUpdate::ToolCallUpdate(wire::ToolCallUpdate::new(
        updates::call_id(step_id, &result.tool_call_id),
        fields,
    ))
}
