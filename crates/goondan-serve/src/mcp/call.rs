//! A tool call of an MCP client: an input for an agent, and the result of its turn.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use goondan::event::{FinishReason, TurnResult};
use goondan::gateway::TurnStream;
use goondan::notices::CutNotice;
use goondan::spec::Code;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SendError};
use rand::RngExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::elicitation::{self, ElicitationSupport};
use super::running_call::{CallEnd, RunningMcpCall};
use super::tools::AskArguments;
use crate::error_table::SWARM_STOPPED;
use crate::service::Service;
use crate::turn_failure::TurnFailureReport;

/// Prefix of generated conversation keys.
const CONVERSATION_PREFIX: &str = "mcp-";

/// Calls `agent`, or resumes a call that waited for approval.
pub(super) async fn answer(
    service: &Service,
    agent: String,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let asking = ElicitationSupport::from_context(context);
    let turn = match &request.request_state {
        Some(event_id) => {
            let answers = request.input_responses.unwrap_or_default();
            resumed_turn(service, event_id, &agent, asking, answers).await?
        }
        None => {
            let submitted = match input(&agent, request.arguments.unwrap_or_default()) {
                Ok(input) => {
                    let input = Input {
                        caller: caller_trace(context),
                        ..input
                    };
                    let gateway = service.gateway();
                    let submitted = gateway.submit_and_follow(input, asking.approval_reports());
                    submitted.await.map_err(SendError::from)
                }
                Err(refused) => Err(refused),
            };
            match submitted {
                Ok(turn) => turn,
                Err(refused) => return Ok(rejection_result(refused).into()),
            }
        }
    };
    let conversation = turn
        .instance()
        .map(|instance| instance.instance_key.clone());
    let call = RunningMcpCall::new(service, agent, asking, &turn, context);
    match call.wait_for_end(turn).await {
        CallEnd::Over(result) => Ok(tool_result(&result, conversation).into()),
        CallEnd::Asks(asked) => Ok(asked.into()),
        CallEnd::GivenUp => Err(ErrorData::internal_error("the call was cancelled", None)),
        CallEnd::SwarmGone => Err(ErrorData::internal_error(SWARM_STOPPED, None)),
    }
}

/// Returns the caller in the call's `_meta`, or else in the headers of its HTTP request.
fn caller_trace(context: &RequestContext<RoleServer>) -> Option<CallerTrace> {
    match context.meta.get_traceparent() {
        Some(parent) => CallerTrace::read(parent, context.meta.get_tracestate()),
        None => crate::trace_context::caller_trace(&context.extensions.get::<Parts>()?.headers),
    }
}

/// Converts the arguments of a call.
fn input(agent: &str, arguments: serde_json::Map<String, Value>) -> Result<Input, SendError> {
    let send_error = |message: String| SendError {
        code: Code::SERVE_REQUEST,
        message,
        suggestion: None,
    };
    let arguments: AskArguments = serde_json::from_value(Value::Object(arguments))
        .map_err(|error| send_error(format!("The arguments are invalid: {error}.")))?;
    if arguments.input.trim().is_empty() {
        return Err(send_error("The input is empty.".to_owned()));
    }
    let random: u64 = rand::rng().random();
    let key = arguments.conversation.filter(|key| !key.is_empty());
    let key = key.unwrap_or_else(|| format!("{CONVERSATION_PREFIX}{random:016x}"));
    Ok(Input {
        agent: Some(agent.to_owned()),
        instance_key: Some(key),
        ..Input::text(arguments.input)
    })
}

/// Follows the turn of a resumed call, and applies the answers that the call brings.
async fn resumed_turn(
    service: &Service,
    event_id: &str,
    agent: &str,
    asking: ElicitationSupport,
    answers: BTreeMap<String, Value>,
) -> Result<TurnStream, ErrorData> {
    let turn = service
        .gateway()
        .follow(event_id, asking.approval_reports())
        .await;
    let is_own = |turn: &TurnStream| turn.instance().is_none_or(|it| it.agent == agent);
    let turn = turn.filter(is_own).ok_or_else(unknown_state)?;
    elicitation::apply_answers(&turn.open_approvals(), &answers);
    Ok(turn)
}

/// Error for a call state that this server did not create.
fn unknown_state() -> ErrorData {
    ErrorData::invalid_params("`requestState` belongs to an unknown call", None)
}

/// Returns the result of a turn. The conversation is unknown if the turn was over before the call
/// resumed.
fn tool_result(result: &TurnResult, conversation: Option<String>) -> CallToolResult {
    let text = result.response_text();
    match TurnFailureReport::from_result(result) {
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
            error_result(&format!("{} {text}", why.to_message()))
        }
        Some(why) => error_result(&why.to_message()),
    }
}

/// Creates the result of a call whose input was rejected.
fn rejection_result(error: SendError) -> CallToolResult {
    let suggestion = error
        .suggestion
        .map(|words| format!(" {words}"))
        .unwrap_or_default();
    error_result(&format!("[{}] {}{suggestion}", error.code, error.message))
}

/// Creates an error result with this text.
fn error_result(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.trim_end().to_owned())])
}
