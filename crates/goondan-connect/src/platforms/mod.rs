//! Platforms with one file each, and the interface that all of them implement.

mod cli;
mod cron;
mod discord;
mod github;
mod refusals;
mod request_body;
mod script;
mod slack;
mod telegram;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::RequestExt;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::received_text;
use reqwest::RequestBuilder;
use serde_json::Value;

use self::refusals::{log_refused_request, log_unaccepted_event};
pub(crate) use self::request_body::{json_body, unreadable_body_response};
use self::request_body::{read_in_time, unsupported_encoding_response};
use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome};
use crate::connection_runtime::{ConnectionRuntime, EventAcceptance, EventRefusal};
use crate::console::LineConsole;
use crate::event::PlatformEvent;
use crate::event_files::{self, EventFile};
use crate::http::PlatformFailure;

/// Default maximum bytes of a request body.
const MAX_REQUEST_BODY_BYTES: usize = 1024 * 1024;

/// Parsed platform request.
pub(crate) enum ParsedRequest {
    Event(Box<PlatformEvent>),
    /// A press of an approval button.
    Press(Box<ButtonPress>),
    /// A request of the protocol itself, with its response.
    Answer(Response),
    /// An update that starts no turn, with its response. It is logged.
    Ignored(IgnoredUpdate, Response),
}

/// Update that starts no turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IgnoredUpdate {
    /// Kind of the update, with the reason.
    kind: String,
    /// True for updates that arrive all the time, such as the bot's own messages.
    is_usual: bool,
}

impl IgnoredUpdate {
    pub(crate) fn new(kind: impl Into<String>) -> IgnoredUpdate {
        IgnoredUpdate {
            // The kind may come from an unknown sender.
            kind: kind.into().chars().take(200).collect(),
            is_usual: false,
        }
    }

    /// Creates an ignored update like [`IgnoredUpdate::new`], for updates that arrive all the time
    /// and are logged at a lower level.
    pub(crate) fn usual(kind: impl Into<String>) -> IgnoredUpdate {
        IgnoredUpdate {
            is_usual: true,
            ..IgnoredUpdate::new(kind)
        }
    }

    /// Writes the log line.
    pub(crate) fn log(&self, runtime: &ConnectionRuntime) {
        let (connection, kind) = (&runtime.bound.name, self.kind.escape_debug());
        if self.is_usual {
            tracing::debug!(connection, "ignored an update: {kind}")
        } else {
            tracing::warn!(connection, "ignored an update: {kind}")
        }
    }
}

/// A connector of one connection.
#[async_trait]
pub(crate) trait PlatformConnector: Send + Sync {
    /// Returns true if events arrive over HTTP.
    fn needs_server(&self) -> bool {
        false
    }

    /// Returns true if unknown senders need approval unless `allow` is set.
    fn is_guarded(&self) -> bool {
        false
    }

    /// Receives events until it fails or the source ends.
    async fn receive(&self, _runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        std::future::pending().await
    }

    /// Returns the maximum bytes of a request body.
    fn max_body_bytes(&self) -> usize {
        MAX_REQUEST_BODY_BYTES
    }

    /// Parses a request after checking its signature. By default, refuses every request, because
    /// the events of the platform do not arrive over HTTP.
    fn parse_request(
        &self,
        _headers: &HeaderMap,
        _body: &Bytes,
        _now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        Err(StatusCode::NOT_FOUND.into_response())
    }

    /// Returns the response to an accepted or refused event.
    fn acknowledge(&self, _taken: EventAcceptance) -> Response {
        (StatusCode::ACCEPTED, "accepted\n").into_response()
    }

    /// Escapes `text` so that the platform shows every character literally.
    fn literal(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Returns the messages of an answer in the markup of the platform. The answer is Markdown.
    fn pieces(&self, text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    /// Sends message `number` of an answer, counted from 0. `text` is markup of the platform, as for
    /// [`PlatformConnector::post`] and [`PlatformConnector::edit`].
    async fn send(
        &self,
        _origin: &Value,
        _number: usize,
        _text: &str,
    ) -> Result<(), PlatformFailure> {
        Err(PlatformFailure::Refused(
            "the connection cannot send replies".to_owned(),
        ))
    }

    /// Returns true if answers may contain files.
    fn takes_files(&self) -> bool {
        false
    }

    /// Sends a file as message `number` of an answer.
    async fn send_file(
        &self,
        _origin: &Value,
        _number: usize,
        _file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        Err(PlatformFailure::Refused(
            "the platform does not support sending files".to_owned(),
        ))
    }

    /// Posts a message and returns the handle for edits. An approval code adds the answer buttons.
    async fn post(
        &self,
        origin: &Value,
        text: &str,
        _mark: Option<&str>,
    ) -> Result<Value, PlatformFailure> {
        self.send(origin, 0, text).await.map(|()| Value::Null)
    }

    /// Edits a posted message and its buttons.
    async fn edit(
        &self,
        _origin: &Value,
        message: &Value,
        _text: &str,
        _mark: Option<&str>,
    ) -> Result<(), PlatformFailure> {
        match message {
            // Messages without a handle cannot be edited and stay unchanged.
            Value::Null => Ok(()),
            _ => Err(PlatformFailure::Refused(
                "the platform does not support editing messages".to_owned(),
            )),
        }
    }

    /// Sends the message that grows into the answer.
    async fn draft(&self, origin: &Value, text: &str) -> Result<Value, PlatformFailure> {
        self.post(origin, text, None).await
    }

    /// Returns the minimum time between two edits of a message.
    fn edit_interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns true if messages can have buttons. Otherwise approval requests are answered with
    /// text commands.
    fn has_buttons(&self) -> bool {
        false
    }

    /// Reports the outcome of a button press if the HTTP response cannot do so.
    async fn report_outcome(&self, _press: &ButtonPress, _verdict: &PressOutcome) {}

    /// Returns the response to a button press.
    fn pressed(&self, _verdict: &PressOutcome) -> Response {
        StatusCode::OK.into_response()
    }

    /// Notifies an unknown sender once.
    async fn notify_unknown_sender(&self, _origin: &Value) {}

    /// Creates the download request for a file of an event.
    async fn download(&self, _file: &EventFile) -> Result<RequestBuilder, PlatformFailure> {
        Err(PlatformFailure::Refused(
            "the platform does not support fetching files".to_owned(),
        ))
    }

    /// Returns the time limit for downloading the files of an event.
    fn files_timeout(&self) -> Duration {
        event_files::EVENT_FILES_TIMEOUT
    }

    /// Sends a typing indicator.
    async fn send_typing(&self, _origin: &Value) {}

    /// Returns the interval of typing indicators.
    fn typing_interval(&self) -> Duration {
        Duration::from_secs(4)
    }
}

/// Creates the connector of a connection.
pub(crate) fn make(
    bound: &BoundConnection,
    console: Option<&Arc<LineConsole>>,
) -> Result<Arc<dyn PlatformConnector>, String> {
    if bound.file.is_some() {
        return Ok(Arc::new(script::ScriptConnector::new(console.cloned())));
    }
    Ok(match bound.connector.as_str() {
        "webhook" => Arc::new(webhook::WebhookConnector::new(bound)),
        "cli" => Arc::new(cli::CliConnector::new(console.cloned())?),
        "cron" => Arc::new(cron::CronConnector::new(bound)?),
        "slack" => Arc::new(slack::SlackConnector::new(bound)),
        "github" => Arc::new(github::GitHubConnector::new(bound)),
        "discord" => Arc::new(discord::DiscordConnector::new(bound)),
        "telegram" | "telegram-polling" => Arc::new(telegram::TelegramConnector::new(bound)),
        other => return Err(format!("There is no connector `{other}`.")),
    })
}

/// Returns a sentence that explains why approving senders has no effect on a connection, or `None`
/// if it has one.
pub fn needs_no_approval(bound: &BoundConnection) -> Option<String> {
    let knows_senders =
        bound.file.is_some() || !matches!(bound.connector.as_str(), "cli" | "cron" | "webhook");
    if !knows_senders {
        return Some(format!(
            "Events of the connector `{}` have no sender.",
            bound.connector
        ));
    }
    let is_guarded = bound.file.is_none()
        && matches!(
            bound.connector.as_str(),
            "discord" | "telegram" | "telegram-polling"
        );
    let lets_everybody_in = match bound
        .allow
        .as_ref()
        .filter(|allow| allow.restricts_senders())
    {
        Some(allow) => allow.accepts_all_senders(),
        None => !is_guarded,
    };
    lets_everybody_in.then(|| {
        format!(
            "The connection `{}` already accepts all senders.",
            bound.name
        )
    })
}

/// Returns a sample event of a connection. `given` is a JSON object that overrides fields.
///
/// # Errors
/// A sentence about the invalid part of `given`.
pub fn sample(bound: &BoundConnection, given: Option<&Value>) -> Result<PlatformEvent, String> {
    let name = given
        .and_then(|given| given.get("name"))
        .and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !bound.events.iter().any(|event| event == name)) {
        let event_names = bound.events.join(", ");
        return Err(format!(
            "The connector `{}` has no event `{name}`. Use one of: {event_names}.",
            bound.connector
        ));
    }
    let event = match bound.connector.as_str() {
        _ if bound.file.is_some() => script::sample(bound),
        "cli" => cli::sample(&bound.name),
        "cron" => cron::sample(bound),
        "telegram" | "telegram-polling" => telegram::sample(),
        "slack" => slack::sample(),
        "github" => github::sample(name.unwrap_or_default()),
        "discord" => discord::sample(),
        _ => webhook::sample(bound),
    };
    given.map_or(Ok(event.clone()), |given| apply_overrides(event, given))
}

/// Replaces fields of an event by the fields of `overrides`. Fails for an unknown field or a wrong
/// type.
fn apply_overrides(mut event: PlatformEvent, overrides: &Value) -> Result<PlatformEvent, String> {
    let object = overrides
        .as_object()
        .ok_or("The event must be a JSON object.")?;
    for (name, value) in object {
        let text = || {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or(format!("`{name}` of the event must be a string."))
        };
        match name.as_str() {
            "name" => event.name = text()?,
            "text" => event.text = text()?,
            "instanceKey" => event.key = text()?,
            "sender" => {
                event.sender = Some(crate::event::EventSender {
                    id: text()?,
                    name: String::new(),
                })
            }
            "channel" => event.channel = Some(text()?),
            "properties" => {
                let stated_properties = value
                    .as_object()
                    .ok_or("`properties` of the event must be an object.")?;
                event
                    .properties
                    .extend(crate::event::plain_values(stated_properties));
            }
            other => {
                let known_fields = "name, text, instanceKey, sender, channel and properties";
                return Err(format!(
                    "An event has no field `{other}`. Use {known_fields}."
                ));
            }
        }
    }
    Ok(event)
}

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

/// Same as [`take`], but completes even if the platform closes the request, because fetching files
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

/// Formats text as a Markdown code block. Backticks that would end the block are escaped.
pub(crate) fn code_block(text: &str) -> String {
    format!("```\n{}\n```", text.replace("``", "`\\u{60}"))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_block() {
        for text in [
            "a",
            "```",
            "a ||`x`|| b",
            "``\n```\n````",
            "<!-- x -->",
            "`",
        ] {
            let block = code_block(text);
            let inside = block
                .strip_prefix("```\n")
                .and_then(|rest| rest.strip_suffix("\n```"))
                .unwrap();
            assert!(!inside.contains("``"), "{block}");
        }
        assert_eq!(code_block("``` x"), "```\n`\\u{60}` x\n```");
    }
}
