//! One file for each platform.

mod cli;
mod cron;
mod discord;
mod github;
mod script;
mod slack;
mod telegram;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::RequestExt;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::connectors::Bound;
use reqwest::RequestBuilder;
use serde_json::Value;

use crate::asking::{Press, Verdict};
use crate::console::Console;
use crate::desk::{Desk, NotTaken, Taken};
use crate::event::Event;
use crate::files::{self, Sent};
use crate::http::Failure;
use crate::uploads::Upload;

/// The largest body of a request, in bytes, where the platform does not send larger ones.
const LARGEST: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

/// What a platform makes of a request.
pub(crate) enum Heard {
    /// An event.
    Event(Box<Event>),
    /// A button of a question.
    Press(Box<Press>),
    /// Something else, which gets this answer.
    Answer(Response),
}

/// A connector, for one connection.
#[async_trait]
pub(crate) trait Platform: Send + Sync {
    /// Whether events arrive by HTTP.
    fn needs_server(&self) -> bool {
        false
    }

    /// Whether nobody may send unless somebody has let him in.
    fn is_guarded(&self) -> bool {
        false
    }

    /// Fetches events until that fails, or there are no more.
    async fn receive(&self, _desk: &Arc<Desk>) -> Result<(), String> {
        std::future::pending().await
    }

    /// The largest body of a request, in bytes.
    fn largest(&self) -> usize {
        LARGEST
    }

    /// Checks who has signed a request, and reads it. Nothing that it says counts before.
    fn hear(
        &self,
        _headers: &HeaderMap,
        _body: &Bytes,
        _now: DateTime<Utc>,
    ) -> Result<Heard, Response> {
        Err(StatusCode::NOT_FOUND.into_response())
    }

    /// The answer to a request whose event was taken, or not.
    fn acknowledge(&self, _taken: Taken) -> Response {
        (StatusCode::ACCEPTED, "accepted\n").into_response()
    }

    /// A text as it has to be written so that the platform shows each character of it, and makes nothing of any.
    fn literal(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Cuts an answer into messages.
    fn pieces(&self, text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    /// Sends a message of an answer, counted from 0.
    async fn send(&self, _origin: &Value, _number: usize, _text: &str) -> Result<(), Failure> {
        Err(Failure::Refused("there is no way back".to_owned()))
    }

    /// Whether an answer may have files.
    fn takes_files(&self) -> bool {
        false
    }

    /// Sends a file as the message of that number.
    async fn send_file(
        &self,
        _origin: &Value,
        _number: usize,
        _file: &Upload,
    ) -> Result<(), Failure> {
        Err(Failure::Refused("files can't be sent there".to_owned()))
    }

    /// Sends a message and says how it can be changed. With the mark of a question it has the buttons that answer it.
    async fn post(
        &self,
        origin: &Value,
        text: &str,
        _mark: Option<&str>,
    ) -> Result<Value, Failure> {
        self.send(origin, 0, text).await.map(|()| Value::Null)
    }

    /// Changes a message that was posted, and its buttons.
    async fn edit(
        &self,
        _origin: &Value,
        message: &Value,
        _text: &str,
        _mark: Option<&str>,
    ) -> Result<(), Failure> {
        match message {
            // What can't be changed stays as it is.
            Value::Null => Ok(()),
            _ => Err(Failure::Refused(
                "messages can't be changed there".to_owned(),
            )),
        }
    }

    /// Sends the message that an answer will be, while it is being written.
    async fn draft(&self, origin: &Value, text: &str) -> Result<Value, Failure> {
        self.post(origin, text, None).await
    }

    /// How long a message stays as it is, at least.
    fn pace(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Whether its messages have buttons. Without them, questions are answered in words.
    fn has_buttons(&self) -> bool {
        false
    }

    /// Tells somebody what his press has come to, where the answer to the request can't.
    async fn tell(&self, _press: &Press, _verdict: &Verdict) {}

    /// The answer to a request that was a press.
    fn pressed(&self, _verdict: &Verdict) -> Response {
        StatusCode::OK.into_response()
    }

    /// Tells a stranger, once, that he is not known.
    async fn turn_away(&self, _origin: &Value) {}

    /// Asks for a file that somebody has sent.
    async fn download(&self, _file: &Sent) -> Result<RequestBuilder, Failure> {
        Err(Failure::Refused("files can't be fetched there".to_owned()))
    }

    /// How long an event may wait for its files.
    fn patience(&self) -> Duration {
        files::PATIENCE
    }

    /// Says that an answer is being written.
    async fn busy(&self, _origin: &Value) {}

    /// How long people see it.
    fn busy_for(&self) -> Duration {
        Duration::from_secs(4)
    }
}

/// The connector of a connection.
pub(crate) fn make(
    bound: &Bound,
    console: Option<&Arc<Console>>,
) -> Result<Arc<dyn Platform>, String> {
    if bound.file.is_some() {
        return Ok(Arc::new(script::Scripted::new(console.cloned())));
    }
    Ok(match bound.connector.as_str() {
        "webhook" => Arc::new(webhook::Webhook::new(bound)),
        "cli" => Arc::new(cli::Cli::new(console.cloned())?),
        "cron" => Arc::new(cron::Cron::new(bound)?),
        "slack" => Arc::new(slack::Slack::new(bound)),
        "github" => Arc::new(github::GitHub::new(bound)),
        "discord" => Arc::new(discord::Discord::new(bound)),
        "telegram" | "telegram-polling" => Arc::new(telegram::Telegram::new(bound)),
        other => return Err(format!("There is no connector `{other}`.")),
    })
}

/// Why letting a sender in changes nothing for a connection, as a sentence; `None` where it does.
pub fn needs_no_approval(bound: &Bound) -> Option<String> {
    let knows_senders =
        bound.file.is_some() || !matches!(bound.connector.as_str(), "cli" | "cron" | "webhook");
    if !knows_senders {
        return Some(format!(
            "The events of the connector `{}` do not say who has sent them.",
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
        .filter(|allow| allow.is_about_senders())
    {
        Some(allow) => allow.lets_everybody_in(),
        None => !is_guarded,
    };
    lets_everybody_in.then(|| {
        format!(
            "Everybody may write to the connection `{}` already.",
            bound.name
        )
    })
}

/// A made-up event of a connection; `given`, a JSON object, says what is different about it.
///
/// # Errors
/// A sentence about what is wrong with `given`.
pub fn sample(bound: &Bound, given: Option<&Value>) -> Result<Event, String> {
    let name = given
        .and_then(|given| given.get("name"))
        .and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !bound.events.iter().any(|known| known == name)) {
        let known = bound.events.join(", ");
        return Err(format!(
            "The connector `{}` has no event `{name}`. It has {known}.",
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
    given.map_or(Ok(event.clone()), |given| with(event, given))
}

fn with(mut event: Event, given: &Value) -> Result<Event, String> {
    let object = given
        .as_object()
        .ok_or("The event must be a JSON object.")?;
    for (name, value) in object {
        let text = || {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or(format!("`{name}` of the event must be text."))
        };
        match name.as_str() {
            "name" => event.name = text()?,
            "text" => event.text = text()?,
            "instanceKey" => event.key = text()?,
            "sender" => {
                event.sender = Some(crate::event::Sender {
                    id: text()?,
                    name: String::new(),
                })
            }
            "channel" => event.channel = Some(text()?),
            "properties" => {
                let given = value
                    .as_object()
                    .ok_or("`properties` of the event must be an object.")?;
                event.properties.extend(crate::event::plain_values(given));
            }
            other => {
                let known = "name, text, instanceKey, sender, channel and properties";
                return Err(format!("An event has no `{other}`. It has {known}."));
            }
        }
    }
    Ok(event)
}

/// Answers a request to a connection.
pub(crate) async fn request(desk: Arc<Desk>, request: Request) -> Response {
    if request.method() != Method::POST {
        return (
            StatusCode::METHOD_NOT_ALLOWED,
            [("allow", "POST")],
            "Events are delivered by POST.\n",
        )
            .into_response();
    }
    // The limit of the server counts as well.
    let (head, body) = request.with_limited_body().into_parts();
    let body = match read(body, desk.platform.largest()).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let heard = match desk.platform.hear(&head.headers, &body, desk.now()) {
        Ok(heard) => heard,
        Err(refusal) => return refusal,
    };
    match heard {
        Heard::Answer(answer) => answer,
        Heard::Press(press) => {
            let verdict = desk.press(&press);
            let answer = desk.platform.pressed(&verdict);
            // The platform waits for the answer alone.
            tokio::spawn(async move { desk.platform.tell(&press, &verdict).await });
            answer
        }
        Heard::Event(event) => match take_for_good(&desk, *event).await {
            Ok(taken) => desk.platform.acknowledge(taken),
            Err(error) => {
                tracing::warn!(
                    connection = desk.bound.name,
                    "an event was not taken: {error}"
                );
                let status = match error.is_passing {
                    true => StatusCode::SERVICE_UNAVAILABLE,
                    false => StatusCode::UNPROCESSABLE_ENTITY,
                };
                (status, format!("{error}\n")).into_response()
            }
        },
    }
}

/// As [`take`], also where the platform has given up waiting: it may fetch files.
async fn take_for_good(desk: &Arc<Desk>, event: Event) -> Result<Taken, NotTaken> {
    let task = tokio::spawn({
        let desk = Arc::clone(desk);
        async move { take(&desk, event).await }
    });
    let broken = |error| NotTaken {
        message: format!("A fault of gdn: {error}."),
        is_passing: true,
    };
    task.await.unwrap_or_else(|error| Err(broken(error)))
}

/// Takes an event in, and is polite to a stranger.
pub(crate) async fn take(desk: &Arc<Desk>, event: Event) -> Result<Taken, NotTaken> {
    let origin = event.origin.clone().unwrap_or_default();
    let taken = desk.accept(event).await?;
    if taken == Taken::Stranger {
        desk.platform.turn_away(&origin).await;
    }
    Ok(taken)
}

async fn read(body: Body, largest: usize) -> Result<Bytes, Response> {
    match tokio::time::timeout(BODY_TIME, to_bytes(body, largest)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is too large, or broke off.\n",
        )
            .into_response()),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "The body took too long.\n").into_response()),
    }
}

/// A text that Markdown shows as it is. Where it would end the block, there is an escape.
pub(crate) fn fenced(text: &str) -> String {
    format!("```\n{}\n```", text.replace("``", "`\\u{60}"))
}

/// The answer to a request whose signature is missing, wrong or too old. It does not say which.
pub(crate) fn unsigned() -> Response {
    (
        StatusCode::UNAUTHORIZED,
        "The request is not signed as it should be, or too old.\n",
    )
        .into_response()
}

/// The answer to a request that makes no sense.
pub(crate) fn senseless(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

/// A header as text; empty where it is missing.
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
            let block = fenced(text);
            let inside = block
                .strip_prefix("```\n")
                .and_then(|rest| rest.strip_suffix("\n```"))
                .unwrap();
            assert!(!inside.contains("``"), "{block}");
        }
        assert_eq!(fenced("``` x"), "```\n`\\u{60}` x\n```");
    }
}
