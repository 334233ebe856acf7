//! Routes of approval requests: list the open requests and answer one.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::ErrorResponses;
use crate::problem::{ApiProblem, JsonBody};
use crate::service::Service;
use crate::wire::{AnswerBody, QuestionBody};

/// List the open approval requests, oldest first.
#[utoipa::path(get, path = "/api/approvals", responses((status = 200, body = Vec<QuestionBody>), ErrorResponses))]
pub(super) async fn list(State(service): State<Service>) -> Json<Vec<QuestionBody>> {
    let open_requests = service.gateway().approvals().open();
    Json(
        open_requests
            .iter()
            .map(|question| QuestionBody::from(&*question.request))
            .collect(),
    )
}

/// Answer an approval request. Only the first answer counts.
#[utoipa::path(
    post,
    path = "/api/approvals/{id}",
    params(("id" = String, Path, description = "The approval request id.")),
    request_body = AnswerBody,
    responses((status = 204, description = "The answer is applied to the call."), ErrorResponses),
)]
pub(super) async fn answer(
    State(service): State<Service>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<StatusCode, ApiProblem> {
    service
        .gateway()
        .approvals()
        .answer(&id, body.to_approval_answer())?;
    Ok(StatusCode::NO_CONTENT)
}
