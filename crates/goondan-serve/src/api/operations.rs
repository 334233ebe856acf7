//! Operations on a conversation: compaction, and removal of the last turn.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::ErrorResponses;
use super::instances::existing_instance;
use crate::event_stream::FollowedInput;
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::wire::InputState;

/// Replace the messages of a conversation with a summary.
///
/// The operation has an id like an input and waits for a running turn. The `output` of its result has
/// `messagesBefore`, `messagesAfter`, and the approximate `tokensBefore` and `tokensAfter`.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/compact",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses((status = 202, body = InputState), ErrorResponses),
)]
pub(super) async fn compact(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<(StatusCode, Json<InputState>), ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    let turn = service.swarm().compact(&id).await?;
    let state = FollowedInput::from(&turn).state(None);
    Ok((StatusCode::ACCEPTED, Json(state)))
}

/// Take back the last turn of a conversation.
///
/// Removes the last input and everything after it. Effects of tools remain. The `output` of the result
/// has the text of the `input` (null if none is left) and the number of removed `toolCalls`.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/undo",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    responses((status = 202, body = InputState), ErrorResponses),
)]
pub(super) async fn undo(
    State(service): State<Service>,
    Path((agent, key)): Path<(String, String)>,
) -> Result<(StatusCode, Json<InputState>), ApiProblem> {
    let id = existing_instance(&service, agent, key).await?;
    let turn = service.swarm().undo(&id).await?;
    let state = FollowedInput::from(&turn).state(None);
    Ok((StatusCode::ACCEPTED, Json(state)))
}
