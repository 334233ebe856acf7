//! Approval requests.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::ApprovalHandle;
use goondan::ports::approval::ApprovalCoverage;
use goondan::spec::Code;

use super::ErrorResponses;
use crate::problem::{ApiProblem, JsonBody};
use crate::service::Service;
use crate::wire::{AnswerBody, QuestionBody};

/// List the open approval requests, oldest first.
#[utoipa::path(get, path = "/api/approvals", responses((status = 200, body = Vec<QuestionBody>), ErrorResponses))]
pub(super) async fn list(State(service): State<Service>) -> Json<Vec<QuestionBody>> {
    let open = service.inner.broker.open();
    Json(
        open.iter()
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
    let (answer, covers) = (body.meaning(), ApprovalCoverage::from(body.covers));
    let open = service.inner.broker.open();
    let is_asked = |question: &&ApprovalHandle| question.request.id == id;
    if let Some(question) = open.iter().find(is_asked)
        && covers != ApprovalCoverage::Call
        && !question.request.is_offered(covers)
    {
        return Err(ApiProblem::new(
            Code::INVALID_ARGUMENT,
            "The approval request does not offer this scope.",
        )
        .suggest("The request is still open. Use a scope from its `offers`."));
    }
    let is_answered = open
        .iter()
        .any(|question| question.request.id == id && question.answer(answer));
    match is_answered {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiProblem::new(
            Code::SERVE_CLOSED,
            "There is no open approval request with this id.",
        )
        .suggest(
            "The request was answered or withdrawn. GET /api/approvals lists the open requests.",
        )),
    }
}
