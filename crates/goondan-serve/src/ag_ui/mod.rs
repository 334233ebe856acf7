//! AG-UI protocol for web pages: a run is a turn, a thread is a conversation. `docs/ag-ui.md`
//! describes the supported features.

mod events;
mod input;
mod run;
mod stream;

use crate::trace_context::caller_trace;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;

use self::input::RunInput;
use crate::api::ErrorResponses;
use crate::problem::{ApiProblem, JsonBody};
use crate::requested_agent::agent_named;
use crate::service::Service;

/// Run an agent and stream the run as AG-UI events.
///
/// The stream ends with `RUN_FINISHED` or `RUN_ERROR`. The thread is a conversation. A repeated run
/// id starts no second turn.
#[utoipa::path(
    post,
    path = "/ag-ui/{agent}",
    params(("agent" = String, Path, description = "The name of the agent, or of the swarm.")),
    request_body = RunInput,
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), ErrorResponses),
)]
pub(crate) async fn run(
    State(service): State<Service>,
    Path(agent): Path<String>,
    headers: HeaderMap,
    JsonBody(input): JsonBody<RunInput>,
) -> Result<Response, ApiProblem> {
    let agent = agent_named(&service, agent)?;
    for (name, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
        if id.is_empty() {
            return Err(
                ApiProblem::new(Code::SERVE_REQUEST, format!("`{name}` is empty."))
                    .suggest("Choose any id."),
            );
        }
    }
    Ok(
        match run::begin(&service, &agent, &input, caller_trace(&headers)).await {
            Ok(run) => stream::stream_run(&service, &input, run).into_response(),
            // AG-UI clients expect errors in the stream.
            Err(problem) => stream::rejected_run(&problem).into_response(),
        },
    )
}
