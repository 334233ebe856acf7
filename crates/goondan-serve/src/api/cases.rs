//! Test cases: recorded conversations, and the test cases of the project.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::{Extension, Json};
use futures::stream::poll_fn;
use goondan::spec::{Code, Diagnostic};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::ErrorResponses;
use super::instances::existing_instance;
use crate::case_runner::CaseRunner;
use crate::problem::{ApiProblem, JsonBody};
use crate::recorder::CaseRecorder;
use crate::service::Service;
use crate::wire::{CaseBody, CaseResultBody, CaseRunBody, CaseSource, CaseTotalsBody, CasesBody};

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
    let id = existing_instance(&service, agent, key).await?;
    let case = recorder
        .record(service.swarm(), &id, body.message_id.as_deref())
        .await;
    case.map(Json).map_err(|reason| {
        ApiProblem::new(Code::CASE_NOT_RECORDED, reason.0)
            .suggest("Record a turn that can be replayed.")
    })
}

/// List the test cases in the project directory.
#[utoipa::path(get, path = "/api/cases", responses((status = 200, body = CasesBody), ErrorResponses))]
pub(super) async fn list(
    Extension(runner): Extension<Arc<dyn CaseRunner>>,
) -> Result<Json<CasesBody>, ApiProblem> {
    Ok(Json(runner.list().await?))
}

/// Run test cases of the project, like `gdn test`. Models are scripted.
///
/// Responds with server-sent events: a `case` for each result, then `done` with the totals or
/// `error`. Closing the stream starts no further test cases.
#[utoipa::path(
    post,
    path = "/api/cases/run",
    request_body = CaseRunBody,
    responses(
        (status = 200, content_type = "text/event-stream", body = CaseResultBody),
        ErrorResponses,
    ),
)]
pub(super) async fn run(
    Extension(runner): Extension<Arc<dyn CaseRunner>>,
    JsonBody(body): JsonBody<CaseRunBody>,
) -> impl IntoResponse {
    let (sender, results) = unbounded_channel();
    let running = tokio::spawn(async move { runner.run(body.cases, sender).await });
    let (out, mut events) = unbounded_channel();
    tokio::spawn(forward_results(results, running, out));
    let events = poll_fn(move |context| {
        events
            .poll_recv(context)
            .map(|event| event.map(Ok::<_, Infallible>))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Passes on the results, then the end of the run. Ends once the client has disconnected.
async fn forward_results(
    mut results: UnboundedReceiver<CaseResultBody>,
    running: JoinHandle<Result<CaseTotalsBody, Diagnostic>>,
    out: UnboundedSender<Event>,
) {
    loop {
        let result = tokio::select! {
            result = results.recv() => result,
            () = out.closed() => {
                running.abort();
                return;
            }
        };
        let Some(result) = result else { break };
        // Fails only if the client has disconnected.
        let _ = out.send(event("case", &result));
    }
    let end = match running.await {
        Ok(Ok(totals)) => event("done", &totals),
        Ok(Err(refused)) => event("error", &ApiProblem::from(refused).body()),
        Err(_) => {
            let problem = "The test run ended unexpectedly.";
            event(
                "error",
                &ApiProblem::new(Code::INTERNAL_ERROR, problem).body(),
            )
        }
    };
    // Fails only if the client has disconnected.
    let _ = out.send(end);
}

/// Encodes a server-sent event.
fn event(name: &str, body: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    event.json_data(body).unwrap_or_default()
}
