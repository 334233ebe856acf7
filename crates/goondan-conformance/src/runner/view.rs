//! JSON forms of messages, requests and results for expectations.

use std::sync::Arc;

use goondan::event::TurnResult;
use goondan::message::{Message, ToolCall, ToolResultPart};
use goondan::ports::model::ModelRequest;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Diagnostic;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Returns `{role, text, reasoning, calls, results, metadata}` without empty fields.
pub(crate) fn message(message: &Message) -> Value {
    let calls: Vec<Value> = message.tool_calls().map(call).collect();
    let results: Vec<Value> = message.tool_results().map(result).collect();
    let mut view = Map::from_iter([("role".to_owned(), to_json(&message.data.role))]);
    put_unless_empty(&mut view, "text", message.text().into());
    put_unless_empty(&mut view, "reasoning", message.reasoning().into());
    put_unless_empty(&mut view, "calls", calls.into());
    put_unless_empty(&mut view, "results", results.into());
    put_unless_empty(
        &mut view,
        "metadata",
        Value::Object(message.metadata.clone()),
    );
    Value::Object(view)
}

/// Converts messages to the form that test cases compare.
pub(crate) fn messages(list: &[Arc<Message>]) -> Value {
    list.iter().map(|item| message(item)).collect()
}

/// Converts a tool call to the form that test cases compare.
fn call(call: &ToolCall) -> Value {
    json!({"id": call.tool_call_id, "tool": call.tool_name, "args": call.input})
}

/// Returns `{toolCallId, toolName, status, output | error}`.
pub(crate) fn result(result: &ToolResultPart) -> Value {
    to_json(result)
}

/// Returns `{instance, system, tools, messages, params}`.
pub(crate) fn request(request: &ModelRequest) -> Value {
    let mut view = Map::from_iter([("instance".to_owned(), json!(request.instance.to_string()))]);
    put_unless_empty(
        &mut view,
        "system",
        request.system.clone().unwrap_or_default().into(),
    );
    view.insert("tools".to_owned(), to_json(&*request.tools));
    view.insert("messages".to_owned(), messages(&request.messages));
    put_unless_empty(&mut view, "params", Value::Object(request.params.to_json()));
    Value::Object(view)
}

/// Returns `{finishReason, modelFinishReason, response, output, error, steps, usage, turnId,
/// durationMs}`.
pub(crate) fn turn(result: &TurnResult, duration_ms: u64) -> Value {
    let mut view = Map::from_iter([
        ("turnId".to_owned(), json!(result.turn_id)),
        ("finishReason".to_owned(), to_json(&result.finish_reason)),
        ("steps".to_owned(), json!(result.step_count)),
        ("usage".to_owned(), to_json(&result.usage)),
        ("durationMs".to_owned(), json!(duration_ms)),
    ]);
    if let Some(reason) = &result.model_finish_reason {
        view.insert("modelFinishReason".to_owned(), to_json(reason));
    }
    if result.response_message.is_some() {
        view.insert("response".to_owned(), result.response_text().into());
    }
    if let Some(output) = &result.output {
        view.insert("output".to_owned(), output.clone());
    }
    if let Some(error) = &result.error {
        view.insert("error".to_owned(), to_json(error));
    }
    Value::Object(view)
}

/// Returns the result of a direct call, with `durationMs`.
pub(crate) fn tool_result(result: &ToolCallResult, duration_ms: u64) -> Value {
    let mut view = to_json(result);
    view["durationMs"] = json!(duration_ms);
    view
}

/// Returns diagnostics in the form of the JSON report.
pub(crate) fn diagnostics(list: &[Diagnostic]) -> Value {
    list.iter().map(to_json).collect()
}

/// Returns diagnostics as text, one line each.
pub(crate) fn diagnostics_text(list: &[Diagnostic]) -> String {
    let line = |diagnostic: &Diagnostic| {
        let Diagnostic {
            code,
            message,
            file,
            position,
            suggestion,
            ..
        } = diagnostic;
        let place = match (file, position) {
            (Some(file), Some(at)) => format!(" {file}:{}:{}", at.line, at.column),
            (Some(file), None) => format!(" {file}"),
            (None, _) => String::new(),
        };
        let suggestion = suggestion
            .as_ref()
            .map(|suggestion| format!(" ({suggestion})"))
            .unwrap_or_default();
        format!("\n  {code}{place} {message}{suggestion}")
    };
    list.iter().map(line).collect()
}

/// Converts to JSON. It cannot fail: these types contain only strings, numbers, and maps with
/// string keys.
fn to_json<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Adds a field to a result, unless the value is empty.
fn put_unless_empty(view: &mut Map<String, Value>, key: &str, value: Value) {
    let empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        view.insert(key.to_owned(), value);
    }
}
