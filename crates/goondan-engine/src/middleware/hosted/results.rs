//! JSON formats of the results that layers receive from `next` and return.

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::event::{FinishReason, TurnError};
use goondan_core::message::MessageRole;
use goondan_core::ports::model::ModelFinishReason;
use goondan_core::ports::tool::{HandlerError, ToolCallResult};
use goondan_core::reserved_names::UNTRUSTED_KEY;
use goondan_spec::Code;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{events, extension_error, invalid_value};
use crate::tooling::dispatch::ToolCallContext;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};

/// Encodes the result of a turn for its layer.
pub(super) fn turn_result_json(context: &TurnContext, outcome: &TurnOutcome) -> Value {
    let mut shape = json!({"turnId": context.turn_id(), "finishReason": outcome.finish_reason});
    if let Some(message) = &outcome.response {
        shape["responseMessage"] = json!(message);
    }
    shape
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReturnedTurn {
    finish_reason: FinishReason,
    #[serde(default)]
    response_message: Option<Value>,
    #[serde(default)]
    error: Option<ReturnedError>,
}

#[derive(Default, Deserialize)]
struct ReturnedError {
    #[serde(default)]
    message: String,
    #[serde(default)]
    code: Option<String>,
}

/// Decodes the result of a turn layer; `inner` is the result of `next`.
pub(super) fn to_turn(
    context: &mut TurnContext,
    extension: &str,
    value: Value,
    inner: Option<TurnOutcome>,
) -> Result<TurnOutcome, TurnError> {
    let layer_failure = |error: HandlerError| extension_error(extension, error);
    let shape: ReturnedTurn = decode_result("a turn", value).map_err(layer_failure)?;
    match shape.finish_reason {
        FinishReason::Error | FinishReason::Cancelled => {
            let ReturnedError { message, code } = shape.error.unwrap_or_default();
            let message = if message.is_empty() {
                "it ended the turn with an error".to_owned()
            } else {
                message
            };
            Err(extension_error(
                extension,
                HandlerError {
                    code,
                    ..HandlerError::new(message)
                },
            ))
        }
        finish_reason => {
            let inner_response = inner.and_then(|outcome| outcome.response);
            let response = match (shape.response_message, inner_response) {
                (None | Some(Value::Null), _) => None,
                (Some(returned), Some(inner_message)) if returned == json!(inner_message) => {
                    Some(inner_message)
                }
                (Some(returned), _) => {
                    let message =
                        events::message(context, extension, returned).map_err(layer_failure)?;
                    Some(Arc::new(message))
                }
            };
            Ok(TurnOutcome {
                finish_reason,
                response,
            })
        }
    }
}

/// Encodes the result of a step for its layer.
pub(super) fn step_result_json(outcome: &StepOutcome, metadata: &JsonObject) -> Value {
    let calls: Vec<Value> = outcome
        .message
        .iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| {
            json!({"id": call.tool_call_id, "toolCallId": call.tool_call_id, "name": call.tool_name,
               "toolName": call.tool_name, "args": call.input, "input": call.input})
        })
        .collect();
    json!({
        "status": "completed",
        "shouldContinue": outcome.should_continue,
        "hasToolCalls": !calls.is_empty(),
        "toolCalls": calls,
        "toolResults": outcome.results,
        "metadata": metadata,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReturnedStep {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    should_continue: Option<bool>,
    #[serde(default)]
    error: Option<ReturnedError>,
}

/// Decodes the result of a step layer. The layer decides only if another step follows; it cannot
/// change the answer and the tool results.
pub(super) fn to_step(
    context: &mut StepContext<'_>,
    extension: &str,
    value: Value,
    inner: Option<StepOutcome>,
) -> Result<StepOutcome, TurnError> {
    let layer_failure = |error: HandlerError| extension_error(extension, error);
    let shape: ReturnedStep = decode_result("a step", value).map_err(layer_failure)?;
    if shape.status.as_deref() == Some("failed") {
        let ReturnedError { message, code } = shape.error.unwrap_or_default();
        let message = if message.is_empty() {
            "it reported that the step failed".to_owned()
        } else {
            message
        };
        return Err(extension_error(
            extension,
            HandlerError {
                code,
                ..HandlerError::new(message)
            },
        ));
    }
    match inner {
        Some(outcome) => Ok(StepOutcome {
            should_continue: shape.should_continue.unwrap_or(outcome.should_continue),
            ..outcome
        }),
        // The layer replaced the model call: the message it appended is the answer.
        None => {
            let turn = context.turn();
            let last = turn
                .conversation()
                .last()
                .filter(|message| message.data.role == MessageRole::Assistant);
            let message = last.cloned().ok_or_else(|| {
                let problem = "it neither called `next` nor appended an assistant message as the \
                    answer of the step";
                layer_failure(invalid_value(problem))
            })?;
            let should_continue = shape.should_continue.unwrap_or(false);
            Ok(StepOutcome {
                should_continue,
                message: Some(message),
                results: Vec::new(),
                usage: None,
                finish_reason: ModelFinishReason::default(),
            })
        }
    }
}

/// Decodes the result of a tool-call layer.
pub(super) fn to_tool_call(
    context: &ToolCallContext,
    value: Value,
    inner: Option<&ToolCallResult>,
) -> Result<ToolCallResult, HandlerError> {
    let Value::Object(mut shape) = value else {
        return Err(no_result_error("a tool call", &value));
    };
    // A layer cannot change which call the result belongs to.
    shape.insert(
        "toolCallId".to_owned(),
        context.call.tool_call_id.as_str().into(),
    );
    shape.insert(
        "toolName".to_owned(),
        context.call.tool_name.as_str().into(),
    );
    if let Some(Value::Object(error)) = shape.get_mut("error") {
        error
            .entry("message")
            .or_insert_with(|| "the extension gave no error message".into());
        error
            .entry("code")
            .or_insert_with(|| Code::EXT_FAILED.as_str().into());
    }
    let mut result: ToolCallResult = decode_result("a tool call", Value::Object(shape))?;
    // A result with untrusted content stays untrusted, even if a layer returns it.
    match inner.and_then(|inner| inner.metadata.get(UNTRUSTED_KEY)) {
        Some(mark) => drop(
            result
                .metadata
                .insert(UNTRUSTED_KEY.to_owned(), mark.clone()),
        ),
        None => drop(result.metadata.shift_remove(UNTRUSTED_KEY)),
    }
    Ok(result)
}

/// Decodes the value that a layer returned. `what`: the wrapped call, for the error.
fn decode_result<T: serde::de::DeserializeOwned>(
    what: &str,
    value: Value,
) -> Result<T, HandlerError> {
    if !value.is_object() {
        return Err(no_result_error(what, &value));
    }
    serde_json::from_value(value).map_err(|error| {
        invalid_value(format_args!(
            "its return value is not a result of {what}: {error}"
        ))
    })
}

/// Returns the error for a layer that returned `value` instead of the result of `what`.
fn no_result_error(what: &str, value: &Value) -> HandlerError {
    let returned = if value.is_null() {
        "nothing".to_owned()
    } else {
        format!("`{value}`")
    };
    invalid_value(format_args!(
        "it returned {returned} instead of the result of {what}"
    ))
    .suggest("Return the result of `ctx.next()`.")
}
