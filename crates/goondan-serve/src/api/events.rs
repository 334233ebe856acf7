//! Everything that happens, as a stream.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;

use super::Problems;
use crate::problem::{Asked, Problem};
use crate::service::Service;
use crate::stream::Feed;
use crate::wire::Interest;

/// Where a client was cut off.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the document is made of it")]
pub(super) struct LastSeen {
    /// The id of the last event that was seen.
    #[param(
        rename = "Last-Event-ID",
        required = false,
        maximum = 18_446_744_073_709_551_615_u64
    )]
    id: u64,
}

/// Tells of everything that happens, as server-sent events. A client that comes back gets what it has missed.
#[utoipa::path(
    get,
    path = "/api/events",
    params(Interest, LastSeen),
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), Problems),
)]
pub(super) async fn events(
    State(service): State<Service>,
    Asked(interest): Asked<Interest>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = after(&headers, interest.after)?;
    let interest = Interest { after, ..interest };
    Ok(Feed {
        service,
        interest,
        until: None,
        live: None,
    }
    .respond()
    .into_response())
}

/// Where a client wants to go on. What its library says by itself counts more than the address that it once had.
pub(super) fn after(headers: &HeaderMap, given: Option<u64>) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get("last-event-id") else {
        return Ok(given);
    };
    let number = last.to_str().ok().and_then(|last| last.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        Problem::new(
            Code::SERVE_REQUEST,
            "`Last-Event-ID` is not the number of an event.",
        )
        .suggest("Send the `id` of the last event that was seen, or leave the header out.")
    })
}
