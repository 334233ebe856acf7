//! Log lines of refused requests and events.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::connection_runtime::ConnectionRuntime;
use crate::event_acceptance::EventRefusal;

/// Logs a refused request. Anyone can send requests, so the line is not a warning.
pub(super) fn log_refused_request(runtime: &ConnectionRuntime, refusal: Response) -> Response {
    let (connection, status) = (&runtime.bound.name, refusal.status().as_u16());
    tracing::debug!(connection, status, "refused a request");
    refusal
}

/// Logs an event that cannot be accepted, and returns the response to it.
pub(super) fn log_unaccepted_event(
    runtime: &ConnectionRuntime,
    event: &str,
    error: &EventRefusal,
) -> Response {
    tracing::warn!(
        connection = runtime.bound.name,
        event,
        "could not accept an event: {error}"
    );
    let status = if error.is_retryable {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    (status, format!("{error}\n")).into_response()
}
