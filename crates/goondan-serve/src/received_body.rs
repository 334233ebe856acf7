//! Request bodies and URLs, read the same way for every protocol.

use std::borrow::Cow;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goondan::json_text;
use goondan::received_text::{self, UnreadableText};
use goondan::spec::Code;
use http_body_util::{Full, Limited};

use crate::problem::ApiProblem;

/// Header that stops proxies such as nginx from buffering a response.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// First segments of the server's own paths. A website can use all other paths.
const API_SEGMENTS: [&str; 10] = [
    "v1",
    "mcp",
    "a2a",
    "ag-ui",
    "api",
    ".well-known",
    "connect",
    "metrics",
    "healthz",
    "readyz",
];

/// Path that the client requested, if it differs from the path that the server looks up.
#[derive(Debug, Clone)]
pub(crate) struct RequestedPath(pub(crate) String);

/// Middleware for protocols with errors in the native form.
pub(crate) async fn require_readable(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    match normalize_request(request, limit).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Returns a request whose JSON body is UTF-8, without a byte order mark and without lone
/// surrogates. Fails for a compressed body, and for an unsupported character set.
pub(crate) async fn normalize_request(
    request: Request,
    limit: usize,
) -> Result<Request, ApiProblem> {
    let encoding = request.headers().get(CONTENT_ENCODING);
    let encoding = encoding.map_or("", |value| value.to_str().unwrap_or("unknown"));
    if let Some(encoding) = received_text::compression(encoding) {
        let message = format!("The body of the request is encoded as `{encoding}`.");
        return Err(unsupported_media_type(message).suggest("Send the body without compression."));
    }
    let content_type = content_type(request.headers()).to_owned();
    if !content_type.is_empty() && !content_type.to_ascii_lowercase().contains("json") {
        return Ok(request);
    }
    let (mut head, body) = request.into_parts();
    let Ok(received) = to_bytes(body, limit).await else {
        return Ok(Request::from_parts(head, too_large_body()));
    };
    let bytes = match received_text::decode(&received, &content_type) {
        Ok(text) => repair_body(&received, text),
        Err(error @ UnreadableText::Charset) => {
            return Err(unsupported_media_type(error.to_string()));
        }
        // The handler reports the error in the form of its protocol.
        Err(_) => received,
    };
    if head.headers.contains_key(CONTENT_LENGTH) {
        head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}

/// Returns the content type, or an empty string if it is missing.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    content_type.unwrap_or_default()
}

/// Returns a body that fails at the first read because of its size. The handler reports the error
/// in the form of its protocol.
pub(crate) fn too_large_body() -> Body {
    Body::new(Limited::new(Full::from("larger"), 0))
}

/// Returns the text of a body without lone surrogates. Copies only a text that changes.
fn repair_body(received: &Bytes, text: Cow<'_, str>) -> Bytes {
    let repaired = match json_text::repair_surrogates(&text) {
        Cow::Owned(repaired) => Some(repaired),
        Cow::Borrowed(_) => None,
    };
    match (repaired, text) {
        (Some(repaired), _) => repaired.into(),
        (None, Cow::Owned(text)) => text.into(),
        (None, Cow::Borrowed(text)) => received.slice_ref(text.as_bytes()),
    }
}

/// Creates the error 415.
fn unsupported_media_type(message: String) -> ApiProblem {
    ApiProblem {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ..ApiProblem::new(Code::SERVE_REQUEST, message)
    }
}

/// Disables proxy buffering for event streams.
pub(crate) async fn disable_buffering(mut response: Response) -> Response {
    let is_stream = content_type(response.headers()).starts_with("text/event-stream");
    if is_stream {
        let headers = response.headers_mut();
        headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
        let no_change = HeaderValue::from_static("no-cache, no-transform");
        headers.insert(CACHE_CONTROL, no_change);
    }
    response
}

/// Removes double slashes and the slash at the end of the path, which clients produce when they
/// join URLs. Keeps the requested path for error messages.
pub(crate) fn normalize_path<B>(request: &mut hyper::Request<B>) {
    let Some(uri) = normalized_uri(request.uri()) else {
        return;
    };
    let requested = RequestedPath(request.uri().path().to_owned());
    request.extensions_mut().insert(requested);
    *request.uri_mut() = uri;
}

/// Returns the URL with a normalized path; `None` if the path does not change, or belongs to a
/// website.
fn normalized_uri(uri: &Uri) -> Option<Uri> {
    let segments: Vec<&str> = uri
        .path()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let is_api = segments
        .first()
        .is_some_and(|first| API_SEGMENTS.contains(first));
    let path = format!("/{}", segments.join("/"));
    if !is_api || path == uri.path() {
        return None;
    }
    let path = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_slashes_are_removed_only_in_api_paths() {
        let tidy = |uri: &str| normalized_uri(&uri.parse().unwrap()).map(|uri| uri.to_string());
        for (uri, expected) in [
            ("/v1//chat/completions", "/v1/chat/completions"),
            ("//v1/models/", "/v1/models"),
            ("/mcp/?a=//", "/mcp?a=//"),
            ("http://h:1/api/swarm/", "http://h:1/api/swarm"),
        ] {
            assert_eq!(tidy(uri).as_deref(), Some(expected), "{uri}");
        }
        for uri in [
            "/",
            "/docs/",
            "//docs",
            "/v1/models",
            "/api/a%2F%2Fb",
            "/v1x/",
        ] {
            assert_eq!(tidy(uri), None, "{uri}");
        }
    }
}
