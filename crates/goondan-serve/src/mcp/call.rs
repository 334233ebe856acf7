//! One call: an input for an agent, and the result of its turn.

use axum::http::request::Parts;
use goondan::event::{FinishReason, TurnResult};
use goondan::notices::CutNotice;
use goondan::spec::Code;
use goondan::telemetry::Caller;
use goondan::{Found, Input, SendError, Turn};
use rand::RngExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::chain::{Chain, Ended};
use super::question;
use super::tools::Arguments;
use crate::failure::Failure;
use crate::service::Service;

/// What the keys of conversations begin with that no client has named.
const PREFIX: &str = "mcp-";

/// Asks `agent`, or goes on with a call that had to wait for a person.
pub(super) async fn answer(
    service: &Service,
    agent: String,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    // Before the input is handed in: nothing that happens then is missed.
    let live = service.inner.hub.subscribe().0;
    let turn = match &request.request_state {
        Some(event_id) => match again(service, event_id, &agent).await? {
            Found::Over(result) => return Ok(told(&result, None).into()),
            Found::Open(turn) => {
                question::answered(service, request.input_responses.unwrap_or_default());
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
    match Chain::new(service, turn, context).follow(live).await {
        Ended::Over(result) => Ok(told(&result, Some(conversation)).into()),
        Ended::Asks(asked) => Ok(asked.into()),
        Ended::GivenUp => Err(ErrorData::internal_error("the call was given up", None)),
        Ended::SwarmGone => Err(ErrorData::internal_error(
            "the swarm has ended; its next start goes on with the turn",
            None,
        )),
    }
}

/// The caller that the call names: in its `_meta`, or else in the headers of the request that brought it.
fn caller(context: &RequestContext<RoleServer>) -> Option<Caller> {
    match context.meta.get_traceparent() {
        Some(parent) => Caller::read(parent, context.meta.get_tracestate()),
        None => crate::caller::caller(&context.extensions.get::<Parts>()?.headers),
    }
}

async fn begin(
    service: &Service,
    agent: String,
    arguments: serde_json::Map<String, Value>,
    caller: Option<Caller>,
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
    let arguments: Arguments =
        serde_json::from_value(Value::Object(arguments)).map_err(|error| {
            refuse(
                Code::SERVE_REQUEST,
                format!("The arguments do not fit: {error}."),
            )
        })?;
    if arguments.message.trim().is_empty() {
        return Err(refuse(
            Code::SERVE_REQUEST,
            "The message is empty.".to_owned(),
        ));
    }
    let random: u64 = rand::rng().random();
    let key = arguments.conversation.filter(|key| !key.is_empty());
    let key = key.unwrap_or_else(|| format!("{PREFIX}{random:016x}"));
    let input = Input {
        agent: Some(agent),
        instance_key: Some(key),
        caller,
        ..Input::text(arguments.message)
    };
    service.swarm().send(input).await
}

/// The turn of a call that goes on.
async fn again(service: &Service, event_id: &str, agent: &str) -> Result<Found, ErrorData> {
    match service.swarm().find(event_id).await {
        Some(Found::Open(turn)) if turn.instance.agent != agent => Err(unknown_state()),
        Some(found) => Ok(found),
        None => Err(unknown_state()),
    }
}

fn unknown_state() -> ErrorData {
    ErrorData::invalid_params("`requestState` is of no call that is known", None)
}

/// The result of a turn, for a client. Its conversation is not known any more of one that was over before it was asked for.
fn told(result: &TurnResult, conversation: Option<String>) -> CallToolResult {
    let text = result.response_text();
    match Failure::of(result) {
        None => {
            let mut content = vec![ContentBlock::text(text.clone())];
            let mut data =
                json!({"answer": text, "conversation": conversation.unwrap_or_default()});
            if let Some(reason) = &result.model_finish_reason {
                let notice = CutNotice::of(reason);
                content.extend(notice.map(|notice| ContentBlock::text(notice.sentences())));
                data["finishReason"] = reason.as_str().into();
            }
            let mut told = CallToolResult::success(content);
            told.structured_content = Some(data);
            told
        }
        Some(why) if result.finish_reason == FinishReason::MaxSteps => {
            failure(&format!("{} {text}", why.words()))
        }
        Some(why) => failure(&why.words()),
    }
}

fn failed(code: &str, message: &str, suggestion: Option<String>) -> CallToolResult {
    let suggestion = suggestion
        .map(|words| format!(" {words}"))
        .unwrap_or_default();
    failure(&format!("[{code}] {message}{suggestion}"))
}

fn failure(words: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words.trim_end().to_owned())])
}
