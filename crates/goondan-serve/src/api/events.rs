//! Route of the event stream with all events of the swarm.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;

use super::ErrorResponses;
use crate::event_stream::EventStream;
use crate::problem::{ApiProblem, QueryParams};
use crate::service::Service;
use crate::wire::EventFilter;

/// Position at which a client was disconnected.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(super) struct LastSeen {
    /// Id of the last event received.
    #[param(
        rename = "Last-Event-ID",
        required = false,
        maximum = 18_446_744_073_709_551_615_u64
    )]
    id: u64,
}

/// Stream all events, as server-sent events. A client that reconnects gets the missed events.
#[utoipa::path(
    get,
    path = "/api/events",
    params(EventFilter, LastSeen),
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), ErrorResponses),
)]
pub(super) async fn events(
    State(service): State<Service>,
    QueryParams(interest): QueryParams<EventFilter>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let after = resume_position(&headers, interest.after)?;
    let interest = EventFilter { after, ..interest };
    Ok(EventStream {
        interest,
        ..EventStream::of_swarm(service)
    }
    .into_sse()
    .into_response())
}

/// Returns the position at which the stream starts. The header has priority: client libraries
/// update it, but keep the query string of the first request.
pub(super) fn resume_position(
    headers: &HeaderMap,
    query_value: Option<u64>,
) -> Result<Option<u64>, ApiProblem> {
    let Some(last) = headers.get("last-event-id") else {
        return Ok(query_value);
    };
    let number = last.to_str().ok().and_then(|last| last.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        ApiProblem::new(
            Code::SERVE_REQUEST,
            "`Last-Event-ID` is not an event number.",
        )
        .suggest("Send the `id` of the last event received, or omit the header.")
    })
}
