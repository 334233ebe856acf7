//! Time, ids and headers of responses.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use axum::response::Response;
use goondan::ids::InstanceId;

/// Header and metadata field with the conversation key.
pub(super) const INSTANCE_HEADER: &str = "x-goondan-instance";

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Returns the part of an event id that is unique.
pub(super) fn suffix(event_id: &str) -> &str {
    event_id.rsplit('-').next().unwrap_or(event_id)
}

/// Adds headers with the event and the conversation of a response.
pub(super) fn headers(mut response: Response, event_id: &str, instance: &InstanceId) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-request-id", event_id),
        (INSTANCE_HEADER, &*instance.instance_key),
    ] {
        // Conversation keys may contain characters that a header cannot carry.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}
