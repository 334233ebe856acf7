//! A tool call of an MCP client: an input for an agent, and the result of its turn.

use axum::http::request::Parts;
use goondan::event::{FinishReason, TurnResult};
use goondan::notices::CutNotice;
use goondan::spec::Code;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SendError, SubmittedEventState, Turn};
use rand::RngExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::elicitation;
use super::running_call::{CallEnd, RunningCall};
use super::tools::AskArguments;
use crate::service::Service;
use crate::turn_failure::TurnFailure;

/// Prefix of generated conversation keys.
const CONVERSATION_PREFIX: &str = "mcp-";

/// Calls `agent`, or resumes a call that waited for approval.
pub(super) async fn answer(
    service: &Service,
    agent: String,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    // Subscribes before the input is submitted, so that no event is missed.
    let live = service.inner.hub.subscribe().0;
    let turn = match &request.request_state {
        Some(event_id) => match resumed_turn(service, event_id, &agent).await? {
            SubmittedEventState::Over(result) => return Ok(tool_result(&result, None).into()),
            SubmittedEventState::Open(turn) => {
                elicitation::apply_answers(service, request.input_responses.unwrap_or_default());
                turn
            }
        },
        None => match begin(
            service,
            agent,
            request.arguments.unwrap_or_default(),
            caller(context),
        )
        .await
        {
            Ok(turn) => turn,
            Err(refused) => {
                return Ok(failed(
                    &refused.code.to_string(),
                    &refused.message,
                    refused.suggestion,
                )
                .into());
            }
        },
    };
    let conversation = turn.instance.instance_key.clone();
    match RunningCall::new(service, turn, context).follow(live).await {
        CallEnd::Over(result) => Ok(tool_result(&result, Some(conversation)).into()),
        CallEnd::Asks(asked) => Ok(asked.into()),
        CallEnd::GivenUp => Err(ErrorData::internal_error("the call was cancelled", None)),
        CallEnd::SwarmGone => Err(ErrorData::internal_error(
            "the swarm stopped; the turn resumes at its next start",
            None,
        )),
    }
}

/// Returns the caller in the call's `_meta`, or else in the headers of its HTTP request.
fn caller(context: &RequestContext<RoleServer>) -> Option<CallerTrace> {
    match context.meta.get_traceparent() {
        Some(parent) => CallerTrace::read(parent, context.meta.get_tracestate()),
        None => crate::trace_context::caller(&context.extensions.get::<Parts>()?.headers),
    }
}

/// Starts a turn with the arguments of the call.
async fn begin(
    service: &Service,
    agent: String,
    arguments: serde_json::Map<String, Value>,
    caller: Option<CallerTrace>,
) -> Result<Turn, SendError> {
    let refuse = |code, message: String| SendError {
        code,
        message,
        suggestion: None,
    };
    if service.is_draining() {
        return Err(refuse(
            Code::SWARM_STOPPING,
            "The server is stopping.".to_owned(),
        ));
    }
    let arguments: AskArguments =
        serde_json::from_value(Value::Object(arguments)).map_err(|error| {
            refuse(
                Code::SERVE_REQUEST,
                format!("The arguments are invalid: {error}."),
            )
        })?;
    if arguments.input.trim().is_empty() {
        return Err(refuse(
            Code::SERVE_REQUEST,
            "The input is empty.".to_owned(),
        ));
    }
    let random: u64 = rand::rng().random();
    let key = arguments.conversation.filter(|key| !key.is_empty());
    let key = key.unwrap_or_else(|| format!("{CONVERSATION_PREFIX}{random:016x}"));
    let input = Input {
        agent: Some(agent),
        instance_key: Some(key),
        caller,
        ..Input::text(arguments.input)
    };
    service.swarm().send(input).await
}

/// Returns the turn of a resumed call.
async fn resumed_turn(
    service: &Service,
    event_id: &str,
    agent: &str,
) -> Result<SubmittedEventState, ErrorData> {
    match service.swarm().find(event_id).await {
        Some(SubmittedEventState::Open(turn)) if turn.instance.agent != agent => {
            Err(unknown_state())
        }
        Some(found) => Ok(found),
        None => Err(unknown_state()),
    }
}

/// Error for a call state that this server did not create.
fn unknown_state() -> ErrorData {
    ErrorData::invalid_params("`requestState` belongs to an unknown call", None)
}

/// Returns the result of a turn. The conversation is unknown if the turn was over before the call
/// resumed.
fn tool_result(result: &TurnResult, conversation: Option<String>) -> CallToolResult {
    let text = result.response_text();
    match TurnFailure::of(result) {
        None => {
            let mut content = vec![ContentBlock::text(text.clone())];
            let mut data =
                json!({"answer": text, "conversation": conversation.unwrap_or_default()});
            if let Some(reason) = &result.model_finish_reason {
                let notice = CutNotice::of(reason);
                content.extend(notice.map(|notice| ContentBlock::text(notice.sentences())));
                data["finishReason"] = reason.as_str().into();
            }
            let mut call_result = CallToolResult::success(content);
            call_result.structured_content = Some(data);
            call_result
        }
        Some(why) if result.finish_reason == FinishReason::MaxSteps => {
            failure(&format!("{} {text}", why.to_message()))
        }
        Some(why) => failure(&why.to_message()),
    }
}

/// Creates the result of a failed call.
fn failed(code: &str, message: &str, suggestion: Option<String>) -> CallToolResult {
    let suggestion = suggestion
        .map(|words| format!(" {words}"))
        .unwrap_or_default();
    failure(&format!("[{code}] {message}{suggestion}"))
}

/// Creates an error result with this text.
fn failure(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.trim_end().to_owned())])
}
