//! Encoding of single AG-UI events as JSON.

use goondan::ApprovalHandle;
use goondan::event::{RuntimeEventKind, ShownResult, TurnResult};
use goondan::message::{Message, MessagePart, MessageRole, MessageSource};
use goondan::notices::{CutNotice, retry_notice};
use goondan::ports::model::ModelFinishReason;
use serde_json::{Value, json};

use crate::wire::{CLIENT_MESSAGE_ID, QuestionBody};

/// Returns a call id that is unique in the AG-UI thread. Model call ids are unique only in a step.
pub(super) fn call_id(step_id: &str, tool_call_id: &str) -> String {
    format!("{step_id}/{tool_call_id}")
}

/// Returns the events for the start, the arguments and the end of a call.
pub(super) fn call(id: &str, step_id: &str, tool: &str, arguments: &Value) -> [Value; 3] {
    [
        json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": step_id}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments.to_string()}),
        json!({"type": "TOOL_CALL_END", "toolCallId": id}),
    ]
}

/// Returns the event for the result of a call.
pub(super) fn result(call: &str, content: &str) -> Value {
    json!({
        "type": "TOOL_CALL_RESULT",
        "messageId": format!("{call}/result"),
        "toolCallId": call,
        "content": content,
        "role": "tool",
    })
}

/// Returns the visible part of a result as text.
pub(super) fn result_text(shown: &ShownResult) -> String {
    match &shown.error {
        Some(error) => format!("[{}] {}", error.code, error.message),
        None => plain_text(&shown.output),
    }
}

/// Returns an output as text; an empty string for null.
fn plain_text(output: &Value) -> String {
    match output {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the approval request that ends a run. `call` is the call id in the thread, if the client
/// received the call.
pub(super) fn interrupt(question: &ApprovalHandle, call: Option<&String>) -> Value {
    let request = &question.request;
    let mut interrupt = json!({
        "id": request.id,
        "reason": if call.is_some() { "tool_call" } else { "confirmation" },
        "message": request.to_plain_text(),
        "responseSchema": {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}},
            "required": ["approved"],
        },
        "metadata": {"question": QuestionBody::from(&**request)},
    });
    if let Some(call) = call {
        interrupt["toolCallId"] = call.as_str().into();
    }
    interrupt
}

/// Returns the events that begin reasoning.
pub(super) fn reasoning_start(id: &str) -> [Value; 2] {
    [
        json!({"type": "REASONING_START", "messageId": id}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}),
    ]
}

/// Returns the events that end reasoning.
pub(super) fn reasoning_end(id: &str) -> [Value; 2] {
    [
        json!({"type": "REASONING_MESSAGE_END", "messageId": id}),
        json!({"type": "REASONING_END", "messageId": id}),
    ]
}

/// Returns the event for an incomplete answer.
pub(super) fn incomplete_answer(reason: &ModelFinishReason) -> Value {
    let message = CutNotice::of(reason).map(|notice| notice.sentences());
    let value = json!({"reason": reason.as_str(), "message": message});
    json!({"type": "CUSTOM", "name": "modelFinishReason", "value": value})
}

/// Returns the event for a model call that is retried.
pub(super) fn model_retrying(kind: &RuntimeEventKind) -> Value {
    let value = json!({"message": retry_notice(kind)});
    json!({"type": "CUSTOM", "name": "modelRetrying", "value": value})
}

/// Returns the last event of a run with an answer.
pub(super) fn run_finished(thread: &str, run: &str, result: &TurnResult) -> Value {
    let usage = result.usage;
    json!({
        "type": "RUN_FINISHED",
        "threadId": thread,
        "runId": run,
        "outcome": {"type": "success"},
        "usage": [{
            "inputTokens": usage.prompt_tokens,
            "outputTokens": usage.completion_tokens,
            "totalTokens": usage.total_tokens,
        }],
    })
}

/// Returns the last event of a failed run.
pub(super) fn run_error(code: &str, message: &str, suggestion: Option<&str>) -> Value {
    let suggestion = suggestion
        .map(|words| format!(" {words}"))
        .unwrap_or_default();
    json!({"type": "RUN_ERROR", "code": code, "message": format!("{message}{suggestion}")})
}

/// Returns the event with all messages of the conversation.
pub(super) fn messages_snapshot<'m>(messages: impl Iterator<Item = &'m Message>) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages.flat_map(encode_message).collect::<Vec<_>>()})
}

/// Encodes a message, with one entry for each tool result. The live stream uses the same message
/// ids.
fn encode_message(message: &Message) -> Vec<Value> {
    let text = message.text();
    let step_id = match &message.source {
        MessageSource::Assistant { step_id } | MessageSource::Tool { step_id } => step_id,
        _ => &message.id,
    };
    match message.data.role {
        MessageRole::User => {
            let client_message_id = message
                .metadata
                .get(CLIENT_MESSAGE_ID)
                .and_then(Value::as_str);
            vec![
                json!({"id": client_message_id.unwrap_or(&message.id), "role": "user", "content": user_content(message, text)}),
            ]
        }
        MessageRole::Assistant => {
            let mut written = json!({"id": step_id, "role": "assistant", "content": text});
            let calls = message.tool_calls().map(|call| {
                let function = json!({"name": call.tool_name, "arguments": call.input.to_string()});
                json!({"id": call_id(step_id, &call.tool_call_id), "type": "function", "function": function})
            });
            let calls: Vec<Value> = calls.collect();
            if !calls.is_empty() {
                written["toolCalls"] = calls.into();
            }
            vec![written]
        }
        MessageRole::Tool => {
            let results = message.tool_results().map(|result| {
                let call = call_id(step_id, &result.tool_call_id);
                let error = result.error.as_ref().map(|error| format!("[{}] {}", error.code, error.message));
                let content = error.unwrap_or_else(|| result.output.as_ref().map(plain_text).unwrap_or_default());
                json!({"id": format!("{call}/result"), "role": "tool", "toolCallId": call, "content": content})
            });
            results.collect()
        }
        // Instructions and summaries are only for the model.
        MessageRole::System => Vec::new(),
    }
}

/// Encodes a user message: as text, or as a list if it has files.
fn user_content(message: &Message, text: String) -> Value {
    let files = message.data.content.iter().filter_map(|part| match part {
        MessagePart::File(file) => Some(json!({
            "type": "binary", "mimeType": file.media_type, "data": file.data, "filename": file.name.clone().unwrap_or_default(),
        })),
        _ => None,
    });
    let files: Vec<Value> = files.collect();
    if files.is_empty() {
        text.into()
    } else {
        std::iter::once(json!({"type": "text", "text": text}))
            .chain(files)
            .collect()
    }
}
