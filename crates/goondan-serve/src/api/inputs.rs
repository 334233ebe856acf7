//! Inputs: submit, follow, cancel.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use goondan::event::TurnResult;
use goondan::gateway::Submission;
use goondan::ports::tool::Attachment;
use goondan::spec::Code;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SubmittedEventState};

use super::ErrorResponses;
use super::events::{LastSeen, resume_position};
use crate::accept_header::AcceptHeader;
use crate::event_stream::{EventStream, FollowedInput};
use crate::problem::{ApiProblem, JsonBody, QueryParams};
use crate::service::Service;
use crate::trace_context::caller_trace;
use crate::wire::{EventFilter, FollowOptions, InputBody, InputOptions, InputState};

/// Submit an input. It is on disk when the response arrives.
///
/// With `Accept: text/event-stream`, the response is a stream of all events of the trace and ends
/// with `result`.
#[utoipa::path(
    post,
    path = "/api/inputs",
    params(InputOptions),
    request_body = InputBody,
    responses(
        (status = 200, body = InputState, description = "The finished turn, or a stream of \
            events."),
        (status = 202, body = InputState, description = "The input is accepted."),
        ErrorResponses,
    ),
)]
pub(super) async fn send(
    State(service): State<Service>,
    QueryParams(waiting): QueryParams<InputOptions>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<InputBody>,
) -> Result<Response, ApiProblem> {
    check(&body)?;
    let is_stream = AcceptHeader::from_headers(&headers).names("text/event-stream");
    let gateway = service.gateway();
    // Subscribes before the submission, so that the stream misses no event of a new input.
    let live = is_stream.then(|| gateway.hub().subscribe_at_sequence());
    let listener = (is_stream && waiting.approvals).then(|| service.inner.broker.listen());
    let id = body.id.clone();
    let submission = gateway.submit(input(body, caller_trace(&headers))).await?;
    let followed = match &submission {
        Submission::New(turn) | Submission::Running(turn) => FollowedInput::from(turn),
        Submission::Finished(_) => finished_input(id.unwrap_or_default()),
    };
    if is_stream {
        let is_new = matches!(submission, Submission::New(_));
        return Ok(EventStream {
            interest: EventFilter {
                approvals: waiting.approvals,
                ..EventFilter::default()
            },
            live: live.filter(|_| is_new),
            listener,
            ..EventStream::of_input(service, followed)
        }
        .into_sse()
        .into_response());
    }
    match submission {
        Submission::Finished(result) => Ok(Json(followed.state(Some(*result))).into_response()),
        Submission::New(turn) | Submission::Running(turn) if waiting.wait => {
            let result = turn.result().await.ok_or_else(ended_first)?;
            Ok(Json(followed.state(Some(result))).into_response())
        }
        Submission::New(_) | Submission::Running(_) => {
            Ok((StatusCode::ACCEPTED, Json(followed.state(None))).into_response())
        }
    }
}

/// Rejects inputs that no agent can handle.
fn check(body: &InputBody) -> Result<(), ApiProblem> {
    if body.input.is_empty() && body.files.is_empty() {
        return Err(ApiProblem::new(Code::SERVE_REQUEST, "The input is empty.")
            .suggest("Put something into `input`."));
    }
    if body.id.as_deref() == Some("") {
        return Err(
            ApiProblem::new(Code::SERVE_REQUEST, "The `id` of the input is empty.")
                .suggest("Omit `id`, and the server generates an id."),
        );
    }
    if let Some(wrong) = body.files.iter().position(|file| !is_file(file)) {
        let message = format!(
            "`files[{wrong}]` is invalid: a file needs a `mediaType`, such as image/png, and \
            `data` in Base64."
        );
        return Err(
            ApiProblem::new(Code::SERVE_REQUEST, message).suggest("/openapi.json describes files.")
        );
    }
    Ok(())
}

/// Lenient Base64: many encoders leave unused bits set in the last character.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    PAD.with_decode_allow_trailing_bits(true),
);

/// Returns true if a provider accepts the file's media type and encoding.
fn is_file(file: &Attachment) -> bool {
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
    };
    let is_type = file
        .media_type
        .split_once('/')
        .is_some_and(|(kind, name)| is_word(kind) && is_word(name));
    is_type && LENIENT_BASE64.decode(&file.data).is_ok()
}

/// Converts the body of a request.
fn input(body: InputBody, caller: Option<CallerTrace>) -> Input {
    Input {
        text: body.input,
        agent: body.agent,
        instance_key: body.instance_key,
        id: body.id,
        files: body.files,
        instructions: body.instructions,
        metadata: body.metadata,
        caller,
        delivery: body.delivery,
        ..Input::default()
    }
}

/// Input that is over. Its trace and conversation are no longer available.
fn finished_input(event_id: String) -> FollowedInput {
    FollowedInput {
        event_id,
        trace_id: None,
        instance: None,
    }
}

/// Return the state of an input.
#[utoipa::path(
    get,
    path = "/api/inputs/{id}",
    params(("id" = String, Path, description = "The input id.")),
    responses((status = 200, body = InputState), ErrorResponses),
)]
pub(super) async fn state(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<InputState>, ApiProblem> {
    find(&service, id)
        .await
        .map(|(followed, result)| Json(followed.state(result)))
}

/// Finds an input and its result, if the turn is over.
async fn find(
    service: &Service,
    event_id: String,
) -> Result<(FollowedInput, Option<TurnResult>), ApiProblem> {
    match service.swarm().find(&event_id).await {
        Some(SubmittedEventState::Open(turn)) => Ok((FollowedInput::from(&turn), None)),
        Some(SubmittedEventState::Over(result)) => Ok((finished_input(event_id), Some(*result))),
        None => Err(unknown_input()),
    }
}

/// Cancel an input: stop its running turn, or remove it from the queue.
#[utoipa::path(
    delete,
    path = "/api/inputs/{id}",
    params(("id" = String, Path, description = "The input id.")),
    responses((status = 204, description = "The input is being cancelled."), ErrorResponses),
)]
pub(super) async fn cancel(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiProblem> {
    if service.swarm().cancel_event(&id).await {
        return Ok(StatusCode::NO_CONTENT);
    }
    match service.swarm().find(&id).await {
        Some(_) => Err(ApiProblem::new(
            Code::SERVE_CLOSED,
            "The turn of this input is already over.",
        )),
        None => Err(unknown_input()),
    }
}

/// Follow an input to the end of its turn. A client that reconnects gets the missed events.
#[utoipa::path(
    get,
    path = "/api/inputs/{id}/events",
    params(("id" = String, Path, description = "The input id."), FollowOptions, LastSeen),
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), ErrorResponses),
)]
pub(super) async fn events(
    State(service): State<Service>,
    Path(id): Path<String>,
    QueryParams(following): QueryParams<FollowOptions>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let after = resume_position(&headers, None)?;
    let (followed, _) = find(&service, id).await?;
    Ok(EventStream {
        interest: EventFilter {
            after,
            approvals: following.approvals,
            ..EventFilter::default()
        },
        ..EventStream::of_input(service, followed)
    }
    .into_sse()
    .into_response())
}

/// Returns the error for an unknown input.
fn unknown_input() -> ApiProblem {
    ApiProblem::new(
        Code::SERVE_NOT_FOUND,
        "There is no input with this id, or its result is no longer kept.",
    )
    .suggest("Use the `id` that the server returned when it accepted the input.")
}

/// Error for a swarm that ended before the turn.
fn ended_first() -> ApiProblem {
    ApiProblem::new(Code::SWARM_STOPPED, "The swarm stopped during the turn.")
        .suggest("The turn resumes at the next start. Then repeat the request with the input id.")
}
