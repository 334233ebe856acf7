//! Interface of a platform to its connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use reqwest::RequestBuilder;
use serde_json::Value;

use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome};
use crate::connection_runtime::ConnectionRuntime;
use crate::event::{EventFile, PlatformEvent};
use crate::event_acceptance::EventAcceptance;
use crate::event_files;
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

    /// Prepares for the first request, such as with facts that the platform states about the bot.
    async fn prepare(&self) -> Result<(), String> {
        Ok(())
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
