//! Trace context of a client, from its request headers.

use axum::http::HeaderMap;
use goondan::start::telemetry::CallerTrace;

/// Returns the caller in the trace headers. More than one `traceparent` is invalid and gives
/// `None`.
pub(crate) fn caller_trace(headers: &HeaderMap) -> Option<CallerTrace> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents
        .next()
        .filter(|_| parents.next().is_none())?
        .to_str()
        .ok()?;
    let states = headers
        .get_all("tracestate")
        .iter()
        .map(|state| state.to_str().unwrap_or(","));
    CallerTrace::read(parent, states)
}
