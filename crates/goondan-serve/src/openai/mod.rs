//! OpenAI-compatible API: agents as models, chat completions and responses. `docs/openai.md`
//! describes the supported features.
//!
//! Clients of chat completions send all messages in each request. A hash of the messages identifies
//! the conversation. Unknown messages start a new conversation with these messages as its history.

mod answer_stream;
mod bodies;
mod chat;
mod conversation_index;
mod error;
mod format;
mod history_hash;
mod message;
mod models;
mod outcome;
mod request;
mod response_events;
mod response_head;
mod response_id;
mod responses;
mod submit;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use goondan::spec::codes::page_url;
use utoipa::OpenApi;

pub(crate) use self::conversation_index::ConversationIndex;
use self::error::OpenAiError;
pub(crate) use self::response_head::now;
use crate::auth::AccessPolicy;
use crate::received_body::{RequestedPath, normalize_request};
use crate::server_options::ServerLimits;
use crate::service::Service;

#[derive(OpenApi)]
#[openapi(
    paths(
        models::list,
        models::show,
        chat::create,
        responses::create,
        responses::show
    ),
    components(schemas(bodies::RefusalBody))
)]
pub(crate) struct OpenAiDocument;

/// Routes of the OpenAI protocols.
pub(crate) fn router(access: Arc<AccessPolicy>, limits: ServerLimits) -> Router<Service> {
    Router::new()
        .route("/models", get(models::list))
        .route("/models/{*model}", get(models::show))
        .route("/chat/completions", post(chat::create))
        .route("/responses", post(responses::create))
        .route("/responses/{id}", get(responses::show))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(
            limits.body,
            require_readable,
        ))
        .layer(middleware::from_fn_with_state(access, require_access))
}

/// Checks a request. The API key is the server token.
async fn require_access(
    State(access): State<Arc<AccessPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match access.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => OpenAiError::from(problem).into_response(),
    }
}

/// Refuses bodies that cannot be read.
async fn require_readable(State(limit): State<usize>, request: Request, next: Next) -> Response {
    match normalize_request(request, limit).await {
        Ok(request) => next.run(request).await,
        Err(problem) => OpenAiError::from(problem).into_response(),
    }
}

/// Error 404 for an unknown path.
async fn nothing_there(request: Request) -> OpenAiError {
    let path = match request.extensions().get() {
        Some(RequestedPath(path)) => path.clone(),
        None => format!("/v1{}", request.uri().path()),
    };
    let message = format!(
        "There is nothing at `{path}`. For the supported URLs, see {}.",
        page_url("openai.md")
    );
    OpenAiError::not_found(message).code("unknown_url")
}

/// Error 405.
async fn wrong_method() -> OpenAiError {
    OpenAiError::method_not_allowed("This URL does not support the HTTP method.")
}
