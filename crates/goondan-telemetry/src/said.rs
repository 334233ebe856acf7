//! What was said, in the shape of the conventions: JSON as text.

use goondan_core::message::{MessageData, Part, Role, ToolCall, ToolResultPart};
use goondan_core::said::Said;
use serde_json::{Value, json};

use crate::attributes::Attributes;

/// Puts the words of a question and of its answer into the attributes of its span.
pub(crate) fn tell(attributes: &mut Attributes, said: &Said, finish_reason: Option<&str>) {
    let system = said
        .system
        .as_ref()
        .map(|text| json!([{ "type": "text", "content": text }]).to_string());
    attributes.maybe("gen_ai.system_instructions", system);
    let input: Vec<Value> = said.input.iter().map(message).collect();
    attributes.set("gen_ai.input.messages", Value::from(input).to_string());
    if said.left_out > 0 {
        attributes.set("goondan.input.messages_left_out", said.left_out as u64);
    }
    if !said.output.is_empty() {
        let calls = said
            .output
            .iter()
            .any(|part| matches!(part, Part::ToolCall(_)));
        // Output messages have `tool_call`, where the attribute of the span has `tool_calls`.
        let reason = match finish_reason {
            None | Some("tool_calls") if calls => "tool_call",
            reason => reason.unwrap_or("stop"),
        };
        let output =
            json!([{ "role": "assistant", "parts": parts(&said.output), "finish_reason": reason }]);
        attributes.set("gen_ai.output.messages", output.to_string());
    }
}

fn message(message: &MessageData) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    json!({ "role": role, "parts": parts(&message.content) })
}

fn parts(parts: &[Part]) -> Vec<Value> {
    parts.iter().filter_map(part).collect()
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Reasoning { text, .. } if text.is_empty() => return None,
        Part::Reasoning { text, .. } => json!({ "type": "reasoning", "content": text }),
        Part::Opaque { .. } => return None,
        Part::Text { text, .. } => json!({ "type": "text", "content": text }),
        Part::ToolCall(ToolCall {
            tool_call_id,
            tool_name,
            input,
            ..
        }) => {
            json!({ "type": "tool_call", "id": tool_call_id, "name": tool_name, "arguments": input })
        }
        Part::ToolResult(result) => {
            json!({ "type": "tool_call_response", "id": result.tool_call_id, "response": response(result) })
        }
        // The conventions leave the names of other parts to whoever makes them.
        Part::File(file) => {
            json!({ "type": "goondan.file", "mime_type": file.media_type, "name": file.name })
        }
    })
}

fn response(result: &ToolResultPart) -> Value {
    match &result.error {
        Some(error) => json!({ "error": { "code": error.code, "message": error.message } }),
        None => result.output.clone().unwrap_or_default(),
    }
}
