//! Messages and results of a step.

use goondan_core::message::{
    Message, MessageData, MessagePart, MessageRole, MessageSource, ToolCall, ToolResultPart,
};
use goondan_core::ports::tool::{HandlerError, ToolCallResult};
use goondan_core::reserved_names::UNTRUSTED_KEY;
use goondan_spec::Code;
use serde_json::Value;

use crate::tooling::call_results::error_result;
use crate::turn::TurnContext;

/// Returns the result of an interrupted call whose effects are unknown (rule C4).
pub(crate) fn interrupted_result(call: &ToolCall) -> ToolCallResult {
    let error = HandlerError::new(format!(
        "{} was running when the process ended; its effects are unknown, and it was not run again",
        call.tool_name
    ))
    .code(Code::TOOL_INTERRUPTED)
    .suggest("Check the effects of the call before you repeat it.");
    error_result(call, usize::MAX, error)
}

/// Returns the conversation parts of a result.
pub(crate) fn result_parts(result: &ToolCallResult) -> impl Iterator<Item = MessagePart> {
    let part = ToolResultPart {
        tool_call_id: result.tool_call_id.clone(),
        tool_name: result.tool_name.clone(),
        status: result.status,
        output: result.output.clone(),
        error: result.error.clone(),
        untrusted: result
            .metadata
            .get(UNTRUSTED_KEY)
            .and_then(Value::as_bool)
            .unwrap_or(false),
    };
    std::iter::once(MessagePart::ToolResult(part))
        .chain(result.attachments.iter().cloned().map(MessagePart::File))
}

/// Creates a message with the current time.
pub(crate) fn message(
    id: String,
    role: MessageRole,
    content: Vec<MessagePart>,
    source: MessageSource,
    turn: &TurnContext,
) -> Message {
    Message {
        id,
        data: MessageData { role, content },
        metadata: goondan_core::JsonObject::new(),
        created_at: turn.engine.clock.now(),
        source,
    }
}
