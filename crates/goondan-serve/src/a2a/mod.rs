//! Agents of other programs as clients: the protocol A2A, in its versions 1.0 and 0.3, as JSON-RPC over HTTP. `docs/a2a.md`
//! tells what is promised.
//!
//! A task is an input, a context is a conversation. The id of a task is the one of its event and says in which conversation it
//! is: nothing is kept here that a restart would miss, but for which question a client was asked last.

mod answer;
mod card;
mod dialect;
mod list;
mod message;
mod rpc;
mod send;
mod stream;
mod task;

use crate::caller::caller;
use goondan::telemetry::Caller;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use goondan::spec::Code;
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub(crate) use self::answer::Told;
use self::dialect::Shape;
use self::message::Incoming;
use self::rpc::{Operation, Request, RpcError};
use self::send::Begun;
use self::stream::{Asked, Until};
use self::task::{Task, TaskId};
use crate::api::{Problems, known};
use crate::guard::Access;
use crate::problem::Problem;
use crate::service::Service;

/// A task that is cancelled ends within that time, as a rule. The answer does not wait longer.
const ENDING: Duration = Duration::from_secs(5);

/// What may stand behind the question mark.
#[derive(Deserialize)]
pub(crate) struct Version {
    #[serde(rename = "A2A-Version")]
    version: Option<String>,
}

/// Tells of the entry agent, as A2A's agent card.
#[utoipa::path(
    get,
    path = "/.well-known/agent-card.json",
    responses((status = 200, body = Object, description = "The card of the entry agent."), Problems),
)]
pub(crate) async fn entry_card(
    State(service): State<Service>,
    Extension(access): Extension<Arc<Access>>,
    headers: HeaderMap,
) -> Response {
    let entry = service.swarm().entry_agent();
    told(&service, &entry, &headers, &access)
}

/// Tells of an agent, as A2A's agent card.
#[utoipa::path(
    get,
    path = "/a2a/{agent}/.well-known/agent-card.json",
    params(("agent" = String, Path, description = "The name of the agent.")),
    responses((status = 200, body = Object, description = "The card of the agent."), Problems),
)]
pub(crate) async fn agent_card(
    State(service): State<Service>,
    Extension(access): Extension<Arc<Access>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    known(&service, &agent)?;
    Ok(told(&service, &agent, &headers, &access))
}

fn told(service: &Service, agent: &str, headers: &HeaderMap, access: &Access) -> Response {
    let card = card::of(service, agent, headers, access.token.is_some());
    let tag = format!(
        "\"{}\"",
        goondan::ids::hex(&Sha256::digest(card.to_string())[..8])
    );
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .unwrap_or_default();
    let is_known = known
        .split(',')
        .any(|known| known.trim().trim_start_matches("W/") == tag);
    let told = [
        (ETAG, tag),
        (CACHE_CONTROL, "private, max-age=60".to_owned()),
        (VARY, rpc::VERSION.to_owned()),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, told).into_response(),
        false => (told, Json(card)).into_response(),
    }
}

/// Takes a request of A2A for an agent: JSON-RPC, in the versions 1.0 and 0.3.
///
/// The methods are `SendMessage`, `SendStreamingMessage`, `GetTask`, `ListTasks`, `CancelTask` and `SubscribeToTask`, and their
/// counterparts of 0.3. `docs/a2a.md` tells more.
#[utoipa::path(
    post,
    path = "/a2a/{agent}",
    params(
        ("agent" = String, Path, description = "The name of the agent."),
        ("A2A-Version" = Option<String>, Header, description = "The version of the protocol: 1.0, or 0.3."),
    ),
    request_body(content = Value, description = "A JSON-RPC request."),
    responses(
        (status = 200, body = Object, description = "A JSON-RPC response, which may be an error; or a stream of them."),
        Problems,
    ),
)]
pub(crate) async fn call(
    State(service): State<Service>,
    Path(agent): Path<String>,
    Query(Version { version }): Query<Version>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    known(&service, &agent)?;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(),
        _ => Problem::new(Code::SERVE_REQUEST, rejection.body_text()),
    })?;
    let request = match Request::read(&headers, version.as_deref(), &body) {
        Ok(request) => request,
        Err((id, error)) => return Ok(error.answer(&id)),
    };
    let id = request.id.clone();
    Ok(answer_to(&service, &agent, request, caller(&headers))
        .await
        .unwrap_or_else(|error| error.answer(&id)))
}

async fn answer_to(
    service: &Service,
    agent: &str,
    request: Request,
    caller: Option<Caller>,
) -> Result<Response, RpcError> {
    let Request {
        id,
        operation,
        dialect,
        params,
    } = request;
    let result = match operation {
        Operation::Send => {
            let message = Incoming::read(params, dialect)?;
            let begun = send::begin(service, agent, &message, caller).await?;
            let task = send::settled(service, begun, message.at_once).await?;
            dialect.wrapped(Shape::Task, task.write(dialect, message.history, true))
        }
        Operation::Stream => {
            let message = Incoming::read(params, dialect)?;
            let begun = send::begin(service, agent, &message, caller).await?;
            let asked = Asked {
                rpc: id,
                dialect,
                until: Until::Question,
                history: message.history,
            };
            return Ok(stream::respond(service, begun, asked).into_response());
        }
        Operation::Subscribe => {
            let begun = Begun::known(service, task(params.task()?, agent)?).await?;
            if find(service, &begun.id).await?.is_over() {
                return Err(RpcError::unsupported(
                    "The task is over. Ask for it: nothing more comes.",
                ));
            }
            let asked = Asked {
                rpc: id,
                dialect,
                until: Until::End,
                history: None,
            };
            return Ok(stream::respond(service, begun, asked).into_response());
        }
        Operation::Get => {
            let history = params.number("historyLength")?;
            let task = find(service, &task(params.task()?, agent)?).await?;
            dialect.given(task.write(dialect, history, true))
        }
        Operation::Cancel => {
            let task = cancel(service, &task(params.task()?, agent)?).await?;
            dialect.given(task.write(dialect, None, true))
        }
        Operation::List => list::page(service, agent, &params, dialect).await?,
        Operation::Push => return Err(message::no_push()),
        Operation::Card => {
            return Err(RpcError::unsupported(
                "There is no other card for clients that are known.",
            ));
        }
    };
    Ok(Json(rpc::response(&id, &result)).into_response())
}

fn task(id: &str, agent: &str) -> Result<TaskId, RpcError> {
    TaskId::read(id, agent).ok_or_else(|| RpcError::task_not_found(id))
}

async fn find(service: &Service, id: &TaskId) -> Result<Task, RpcError> {
    Task::find(service, id)
        .await
        .ok_or_else(|| RpcError::task_not_found(&id.id))
}

async fn cancel(service: &Service, id: &TaskId) -> Result<Task, RpcError> {
    if !service.swarm().cancel_event(&id.id).await {
        let task = find(service, id).await?;
        let error = RpcError::new(-32002, "TASK_NOT_CANCELABLE", "The task is over already.")
            .with("taskId", &*id.id);
        return if task.is_over() { Err(error) } else { Ok(task) };
    }
    if let Some(goondan::Found::Open(turn)) = service.swarm().find(&id.id).await {
        // Where it takes longer, the task is told as it stands.
        let _ = tokio::time::timeout(ENDING, turn.result()).await;
    }
    find(service, id).await
}
