//! Routes of failed events: list and discard.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::ids::InstanceId;

use super::ErrorResponses;
use crate::problem::{ApiProblem, QueryParams};
use crate::service::Service;
use crate::wire::{DeadLetterFilter, DeadLettersBody};

/// List the failed events that were not started again.
#[utoipa::path(get, path = "/api/dead-letters", params(DeadLetterFilter), responses((status = 200, body = DeadLettersBody), ErrorResponses))]
pub(super) async fn list(
    State(service): State<Service>,
    QueryParams(filter): QueryParams<DeadLetterFilter>,
) -> Result<Json<DeadLettersBody>, ApiProblem> {
    let letters = service.swarm().dead_letters().await?;
    let selected = letters.iter().filter(|letter| {
        filter
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == letter.event.target.agent)
    });
    let dead_letters = selected
        .map(|letter| serde_json::to_value(letter).unwrap_or_default())
        .collect();
    Ok(Json(DeadLettersBody { dead_letters }))
}

/// Remove a failed event from the list.
#[utoipa::path(
    delete,
    path = "/api/instances/{agent}/{key}/dead-letters/{event}",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
        ("event" = String, Path, description = "The event id."),
    ),
    responses((status = 204, description = "The event is discarded."), ErrorResponses),
)]
pub(super) async fn discard(
    State(service): State<Service>,
    Path((agent, key, event)): Path<(String, String, String)>,
) -> Result<StatusCode, ApiProblem> {
    service
        .swarm()
        .discard(&InstanceId::new(agent, key), &event)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
