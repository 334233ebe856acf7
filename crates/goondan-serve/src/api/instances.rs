//! Conversations.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::spec::Code;
use serde_json::Value;

use super::Problems;
use crate::problem::{Asked, Body, Problem};
use crate::service::Service;
use crate::stream::Followed;
use crate::wire::{
    ForkBody, ForkedBody, InputState, InstanceFilter, InstancesBody, MessagesBody, RetryBody,
};

/// Lists the conversations of the swarm.
#[utoipa::path(
    get,
    path = "/api/instances",
    params(InstanceFilter),
    responses((status = 200, body = InstancesBody), Problems),
)]
pub(super) async fn list(
    State(service): State<Service>,
    Asked(filter): Asked<InstanceFilter>,
) -> Result<Json<InstancesBody>, Problem> {
    let metas = service.swarm().instances().await;
    let wanted = metas.iter().filter(|meta| {
        filter
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == meta.agent)
    });
    let mut instances: Vec<Value> = wanted
        .map(|meta| serde_json::to_value(meta).unwrap_or_default())
        .collect();
    let excess = instances
        .len()
        .saturating_sub(filter.limit.map_or(usize::MAX, |limit| limit as usize));
    instances.drain(..excess);
    Ok(Json(InstancesBody { instances }))
}

/// Shows the messages of a conversation.
#[utoipa::path(
    get,
    path = "/api/instances/{agent}/{key}/messages",
    params(("agent" = String, Path, description = "The agent."), ("key" = String, Path, description = "The instance key.")),
    responses((status = 200, body = MessagesBody), Problems),
)]
pub(super) async fn messages(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<Json<MessagesBody>, Problem> {
    let id = known(&service, agent, key).await?;
    let messages = service.swarm().conversation(&id).await?;
    Ok(Json(MessagesBody {
        messages: messages
            .iter()
            .map(|message| Message::clone(message))
            .collect(),
    }))
}

/// Cancels the running turn of a conversation.
#[utoipa::path(
    delete,
    path = "/api/instances/{agent}/{key}/turn",
    params(("agent" = String, Path, description = "The agent."), ("key" = String, Path, description = "The instance key.")),
    responses((status = 204, description = "It is being cancelled."), Problems),
)]
pub(super) async fn cancel(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let id = known(&service, agent, key).await?;
    match service.swarm().cancel(&id).await {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::new(
            Code::SERVE_CLOSED,
            format!("No turn of {id} runs."),
        )),
    }
}

/// Starts an event again whose turn failed.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/retry",
    params(("agent" = String, Path, description = "The agent."), ("key" = String, Path, description = "The instance key.")),
    request_body = RetryBody,
    responses((status = 202, body = InputState), Problems),
)]
pub(super) async fn retry(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    Body(body): Body<RetryBody>,
) -> Result<(StatusCode, Json<InputState>), Problem> {
    let id = known(&service, agent, key).await?;
    let turn = service.swarm().retry(&id, &body.event_id).await?;
    Ok((
        StatusCode::ACCEPTED,
        Json(Followed::from(&turn).state(None)),
    ))
}

/// Makes a new conversation that begins with messages of this one. It is on disk when the answer comes. No turn runs.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/fork",
    params(("agent" = String, Path, description = "The agent."), ("key" = String, Path, description = "The instance key.")),
    request_body = ForkBody,
    responses((status = 201, body = ForkedBody), Problems),
)]
pub(super) async fn fork(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    Body(body): Body<ForkBody>,
) -> Result<(StatusCode, Json<ForkedBody>), Problem> {
    let id = known(&service, agent, key).await?;
    let forked = service
        .swarm()
        .fork(&id, body.message_id.as_deref())
        .await?
        .ok_or_else(|| {
            Problem::new(
                Code::SERVE_NOT_FOUND,
                format!("{id} has no message of that id."),
            )
            .suggest("GET …/messages shows the messages with their ids.")
        })?;
    let messages = service.swarm().conversation(&forked).await?.len();
    let body = ForkedBody {
        agent_name: forked.agent,
        instance_key: forked.instance_key,
        messages,
    };
    Ok((StatusCode::CREATED, Json(body)))
}

pub(super) async fn known(
    service: &Service,
    agent: String,
    key: String,
) -> Result<InstanceId, Problem> {
    let id = InstanceId::new(agent, key);
    match service.swarm().has_instance(&id).await {
        true => Ok(id),
        false => Err(Problem::new(
            Code::INSTANCE_NOT_FOUND,
            format!("There is no instance {id}."),
        )
        .suggest("GET /api/instances lists those that there are.")),
    }
}
