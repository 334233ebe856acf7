//! Headers and responses that several platforms share.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// Returns the response for a missing, wrong or expired signature. It does not reveal which.
pub(crate) fn unauthorized_response() -> Response {
    (
        StatusCode::UNAUTHORIZED,
        "The request has no valid signature or is too old.\n",
    )
        .into_response()
}

/// Returns the response for an invalid request.
pub(crate) fn bad_request(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

/// Returns a header value, or an empty string if it is missing.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
