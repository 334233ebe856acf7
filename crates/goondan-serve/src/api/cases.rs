//! Conversations recorded as test cases.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use goondan::spec::Code;

use super::ErrorResponses;
use super::instances::known;
use crate::problem::{ApiProblem, JsonBody};
use crate::recorder::CaseRecorder;
use crate::service::Service;
use crate::wire::{CaseBody, CaseSource};

/// Record a conversation or one of its turns as a test case, like `gdn test record`.
///
/// The server runs the test case before it responds, and returns only a test case that passes.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/case",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("key" = String, Path, description = "The conversation key."),
    ),
    request_body = CaseSource,
    responses((status = 200, body = CaseBody), ErrorResponses),
)]
pub(super) async fn record(
    State(service): State<Service>,
    Extension(recorder): Extension<Arc<dyn CaseRecorder>>,
    Path((agent, key)): Path<(String, String)>,
    JsonBody(body): JsonBody<CaseSource>,
) -> Result<Json<CaseBody>, ApiProblem> {
    let id = known(&service, agent, key).await?;
    let case = recorder
        .record(service.swarm(), &id, body.message_id.as_deref())
        .await;
    case.map(Json).map_err(|reason| {
        ApiProblem::new(Code::CASE_NOT_RECORDED, reason.0)
            .suggest("Record a turn that can be replayed.")
    })
}
