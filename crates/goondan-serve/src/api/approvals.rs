//! Questions that wait for somebody's word.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goondan::Question;
use goondan::ports::approval::Covers;
use goondan::spec::Code;

use super::Problems;
use crate::problem::{Body, Problem};
use crate::service::Service;
use crate::wire::{AnswerBody, QuestionBody};

/// Lists the questions that nobody has answered yet, oldest first.
#[utoipa::path(get, path = "/api/approvals", responses((status = 200, body = Vec<QuestionBody>), Problems))]
pub(super) async fn list(State(service): State<Service>) -> Json<Vec<QuestionBody>> {
    let open = service.inner.broker.open();
    Json(
        open.iter()
            .map(|question| QuestionBody::from(&*question.request))
            .collect(),
    )
}

/// Answers a question. The first answer counts.
#[utoipa::path(
    post,
    path = "/api/approvals/{id}",
    params(("id" = String, Path, description = "The id of the question.")),
    request_body = AnswerBody,
    responses((status = 204, description = "The call goes on with this answer."), Problems),
)]
pub(super) async fn answer(
    State(service): State<Service>,
    Path(id): Path<String>,
    Body(body): Body<AnswerBody>,
) -> Result<StatusCode, Problem> {
    let (answer, covers) = (body.meaning(), Covers::from(body.covers));
    let open = service.inner.broker.open();
    let is_asked = |question: &&Question| question.request.id == id;
    if let Some(question) = open.iter().find(is_asked)
        && covers != Covers::Call
        && !question.request.is_offered(covers)
    {
        return Err(
            Problem::new(Code::INVALID_ARGUMENT, "The question does not offer that.")
                .suggest("It is still open. Its `offers` say what an answer may cover."),
        );
    }
    let is_answered = open
        .iter()
        .any(|question| question.request.id == id && question.answer(answer));
    match is_answered {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(
            Problem::new(Code::SERVE_CLOSED, "No such question is open.").suggest(
                "It was answered or withdrawn. GET /api/approvals lists those that are open.",
            ),
        ),
    }
}
