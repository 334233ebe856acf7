//! Inputs: submit, follow, cancel.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use goondan::event::{RuntimeEventKind, TurnResult};
use goondan::ids::{InstanceId, is_message_of};
use goondan::message::Message;
use goondan::ports::tool::Attachment;
use goondan::spec::Code;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SubmittedEventState, Turn};

use super::ErrorResponses;
use super::events::{LastSeen, after};
use crate::accept_header::AcceptHeader;
use crate::event_stream::{EventStream, FollowedInput, Live};
use crate::problem::{ApiProblem, JsonBody, QueryParams};
use crate::service::Service;
use crate::trace_context::caller;
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
    if service.is_draining() {
        return Err(
            ApiProblem::new(Code::SWARM_STOPPING, "The server is stopping.")
                .suggest("Retry in a few seconds."),
        );
    }
    check(&body)?;
    let is_stream = AcceptHeader::of(&headers).names("text/event-stream");
    let earlier = match &body.id {
        Some(id) => service.swarm().find(id).await,
        None => None,
    };
    // Subscribes before the submission, so that the stream misses no event of a new input.
    let live = (is_stream && earlier.is_none()).then(|| service.inner.hub.subscribe());
    let turn = accept(&service, body, caller(&headers)).await?;
    let (followed, result) = match earlier {
        None => (FollowedInput::from(&turn), None),
        Some(earlier) => follow_earlier(&service, earlier, &turn).await?,
    };
    if is_stream {
        let interest = EventFilter {
            approvals: waiting.approvals,
            ..EventFilter::default()
        };
        return Ok(stream(service, followed, interest, live));
    }
    if result.is_some() {
        return Ok(Json(followed.state(result)).into_response());
    }
    if waiting.wait {
        let result = turn.result().await.ok_or_else(ended_first)?;
        return Ok(Json(followed.state(Some(result))).into_response());
    }
    Ok((StatusCode::ACCEPTED, Json(followed.state(None))).into_response())
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

/// Submits the input. A repeated input starts no second turn.
async fn accept(
    service: &Service,
    body: InputBody,
    caller: Option<CallerTrace>,
) -> Result<Turn, ApiProblem> {
    let input = Input {
        output: None,
        answer_call: None,
        text: body.input,
        agent: body.agent,
        instance_key: body.instance_key,
        id: body.id,
        files: body.files,
        history: Vec::new(),
        instructions: body.instructions,
        metadata: body.metadata,
        caller,
    };
    Ok(service.swarm().send(input).await?)
}

/// Returns the state to follow for an input that was accepted before and is submitted again.
async fn follow_earlier(
    service: &Service,
    earlier: SubmittedEventState,
    turn: &Turn,
) -> Result<(FollowedInput, Option<TurnResult>), ApiProblem> {
    match earlier {
        SubmittedEventState::Open(first) if first.instance != turn.instance => {
            Err(of_another_conversation())
        }
        SubmittedEventState::Open(first) => Ok((FollowedInput::from(&first), None)),
        SubmittedEventState::Over(result) if !is_in(service, &result, &turn.instance).await => {
            Err(of_another_conversation())
        }
        SubmittedEventState::Over(result) => Ok((over(turn.event_id.clone()), Some(*result))),
    }
}

/// Returns false if the answer of a finished turn is not from the conversation.
async fn is_in(service: &Service, result: &TurnResult, instance: &InstanceId) -> bool {
    if result.response_message.is_none() {
        return true;
    }
    let messages = service.swarm().conversation(instance).await;
    let messages = messages.unwrap_or_default();
    let is_own = |message: &Arc<Message>| is_message_of(&message.id, &result.turn_id);
    // Extensions remove messages, but no events.
    messages.iter().any(is_own) || has_started(service, &result.turn_id, instance).await
}

/// Returns true if the conversation has the start event of the turn.
async fn has_started(service: &Service, turn: &str, instance: &InstanceId) -> bool {
    let events = service.swarm().events(instance, 0).await;
    let mut kinds = events.iter().flatten().map(|event| &event.kind);
    kinds.any(
        |kind| matches!(kind, RuntimeEventKind::TurnStarted { turn_id, .. } if turn_id == turn),
    )
}

fn of_another_conversation() -> ApiProblem {
    let problem = ApiProblem::new(
        Code::SERVE_REQUEST,
        "Another input with this `id` was sent to another conversation.",
    );
    ApiProblem {
        status: StatusCode::CONFLICT,
        ..problem.suggest("Use a different id for each input.")
    }
}

/// Input that is over. Its trace and conversation are no longer available.
fn over(event_id: String) -> FollowedInput {
    FollowedInput {
        event_id,
        trace_id: None,
        instance: None,
    }
}

/// Streams the input until its turn is over.
fn stream(
    service: Service,
    followed: FollowedInput,
    interest: EventFilter,
    live: Option<Live>,
) -> Response {
    let interest = EventFilter {
        trace_id: followed.trace_id.clone(),
        ..interest
    };
    EventStream {
        service,
        interest,
        until: Some(followed),
        live,
    }
    .respond()
    .into_response()
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
        Some(SubmittedEventState::Over(result)) => Ok((over(event_id), Some(*result))),
        None => Err(unknown()),
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
        None => Err(unknown()),
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
    let after = after(&headers, None)?;
    let (followed, _) = find(&service, id).await?;
    let interest = EventFilter {
        after,
        approvals: following.approvals,
        ..EventFilter::default()
    };
    Ok(stream(service, followed, interest, None))
}

/// Error for an unknown input.
fn unknown() -> ApiProblem {
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
