//! The OpenAI-compatible door: agents as models, chat completions and responses. `docs/openai.md` tells what is promised.
//!
//! A client of chat completions sends everything that was said each time. What it goes on with is found again by a hash over
//! that; what is not found begins a new conversation, opened by what the client has sent.

mod begin;
mod bodies;
mod chat;
mod error;
mod format;
mod history;
mod memory;
mod message;
mod models;
mod outcome;
mod request;
mod response_events;
mod response_id;
mod responses;
mod track;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use goondan::ids::InstanceId;
use goondan::spec::codes::page_url;
use utoipa::OpenApi;

use self::error::ApiError;
pub(crate) use self::memory::Memory;
use crate::guard::Access;
use crate::service::Service;

/// What `/openapi.json` says of the routes.
#[derive(OpenApi)]
#[openapi(paths(
    models::list,
    models::show,
    chat::create,
    responses::create,
    responses::show
))]
pub(crate) struct Described;

/// The routes below `/v1`.
pub(crate) fn router(access: Arc<Access>) -> Router<Service> {
    Router::new()
        .route("/models", get(models::list))
        .route("/models/{*model}", get(models::show))
        .route("/chat/completions", post(chat::create))
        .route("/responses", post(responses::create))
        .route("/responses/{id}", get(responses::show))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(access, guard))
}

/// Lets a request through, or refuses it: the token of the server is the API key.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => ApiError::from(problem).into_response(),
    }
}

async fn nothing_there(uri: Uri) -> ApiError {
    let message = format!(
        "There is nothing at `/v1{}`. For what there is, see {}.",
        uri.path(),
        page_url("openai.md")
    );
    ApiError::not_found(message).code("unknown_url")
}

async fn wrong_method() -> ApiError {
    ApiError::method("This address does not take that method.")
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// What tells an event from all others.
fn suffix(event_id: &str) -> &str {
    event_id.rsplit('-').next().unwrap_or(event_id)
}

/// Tells which event a response belongs to, and which conversation.
fn headers(mut response: Response, event_id: &str, instance: &InstanceId) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-request-id", event_id),
        (request::INSTANCE_HEADER, &*instance.instance_key),
    ] {
        // A key may hold what a header can't.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}
