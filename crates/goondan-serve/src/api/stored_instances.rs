//! Titles, states, export and deletion of conversations.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use goondan::conversation_title::{MAX_TITLE_CHARS, title_of};
use goondan::ids::InstanceId;
use goondan::spec::Code;
use serde_json::json;

use super::ErrorResponses;
use super::instances::{existing_instance, unknown_instance};
use crate::problem::{ApiProblem, JsonBody};
use crate::service::Service;
use crate::wire::{StatesBody, TitleBody};

/// Set the title of a conversation. An empty title removes the title.
///
/// The title is on disk when the response arrives, and it has no effect on turns. The response has
/// the title as it is stored, without surrounding spaces and line breaks.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/title",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    request_body = TitleBody,
    responses((status = 200, body = TitleBody), ErrorResponses),
)]
pub(super) async fn set_title(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    JsonBody(body): JsonBody<TitleBody>,
) -> Result<Json<TitleBody>, ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    if body.title.chars().count() > MAX_TITLE_CHARS {
        let problem = format!("The title has more than {MAX_TITLE_CHARS} characters.");
        return Err(ApiProblem::new(Code::SERVE_REQUEST, problem).suggest("Use a shorter title."));
    }
    let title = title_of(&body.title);
    service.swarm().set_title(&id, title.as_deref()).await?;
    let title = title.unwrap_or_default();
    Ok(Json(TitleBody { title }))
}

/// Return the states that extensions and tools have stored for a conversation.
///
/// A running turn stores the states of extensions when it ends. Extensions that the agent no longer
/// has are not included.
#[utoipa::path(
    get,
    path = "/api/instances/{agent}/{key}/states",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses((status = 200, body = StatesBody), ErrorResponses),
)]
pub(super) async fn states(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<Json<StatesBody>, ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    let states = service.swarm().states(&id).await?;
    let values = states.iter().map(|state| json!(state));
    Ok(Json(StatesBody {
        states: values.collect(),
    }))
}

/// Return a conversation as JSON Lines, like `gdn conversation export`.
///
/// The first line describes the conversation, and each further line is a message. Secrets are
/// masked. `gdn conversation import` reads this format.
#[utoipa::path(
    get,
    path = "/api/instances/{agent}/{key}/export",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses(
        (status = 200, content_type = "application/jsonl", body = String),
        ErrorResponses,
    ),
)]
pub(super) async fn export(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<Response, ApiProblem> {
    let id = InstanceId::new(agent, key);
    let exported = service.swarm().export(&id).await?;
    let text = exported.ok_or_else(|| unknown_instance(&id))?;
    Ok(([(CONTENT_TYPE, "application/jsonl")], text).into_response())
}

/// Delete a conversation with all its data and its permanent approvals.
///
/// Fails with status 409 if a turn of the conversation runs or waits. Conversations of called agents
/// and files of the project stay.
#[utoipa::path(
    delete,
    path = "/api/instances/{agent}/{key}",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses((status = 204, description = "The conversation is deleted."), ErrorResponses),
)]
pub(super) async fn delete(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<StatusCode, ApiProblem> {
    let id = InstanceId::new(agent, key);
    if service.swarm().delete(&id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(unknown_instance(&id))
    }
}
