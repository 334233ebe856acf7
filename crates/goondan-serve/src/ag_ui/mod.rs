//! Pages that speak AG-UI: a run is a turn, a thread is a conversation. `docs/ag-ui.md` tells what is promised.

mod events;
mod input;
mod run;
mod stream;

use crate::caller::caller;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;

use self::input::RunInput;
use crate::api::{Problems, known};
use crate::problem::{Body, Problem};
use crate::service::Service;

/// Runs an agent, and tells of the run as the events of AG-UI.
///
/// The stream ends with `RUN_FINISHED` or `RUN_ERROR`. The thread is a conversation, and the same run twice starts one turn.
#[utoipa::path(
    post,
    path = "/ag-ui/{agent}",
    params(("agent" = String, Path, description = "The name of the agent.")),
    request_body = RunInput,
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), Problems),
)]
pub(crate) async fn run(
    State(service): State<Service>,
    Path(agent): Path<String>,
    headers: HeaderMap,
    Body(input): Body<RunInput>,
) -> Result<Response, Problem> {
    known(&service, &agent)?;
    for (name, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
        if id.is_empty() {
            return Err(
                Problem::new(Code::SERVE_REQUEST, format!("`{name}` is empty."))
                    .suggest("Choose any id."),
            );
        }
    }
    Ok(
        match run::begin(&service, &agent, &input, caller(&headers)).await {
            Ok(run) => stream::respond(&service, &input, run).into_response(),
            // Clients of this protocol expect to hear of it in the stream.
            Err(problem) => stream::refused(&problem).into_response(),
        },
    )
}
