//! A2A protocol for agents of other programs, versions 1.0 and 0.3, as JSON-RPC over HTTP.
//! `docs/a2a.md` describes the supported features.
//!
//! A task is an input, and a context is a conversation. The task id is the id of its event and
//! contains the conversation key, so a restart loses no tasks. Only the approval request that a
//! client last saw is kept in memory.

mod approval;
mod card;
mod encoding;
mod list;
mod message;
mod rpc;
mod send;
mod stream;
mod task;

use crate::trace_context::caller_trace;
use goondan::start::telemetry::CallerTrace;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use goondan::spec::Code;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use self::approval::ShownRequests;
use self::encoding::ResultType;
use self::message::IncomingMessage;
use self::rpc::{RpcError, RpcOperation, RpcRequest};
use self::send::StartedTask;
use self::stream::{StreamEnd, StreamRequest};
use self::task::{Task, TaskId};
use crate::api::ErrorResponses;
use crate::auth::AccessPolicy;
use crate::problem::ApiProblem;
use crate::requested_agent::agent_named;
use crate::service::Service;

/// Longest wait for a cancelled task to end. The response then shows its current state.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
pub(crate) struct VersionQuery {
    #[serde(rename = "A2A-Version")]
    version: Option<String>,
}

/// Return the A2A agent card of the entry agent.
#[utoipa::path(
    get,
    path = "/.well-known/agent-card.json",
    responses((status = 200, body = Object, description = "The card of the entry agent."), ErrorResponses),
)]
pub(crate) async fn entry_card(
    State(service): State<Service>,
    Extension(access): Extension<Arc<AccessPolicy>>,
    headers: HeaderMap,
) -> Response {
    let entry = service.swarm().entry_agent();
    card_response(&service, &entry, &headers, &access)
}

/// Return the A2A agent card of an agent.
#[utoipa::path(
    get,
    path = "/a2a/{agent}/.well-known/agent-card.json",
    params(("agent" = String, Path, description = "The name of the agent, or of the swarm.")),
    responses((status = 200, body = Object, description = "The card of the agent."), ErrorResponses),
)]
pub(crate) async fn agent_card(
    State(service): State<Service>,
    Extension(access): Extension<Arc<AccessPolicy>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let agent = agent_named(&service, agent)?;
    Ok(card_response(&service, &agent, &headers, &access))
}

/// Returns routes that lead from the cards' former URLs to the current ones.
pub(crate) fn former_card_routes() -> OpenApiRouter<Service> {
    let moved = || axum::routing::get(async || Redirect::permanent("agent-card.json"));
    OpenApiRouter::new()
        .route("/.well-known/agent.json", moved())
        .route("/a2a/{agent}/.well-known/agent.json", moved())
}

/// Returns the card of an agent, or 304 if the client has this version of the card.
fn card_response(
    service: &Service,
    agent: &str,
    headers: &HeaderMap,
    access: &AccessPolicy,
) -> Response {
    let card = card::for_agent(service, agent, headers, access.token.is_some());
    let tag = format!(
        "\"{}\"",
        goondan::ids::hex(&Sha256::digest(card.to_string())[..8])
    );
    let client_tags = headers
        .get(IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .unwrap_or_default();
    let is_known = client_tags
        .split(',')
        .any(|client_tag| client_tag.trim().trim_start_matches("W/") == tag);
    let response_headers = [
        (ETAG, tag),
        (CACHE_CONTROL, "private, max-age=60".to_owned()),
        (VARY, rpc::VERSION_HEADER.to_owned()),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, response_headers).into_response(),
        false => (response_headers, Json(card)).into_response(),
    }
}

/// Handle an A2A request for an agent: JSON-RPC, versions 1.0 and 0.3.
///
/// The methods are `SendMessage`, `SendStreamingMessage`, `GetTask`, `ListTasks`, `CancelTask` and
/// `SubscribeToTask`, and their counterparts of 0.3. See `docs/a2a.md`.
#[utoipa::path(
    post,
    path = "/a2a/{agent}",
    params(
        ("agent" = String, Path, description = "The name of the agent, or of the swarm."),
        ("A2A-Version" = Option<String>, Header, description = "The A2A version: 1.0 or 0.3."),
    ),
    request_body(content = Value, description = "A JSON-RPC request."),
    responses(
        (status = 200, body = Object, description = "A JSON-RPC response, possibly an error, or a \
            stream of responses."),
        ErrorResponses,
    ),
)]
pub(crate) async fn call(
    State(service): State<Service>,
    Path(agent): Path<String>,
    Query(VersionQuery { version }): Query<VersionQuery>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiProblem> {
    let agent = agent_named(&service, agent)?;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiProblem::too_large(),
        _ => ApiProblem::new(Code::SERVE_REQUEST, rejection.body_text()),
    })?;
    let request = match RpcRequest::read(&headers, version.as_deref(), &body) {
        Ok(request) => request,
        Err((id, error)) => return Ok(error.answer(&id)),
    };
    let id = request.id.clone();
    Ok(answer_to(&service, &agent, request, caller_trace(&headers))
        .await
        .unwrap_or_else(|error| error.answer(&id)))
}

/// Handles a parsed request.
async fn answer_to(
    service: &Service,
    agent: &str,
    request: RpcRequest,
    caller: Option<CallerTrace>,
) -> Result<Response, RpcError> {
    let RpcRequest {
        id,
        operation,
        dialect,
        params,
    } = request;
    let result = match operation {
        RpcOperation::Send => {
            let message = IncomingMessage::read(params, dialect)?;
            let started = send::begin(service, agent, &message, caller).await?;
            let task = send::wait_for_task(service, started, message.at_once).await?;
            dialect.encode_response(
                ResultType::Task,
                task.write(dialect, message.history, /* artifacts */ true),
            )
        }
        RpcOperation::Stream => {
            let message = IncomingMessage::read(params, dialect)?;
            let started = send::begin(service, agent, &message, caller).await?;
            let stream_request = StreamRequest {
                rpc: id,
                dialect,
                until: StreamEnd::Question,
                history: message.history,
            };
            return Ok(stream::stream_task(service, started, stream_request).into_response());
        }
        RpcOperation::Subscribe => {
            let started =
                StartedTask::find(service, parse_task_id(params.task_id()?, agent)?).await?;
            if find(service, &started.id).await?.is_over() {
                return Err(RpcError::unsupported_operation(
                    "The task is over and sends no more updates. Get the task instead.",
                ));
            }
            let stream_request = StreamRequest {
                rpc: id,
                dialect,
                until: StreamEnd::End,
                history: None,
            };
            return Ok(stream::stream_task(service, started, stream_request).into_response());
        }
        RpcOperation::Get => {
            let history = params.number("historyLength")?;
            let task = find(service, &parse_task_id(params.task_id()?, agent)?).await?;
            dialect.encode_task(task.write(dialect, history, /* artifacts */ true))
        }
        RpcOperation::Cancel => {
            let task = cancel(service, &parse_task_id(params.task_id()?, agent)?).await?;
            dialect.encode_task(task.write(dialect, None, /* artifacts */ true))
        }
        RpcOperation::List => list::task_page(service, agent, &params, dialect).await?,
        RpcOperation::Push => return Err(message::no_push()),
        RpcOperation::Card => {
            return Err(RpcError::unsupported_operation(
                "There is no extended agent card.",
            ));
        }
    };
    Ok(Json(rpc::response(&id, &result)).into_response())
}

/// Parses a task id of this agent.
fn parse_task_id(id: &str, agent: &str) -> Result<TaskId, RpcError> {
    TaskId::read(id, agent).ok_or_else(|| RpcError::task_not_found(id))
}

/// Looks up a task; fails if the task is unknown.
async fn find(service: &Service, id: &TaskId) -> Result<Task, RpcError> {
    Task::find(service, id)
        .await
        .ok_or_else(|| RpcError::task_not_found(&id.id))
}

/// Cancels a task and waits for its end, at most [`CANCEL_TIMEOUT`]. Fails if the task is over.
async fn cancel(service: &Service, id: &TaskId) -> Result<Task, RpcError> {
    if !service.swarm().cancel_event(&id.id).await {
        let task = find(service, id).await?;
        let error = RpcError::new(-32002, "TASK_NOT_CANCELABLE", "The task is already over.")
            .with("taskId", &*id.id);
        return if task.is_over() { Err(error) } else { Ok(task) };
    }
    if let Some(goondan::SubmittedEventState::Open(turn)) = service.swarm().find(&id.id).await {
        // After this time, the response shows the task in its current state.
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, turn.result()).await;
    }
    find(service, id).await
}
