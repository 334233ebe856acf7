//! HTTP requests to a connection.

use std::sync::Arc;

use axum::RequestExt;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use goondan::received_text;

use super::platform_connector::ParsedRequest;
use super::refusals::{log_refused_request, log_unaccepted_event};
use super::request_body::{read_in_time, unsupported_encoding_response};
use super::responses::header;
use crate::connection_runtime::ConnectionRuntime;
use crate::event::PlatformEvent;
use crate::event_acceptance::{EventAcceptance, EventRefusal};

/// Handles an HTTP request to a connection.
pub(crate) async fn request(runtime: Arc<ConnectionRuntime>, request: Request) -> Response {
    if request.method() != Method::POST {
        return (
            StatusCode::METHOD_NOT_ALLOWED,
            [("allow", "POST")],
            "Send events with POST.\n",
        )
            .into_response();
    }
    let encoding = header(request.headers(), "content-encoding");
    if let Some(encoding) = received_text::compression(encoding) {
        return log_refused_request(&runtime, unsupported_encoding_response(encoding));
    }
    // Applies the body limit of the server as well.
    let (head, body) = request.with_limited_body().into_parts();
    let received = read_in_time(body, runtime.platform.max_body_bytes()).await;
    let (body, unverified) = match received {
        Ok(received) => received,
        Err(refusal) => return log_refused_request(&runtime, refusal),
    };
    if let Err(why) = runtime.platform.prepare().await {
        let connection = &runtime.bound.name;
        tracing::warn!(connection, "could not accept an event: {why}");
        let answer = "The connection is not ready. Send the event again.\n";
        return (StatusCode::SERVICE_UNAVAILABLE, answer).into_response();
    }
    let parsed = match runtime
        .platform
        .parse_request(&head.headers, &body, runtime.now())
    {
        Ok(parsed) => parsed,
        Err(refusal) => return log_refused_request(&runtime, refusal),
    };
    drop(unverified);
    match parsed {
        ParsedRequest::Answer(answer) => answer,
        ParsedRequest::Ignored(update, answer) => {
            update.log(&runtime);
            answer
        }
        ParsedRequest::Press(press) => {
            let verdict = runtime.press(&press);
            let answer = runtime.platform.pressed(&verdict);
            // The platform waits for the response, so the report is sent in the background.
            tokio::spawn(async move { runtime.platform.report_outcome(&press, &verdict).await });
            answer
        }
        ParsedRequest::Event(event) => {
            let name = event.name.clone();
            let accepted = accept_detached(&runtime, *event).await;
            accepted.map_or_else(
                |error| log_unaccepted_event(&runtime, &name, &error),
                |accepted| runtime.platform.acknowledge(accepted),
            )
        }
    }
}

/// Same as [`accept_event`], but completes even if the platform closes the request, because fetching files
/// may take long.
async fn accept_detached(
    runtime: &Arc<ConnectionRuntime>,
    event: PlatformEvent,
) -> Result<EventAcceptance, EventRefusal> {
    let task = tokio::spawn({
        let runtime = Arc::clone(runtime);
        async move {
            let accept = |event| accept_event(&runtime, event);
            runtime.albums.accept(event, accept).await
        }
    });
    let broken_event_refusal = |error| EventRefusal {
        message: format!("Internal error in gdn: {error}."),
        is_retryable: true,
    };
    task.await
        .unwrap_or_else(|error| Err(broken_event_refusal(error)))
}

/// Accepts an event and notifies an unknown sender.
pub(crate) async fn accept_event(
    runtime: &Arc<ConnectionRuntime>,
    event: PlatformEvent,
) -> Result<EventAcceptance, EventRefusal> {
    let origin = event.origin.clone().unwrap_or_default();
    let accepted = runtime.accept(event).await?;
    if accepted == EventAcceptance::UnknownSender {
        runtime.platform.notify_unknown_sender(&origin).await;
    }
    Ok(accepted)
}
