//! Routes of conversations: list, read messages, cancel, retry and fork.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::ports::store::InstanceMeta;
use goondan::spec::Code;
use serde_json::Value;

use super::ErrorResponses;
use crate::event_stream::FollowedInput;
use crate::problem::{ApiProblem, JsonBody, QueryParams};
use crate::service::Service;
use crate::wire::{
    ForkBody, ForkedBody, InputState, InstanceFilter, InstancesBody, MessageFilter, MessagesBody,
    RetryBody,
};

/// List the conversations of the swarm.
#[utoipa::path(
    get,
    path = "/api/instances",
    params(InstanceFilter),
    responses((status = 200, body = InstancesBody), ErrorResponses),
)]
pub(super) async fn list(
    State(service): State<Service>,
    QueryParams(filter): QueryParams<InstanceFilter>,
) -> Result<Json<InstancesBody>, ApiProblem> {
    let metas = service.swarm().instances().await;
    let titles = service.swarm().titles().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the titles of conversations; listing none");
        HashMap::new()
    });
    let selected = metas.iter().filter(|meta| {
        filter
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == meta.agent)
    });
    let mut instances: Vec<Value> = selected
        .map(|meta| with_title(meta, titles.get(&meta.id())))
        .collect();
    let excess = instances
        .len()
        .saturating_sub(filter.limit.map_or(usize::MAX, |limit| limit as usize));
    instances.drain(..excess);
    Ok(Json(InstancesBody { instances }))
}

/// Encodes the metadata of a conversation with its title.
fn with_title(meta: &InstanceMeta, title: Option<&String>) -> Value {
    let mut value = serde_json::to_value(meta).unwrap_or_default();
    if let Some(title) = title {
        value["title"] = title.as_str().into();
    }
    value
}

/// Return the messages of a conversation.
#[utoipa::path(
    get,
    path = "/api/instances/{agent}/{key}/messages",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
        MessageFilter,
    ),
    responses((status = 200, body = MessagesBody), ErrorResponses),
)]
pub(super) async fn messages(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    QueryParams(filter): QueryParams<MessageFilter>,
) -> Result<Json<MessagesBody>, ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    if let (Some(_), Some(_)) = (filter.first, filter.last) {
        let problem = "The request has both `first` and `last`.";
        return Err(ApiProblem::new(Code::SERVE_REQUEST, problem).suggest("Use one of them."));
    }
    if let (Some(count), None) = (filter.first, &filter.before) {
        return first_messages(&service, &id, count as usize).await;
    }
    // The page of a long conversation needs only its end, so no more is read at first.
    let mut count = match (filter.last, &filter.before) {
        (Some(last), None) => last as usize,
        (Some(last), Some(_)) => (last as usize).saturating_mul(READ_GROWTH),
        (None, _) => usize::MAX,
    };
    loop {
        let (omitted, messages) = service.swarm().latest_messages(&id, count).await?;
        if let Some(range) = selected_range(&messages, omitted, &filter)? {
            return Ok(Json(MessagesBody {
                start: omitted + range.start,
                total: omitted + messages.len(),
                messages: messages[range]
                    .iter()
                    .map(|message| Message::clone(message))
                    .collect(),
            }));
        }
        count = count.saturating_mul(READ_GROWTH).max(1);
    }
}

/// Returns the first `count` messages.
async fn first_messages(
    service: &Service,
    id: &InstanceId,
    count: usize,
) -> Result<Json<MessagesBody>, ApiProblem> {
    let (messages, omitted) = service.swarm().first_messages(id, count).await?;
    let first_messages = messages.iter().take(count);
    Ok(Json(MessagesBody {
        start: 0,
        total: messages.len() + omitted,
        messages: first_messages
            .map(|message| Message::clone(message))
            .collect(),
    }))
}

/// Growth factor of the number of messages to read, if the requested messages are not among them.
const READ_GROWTH: usize = 8;

/// Returns the range of messages that the filter selects; `None` if it may include some of the
/// `omitted` messages before `messages`.
///
/// Fails with `SERVE_NOT_FOUND` if the filter names an unknown message.
fn selected_range(
    messages: &[Arc<Message>],
    omitted: usize,
    filter: &MessageFilter,
) -> Result<Option<Range<usize>>, ApiProblem> {
    let position = |id: &String| messages.iter().position(|message| message.id == *id);
    let end = match &filter.before {
        None => messages.len(),
        Some(id) => match position(id) {
            Some(position) => position,
            None if omitted > 0 => return Ok(None),
            None => {
                return Err(ApiProblem::new(
                    Code::SERVE_NOT_FOUND,
                    "The conversation has no message with the id in `before`.",
                )
                .suggest("GET …/messages returns the messages with their ids."));
            }
        },
    };
    if let Some(last) = filter.last {
        let is_complete = omitted == 0 || end >= last as usize;
        return Ok(is_complete.then(|| end.saturating_sub(last as usize)..end));
    }
    let first = filter.first.map_or(end, |first| end.min(first as usize));
    Ok(Some(0..first))
}

/// Cancel the running turn of a conversation.
#[utoipa::path(
    delete,
    path = "/api/instances/{agent}/{key}/turn",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses((status = 204, description = "The turn is being cancelled."), ErrorResponses),
)]
pub(super) async fn cancel(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<StatusCode, ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    if service.swarm().cancel(&id).await {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiProblem::new(
            Code::SERVE_CLOSED,
            format!("The conversation {id} has no running turn."),
        ))
    }
}

/// Start a failed event again.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/retry",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    request_body = RetryBody,
    responses((status = 202, body = InputState), ErrorResponses),
)]
pub(super) async fn retry(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    JsonBody(body): JsonBody<RetryBody>,
) -> Result<(StatusCode, Json<InputState>), ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    let turn = service.swarm().retry(&id, &body.event_id).await?;
    Ok((
        StatusCode::ACCEPTED,
        Json(FollowedInput::from(&turn).state(None)),
    ))
}

/// Create a conversation from messages of this one, without running a turn.
///
/// The new conversation is on disk when the response arrives.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/fork",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    request_body = ForkBody,
    responses((status = 201, body = ForkedBody), ErrorResponses),
)]
pub(super) async fn fork(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
    JsonBody(body): JsonBody<ForkBody>,
) -> Result<(StatusCode, Json<ForkedBody>), ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    let forked = service
        .swarm()
        .fork(&id, body.message_id.as_deref())
        .await?
        .ok_or_else(|| {
            ApiProblem::new(
                Code::SERVE_NOT_FOUND,
                format!("The conversation {id} has no message with this id."),
            )
            .suggest("GET …/messages returns the messages with their ids.")
        })?;
    let messages = service.swarm().conversation(&forked).await?.len();
    let body = ForkedBody {
        agent_name: forked.agent,
        instance_key: forked.instance_key,
        messages,
    };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Returns the conversation; fails if the conversation does not exist.
pub(super) async fn existing_instance(
    service: &Service,
    agent: String,
    key: String,
) -> Result<InstanceId, ApiProblem> {
    let id = InstanceId::new(agent, key);
    if service.swarm().has_instance(&id).await {
        Ok(id)
    } else {
        Err(unknown_instance(&id))
    }
}

/// Returns the error for a conversation that does not exist.
pub(super) fn unknown_instance(id: &InstanceId) -> ApiProblem {
    let problem = format!("There is no conversation {id}.");
    ApiProblem::new(Code::INSTANCE_NOT_FOUND, problem)
        .suggest("GET /api/instances lists all conversations.")
}
