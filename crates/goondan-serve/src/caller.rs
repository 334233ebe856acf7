//! The trace of a client, as its headers tell it.

use axum::http::HeaderMap;
use goondan::telemetry::Caller;

/// The caller that the headers name. Two `traceparent` name nobody.
pub(crate) fn caller(headers: &HeaderMap) -> Option<Caller> {
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
    Caller::read(parent, states)
}
