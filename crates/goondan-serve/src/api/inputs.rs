//! Inputs: handing one in, following it, cancelling it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use goondan::event::TurnResult;
use goondan::ports::tool::Attachment;
use goondan::spec::Code;
use goondan::telemetry::Caller;
use goondan::{Found, Input, Turn};

use super::Problems;
use super::events::{LastSeen, after};
use crate::caller::caller;
use crate::problem::{Asked, Body, Problem};
use crate::service::Service;
use crate::stream::{Feed, Followed, Live};
use crate::wire::{Following, InputBody, InputState, Interest, Waiting};

/// Hands in an input. It is on disk when the answer comes.
///
/// With `Accept: text/event-stream` the answer is a stream of everything that happens in the chain, and ends with `result`.
#[utoipa::path(
    post,
    path = "/api/inputs",
    params(Waiting),
    request_body = InputBody,
    responses(
        (status = 200, body = InputState, description = "The turn is over; or a stream of events."),
        (status = 202, body = InputState, description = "The input is accepted."),
        Problems,
    ),
)]
pub(super) async fn send(
    State(service): State<Service>,
    Asked(waiting): Asked<Waiting>,
    headers: HeaderMap,
    Body(body): Body<InputBody>,
) -> Result<Response, Problem> {
    if service.is_draining() {
        return Err(
            Problem::new(Code::SWARM_STOPPING, "The server is stopping.")
                .suggest("Send it again in a moment."),
        );
    }
    check(&body)?;
    let is_stream = wants_stream(&headers);
    let known = match &body.id {
        Some(id) => service.swarm().find(id).await,
        None => None,
    };
    // Of an input that is new, the stream misses nothing.
    let live = (is_stream && known.is_none()).then(|| service.inner.hub.subscribe());
    let turn = accept(&service, body, caller(&headers)).await?;
    let (followed, result) = match known {
        None => (Followed::from(&turn), None),
        Some(known) => same(known, &turn)?,
    };
    if is_stream {
        let interest = Interest {
            approvals: waiting.approvals,
            ..Interest::default()
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

/// Refuses what no agent can be given.
fn check(body: &InputBody) -> Result<(), Problem> {
    if body.text.is_empty() && body.files.is_empty() {
        return Err(Problem::new(Code::SERVE_REQUEST, "The input is empty.")
            .suggest("Put something into `text`."));
    }
    if body.id.as_deref() == Some("") {
        return Err(
            Problem::new(Code::SERVE_REQUEST, "The `id` of the input is empty.")
                .suggest("Leave it out, and the server makes one up."),
        );
    }
    if let Some(wrong) = body.files.iter().position(|file| !is_file(file)) {
        let message = format!(
            "`files[{wrong}]` is not a file: it needs a `mediaType` such as image/png, and `data` in Base64."
        );
        return Err(
            Problem::new(Code::SERVE_REQUEST, message).suggest("/openapi.json describes files.")
        );
    }
    Ok(())
}

/// Base64 as it is found: the last letter may hold bits that mean nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    PAD.with_decode_allow_trailing_bits(true),
);

/// Whether a provider can be given that.
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
    is_type && BASE64.decode(&file.data).is_ok()
}

/// Hands the input in. One that was accepted before starts nothing.
async fn accept(
    service: &Service,
    body: InputBody,
    caller: Option<Caller>,
) -> Result<Turn, Problem> {
    let input = Input {
        output: None,
        text: body.text,
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

/// What is followed of an input that was accepted `known` before, and is handed in again as `again`.
fn same(known: Found, again: &Turn) -> Result<(Followed, Option<TurnResult>), Problem> {
    match known {
        Found::Open(first) if first.instance != again.instance => {
            let message = format!(
                "Another input has this `id`, and went to the conversation {}.",
                first.instance
            );
            Err(Problem::new(Code::SERVE_REQUEST, message)
                .suggest("Give each input an id of its own."))
        }
        Found::Open(first) => Ok((Followed::from(&first), None)),
        Found::Over(result) => Ok((over(again.event_id.clone()), Some(*result))),
    }
}

/// An input that is over. Nobody knows any more where it went.
fn over(event_id: String) -> Followed {
    Followed {
        event_id,
        trace_id: None,
        instance: None,
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

fn stream(
    service: Service,
    followed: Followed,
    interest: Interest,
    live: Option<Live>,
) -> Response {
    let interest = Interest {
        trace_id: followed.trace_id.clone(),
        ..interest
    };
    Feed {
        service,
        interest,
        until: Some(followed),
        live,
    }
    .respond()
    .into_response()
}

/// Tells what has become of an input.
#[utoipa::path(
    get,
    path = "/api/inputs/{id}",
    params(("id" = String, Path, description = "The id of the input.")),
    responses((status = 200, body = InputState), Problems),
)]
pub(super) async fn state(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<InputState>, Problem> {
    find(&service, id)
        .await
        .map(|(followed, result)| Json(followed.state(result)))
}

async fn find(
    service: &Service,
    event_id: String,
) -> Result<(Followed, Option<TurnResult>), Problem> {
    match service.swarm().find(&event_id).await {
        Some(Found::Open(turn)) => Ok((Followed::from(&turn), None)),
        Some(Found::Over(result)) => Ok((over(event_id), Some(*result))),
        None => Err(unknown()),
    }
}

/// Cancels an input: its turn where it runs, the input itself where it waits.
#[utoipa::path(
    delete,
    path = "/api/inputs/{id}",
    params(("id" = String, Path, description = "The id of the input.")),
    responses((status = 204, description = "It is being cancelled."), Problems),
)]
pub(super) async fn cancel(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    if service.swarm().cancel_event(&id).await {
        return Ok(StatusCode::NO_CONTENT);
    }
    match service.swarm().find(&id).await {
        Some(_) => Err(Problem::new(
            Code::SERVE_CLOSED,
            "The turn of this input is over already.",
        )),
        None => Err(unknown()),
    }
}

/// Follows an input to the end of its turn. A client that comes back gets what it has missed.
#[utoipa::path(
    get,
    path = "/api/inputs/{id}/events",
    params(("id" = String, Path, description = "The id of the input."), Following, LastSeen),
    responses((status = 200, description = "A stream of events.", content_type = "text/event-stream"), Problems),
)]
pub(super) async fn events(
    State(service): State<Service>,
    Path(id): Path<String>,
    Asked(following): Asked<Following>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = after(&headers, None)?;
    let (followed, _) = find(&service, id).await?;
    let interest = Interest {
        after,
        approvals: following.approvals,
        ..Interest::default()
    };
    Ok(stream(service, followed, interest, None))
}

fn unknown() -> Problem {
    Problem::new(
        Code::SERVE_NOT_FOUND,
        "There is no input of that id, or it was over long ago.",
    )
    .suggest("The id is the `id` that the server gave when it accepted the input.")
}

fn ended_first() -> Problem {
    Problem::new(Code::SWARM_STOPPED, "The swarm ended before the turn did.")
        .suggest("The turn resumes at the next start. Ask again then, with the id of the input.")
}
