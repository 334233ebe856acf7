//! Events whose turns failed.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::ids::InstanceId;

use super::Problems;
use crate::problem::{Asked, Problem};
use crate::service::Service;
use crate::wire::{DeadLettersBody, LetterFilter};

/// Lists the events whose turns failed and that nobody has had tried again.
#[utoipa::path(get, path = "/api/dead-letters", params(LetterFilter), responses((status = 200, body = DeadLettersBody), Problems))]
pub(super) async fn list(
    State(service): State<Service>,
    Asked(filter): Asked<LetterFilter>,
) -> Result<Json<DeadLettersBody>, Problem> {
    let letters = service.swarm().dead_letters().await?;
    let wanted = letters.iter().filter(|letter| {
        filter
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == letter.event.target.agent)
    });
    let dead_letters = wanted
        .map(|letter| serde_json::to_value(letter).unwrap_or_default())
        .collect();
    Ok(Json(DeadLettersBody { dead_letters }))
}

/// Takes an event whose turn failed off the list.
#[utoipa::path(
    delete,
    path = "/api/instances/{agent}/{key}/dead-letters/{event}",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The instance key."),
        ("event" = String, Path, description = "The id of the event."),
    ),
    responses((status = 204, description = "Nobody will try it again."), Problems),
)]
pub(super) async fn discard(
    State(service): State<Service>,
    Path((agent, key, event)): Path<(String, String, String)>,
) -> Result<StatusCode, Problem> {
    service
        .swarm()
        .discard(&InstanceId::new(agent, key), &event)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
