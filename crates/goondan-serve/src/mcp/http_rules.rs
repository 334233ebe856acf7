//! Rules of HTTP for the MCP endpoint, between the client and the protocol library: accepted media
//! types, methods without a session, and refusals as JSON-RPC.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goondan::json_rpc::{INVALID_REQUEST, PARSE_ERROR, refusal, request_id};
use serde_json::Value;

use crate::accept_header::AcceptHeader;
use crate::received_body::normalize_request;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// Header with the session of older protocol revisions.
const SESSION_HEADER: &str = "mcp-session-id";
/// JSON-RPC error code for a session that does not exist.
const SESSION_NOT_FOUND: i32 = -32_001;
/// Maximum bytes of a refusal, and of a response that is converted to JSON.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Middleware of the MCP endpoint. `limit` is the largest request body, in bytes.
pub(crate) async fn enforce_rules(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    if method == Method::GET && !request.headers().contains_key(SESSION_HEADER) {
        let message = "This URL has a stream only within a session. Begin with a POST request.";
        let refused = rejection_response(StatusCode::METHOD_NOT_ALLOWED, &Value::Null, message);
        return ([(ALLOW, "POST, DELETE")], refused).into_response();
    }
    if method != Method::POST {
        let response = next.run(accepting_all(request)).await;
        return rejection_to_json_rpc(correct_delete_status(&method, response), &Value::Null).await;
    }
    let accepted = AcceptHeader::from_headers(request.headers());
    let request = match normalize_request(request, limit).await {
        Ok(request) => request,
        Err(problem) => return rejection_response(problem.status, &Value::Null, &problem.message),
    };
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, limit).await else {
        return crate::problem::ApiProblem::too_large().into_response();
    };
    let id = match serde_json::from_slice::<Value>(&body) {
        // The id is null for notifications.
        Ok(mut message) => message.get_mut("id").map(Value::take).unwrap_or_default(),
        Err(error) => {
            let message = format!("The body of the request is not JSON: {error}.");
            let id = request_id(&String::from_utf8_lossy(&body));
            let answer = refusal(&id, PARSE_ERROR, &message);
            return (StatusCode::BAD_REQUEST, Json(answer)).into_response();
        }
    };
    let accepts_stream = accepted.accepts(EVENT_STREAM);
    if !accepts_stream && !accepted.accepts(JSON) {
        let message = "The client must accept application/json or text/event-stream.";
        return rejection_response(StatusCode::NOT_ACCEPTABLE, &id, message);
    }
    let request = Request::from_parts(head, Body::from(body));
    let response = rejection_to_json_rpc(next.run(accepting_all(request)).await, &id).await;
    if accepts_stream {
        response
    } else {
        without_stream(response, &id).await
    }
}

/// Replaces the `Accept` header by the one that the protocol library requires.
fn accepting_all(mut request: Request) -> Request {
    let all_types = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, all_types);
    request
}

/// Corrects the status of a DELETE response: the session has already ended.
fn correct_delete_status(method: &Method, mut response: Response) -> Response {
    if method == Method::DELETE && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::empty();
    }
    response
}

/// Returns a refusal as JSON-RPC.
fn rejection_response(status: StatusCode, id: &Value, message: &str) -> Response {
    let code = match status {
        StatusCode::NOT_FOUND => SESSION_NOT_FOUND,
        _ => INVALID_REQUEST,
    };
    (status, Json(refusal(id, code, message))).into_response()
}

/// Returns true if the content type of a response begins with `media_type`.
fn has_content_type(response: &Response, media_type: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(media_type.as_bytes()))
}

/// Converts a refusal that is bare text to JSON-RPC.
async fn rejection_to_json_rpc(response: Response, id: &Value) -> Response {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    if !is_refusal || has_content_type(&response, JSON) {
        return response;
    }
    let (head, body) = response.into_parts();
    let text = to_bytes(body, MAX_RESPONSE_BYTES).await.unwrap_or_default();
    let mut answer = rejection_response(head.status, id, String::from_utf8_lossy(&text).trim());
    if let Some(allowed) = head.headers.get(ALLOW) {
        answer.headers_mut().insert(ALLOW, allowed.clone());
    }
    answer
}

/// Converts an event stream to its response as JSON, for clients that accept no stream.
async fn without_stream(response: Response, id: &Value) -> Response {
    if !has_content_type(&response, EVENT_STREAM) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = to_bytes(body, MAX_RESPONSE_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok());
    let is_answer = |message: &Value| message.get("method").is_none() && message["id"] == *id;
    let Some(answer) = messages.into_iter().find(is_answer) else {
        let message = "The connection ended before the answer.";
        return rejection_response(StatusCode::INTERNAL_SERVER_ERROR, id, message);
    };
    head.headers.remove(CONTENT_LENGTH);
    head.headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    Response::from_parts(head, Body::from(answer.to_string()))
}
