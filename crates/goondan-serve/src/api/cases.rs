//! Conversations as cases that are played again.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use goondan::spec::Code;

use super::Problems;
use super::instances::known;
use crate::problem::{Body, Problem};
use crate::recorder::Recorder;
use crate::service::Service;
use crate::wire::{CaseBody, CaseOf};

/// Makes a case of a conversation or of one of its turns, as `gdn test record` does. It has passed when the answer comes.
#[utoipa::path(
    post,
    path = "/api/instances/{agent}/{key}/case",
    params(("agent" = String, Path, description = "The agent."), ("key" = String, Path, description = "The instance key.")),
    request_body = CaseOf,
    responses((status = 200, body = CaseBody), Problems),
)]
pub(super) async fn record(
    State(service): State<Service>,
    Extension(recorder): Extension<Arc<dyn Recorder>>,
    Path((agent, key)): Path<(String, String)>,
    Body(body): Body<CaseOf>,
) -> Result<Json<CaseBody>, Problem> {
    let id = known(&service, agent, key).await?;
    let case = recorder
        .record(service.swarm(), &id, body.message_id.as_deref())
        .await;
    case.map(Json).map_err(|reason| {
        Problem::new(Code::CASE_NOT_RECORDED, reason.0)
            .suggest("Make a case of a turn that can be played.")
    })
}
