//! Message content in the form of the conventions: JSON strings.

use goondan_core::content_capture::CapturedContent;
use goondan_core::message::{MessageData, MessagePart, MessageRole, ToolCall, ToolResultPart};
use serde_json::{Value, json};

use crate::attributes::SpanAttributes;

/// Adds the content of a model call to the attributes of its span.
pub(crate) fn add_content(
    attributes: &mut SpanAttributes,
    content: &CapturedContent,
    finish_reason: Option<&str>,
) {
    let system = content
        .system
        .as_ref()
        .map(|text| json!([{ "type": "text", "content": text }]).to_string());
    attributes.set_optional("gen_ai.system_instructions", system);
    let input: Vec<Value> = content.input.iter().map(message).collect();
    attributes.set("gen_ai.input.messages", Value::from(input).to_string());
    if content.left_out > 0 {
        attributes.set("goondan.input.messages_left_out", content.left_out as u64);
    }
    if !content.output.is_empty() {
        let calls = content
            .output
            .iter()
            .any(|part| matches!(part, MessagePart::ToolCall(_)));
        // Output messages use `tool_call`; the span attribute uses `tool_calls`.
        let reason = match finish_reason {
            None | Some("tool_calls") if calls => "tool_call",
            reason => reason.unwrap_or("stop"),
        };
        let output = json!([{ "role": "assistant", "parts": parts(&content.output), "finish_reason": reason }]);
        attributes.set("gen_ai.output.messages", output.to_string());
    }
}

/// Converts a message to the form of the conventions.
fn message(message: &MessageData) -> Value {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
    };
    json!({ "role": role, "parts": parts(&message.content) })
}

/// Converts the parts of a message.
fn parts(parts: &[MessagePart]) -> Vec<Value> {
    parts.iter().filter_map(part_to_json).collect()
}

/// Converts a part; `None` for a part without readable content.
fn part_to_json(part: &MessagePart) -> Option<Value> {
    Some(match part {
        MessagePart::Reasoning { text, .. } if text.is_empty() => return None,
        MessagePart::Reasoning { text, .. } => json!({ "type": "reasoning", "content": text }),
        MessagePart::Opaque { .. } => return None,
        MessagePart::Text { text, .. } => json!({ "type": "text", "content": text }),
        MessagePart::ToolCall(ToolCall {
            tool_call_id,
            tool_name,
            input,
            ..
        }) => {
            json!({ "type": "tool_call", "id": tool_call_id, "name": tool_name, "arguments": input })
        }
        MessagePart::ToolResult(result) => {
            json!({ "type": "tool_call_response", "id": result.tool_call_id, "response": response(result) })
        }
        // The conventions allow custom names for other parts.
        MessagePart::File(file) => {
            json!({ "type": "goondan.file", "mime_type": file.media_type, "name": file.name })
        }
    })
}

/// Returns the output or the error of a tool call.
fn response(result: &ToolResultPart) -> Value {
    match &result.error {
        Some(error) => json!({ "error": { "code": error.code, "message": error.message } }),
        None => result.output.clone().unwrap_or_default(),
    }
}
