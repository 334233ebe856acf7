//! `slack`: events of a Slack app over HTTP or a WebSocket; answers go to the thread.

mod socket;
mod teams;
mod text;
mod update;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::json_text;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};
use url::form_urlencoded;

use self::socket::SlackSocket;
use self::teams::{SlackTeams, TeamPrefixes};
use self::text::decode_escapes;
use super::{
    IgnoredUpdate, ParsedRequest, PlatformConnector, bad_request, code_block, header, json_body,
    unauthorized_response,
};
use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome, button};
use crate::connection_runtime::ConnectionRuntime;
use crate::event::{EventFile, PlatformEvent};
use crate::event_acceptance::EventAcceptance;
use crate::event_files;
use crate::http::{self, PlatformFailure};
use crate::listener;
use crate::signature::{is_fresh, is_hmac_hex};

/// Default URL of the API.
const DEFAULT_API_URL: &str = "https://slack.com/api";
/// Reply to a slash command, visible only to its sender.
const COMMAND_REPLY: &str =
    "This app does not answer slash commands. Send it a message, or mention it in a channel.";

pub(super) struct SlackConnector {
    base: String,
    token: String,
    signing_secret: String,
    teams: SlackTeams,
    /// Socket mode; set if the connection has an app token.
    socket: Option<SlackSocket>,
    /// Accept only mentions and direct messages.
    wants_mention: bool,
    /// Separate port and its path.
    port: Option<(u16, String)>,
    /// Set after Slack has refused a status request.
    has_no_status: AtomicBool,
}

impl SlackConnector {
    /// Reads the settings of the connection.
    pub(super) fn new(bound: &BoundConnection) -> Self {
        let base = bound
            .setting("apiBaseUrl")
            .unwrap_or(DEFAULT_API_URL)
            .trim_end_matches('/')
            .to_owned();
        let app_token = Some(bound.secret("appToken").trim()).filter(|token| !token.is_empty());
        SlackConnector {
            socket: app_token.map(|token| SlackSocket::new(&base, token)),
            base,
            token: bound.secret("botToken").trim().to_owned(),
            signing_secret: bound.secret("signingSecret").trim().to_owned(),
            teams: SlackTeams::new(bound.setting("teams")),
            wants_mention: bound.setting("messageMode") == Some("mention"),
            port: bound
                .setting("port")
                .and_then(|port| port.parse().ok())
                .map(|port| {
                    let path = bound.setting("path").unwrap_or("/").trim_end_matches('/');
                    (
                        port,
                        if path.is_empty() {
                            "/".to_owned()
                        } else {
                            path.to_owned()
                        },
                    )
                }),
            has_no_status: AtomicBool::new(false),
        }
    }

    /// Checks the signature and the age of a request.
    fn is_signed(&self, headers: &HeaderMap, body: &Bytes, now: DateTime<Utc>) -> bool {
        let timestamp = header(headers, "x-slack-request-timestamp");
        let signature = header(headers, "x-slack-signature").strip_prefix("v0=");
        let message: [&[u8]; 4] = [b"v0:", timestamp.as_bytes(), b":", body];
        !self.signing_secret.is_empty()
            && is_fresh(timestamp, now)
            && signature.is_some_and(|signature| {
                is_hmac_hex(self.signing_secret.as_bytes(), &message, signature)
            })
    }

    /// Creates a request to the web API.
    async fn request(&self, method: &str, body: &Value) -> Result<RequestBuilder, PlatformFailure> {
        let client = http::client().await?;
        Ok(client
            .post(format!("{}/{method}", self.base))
            .bearer_auth(&self.token)
            .json(body))
    }

    /// Calls a method of the web API.
    async fn call(&self, method: &str, body: &Value) -> Result<Value, PlatformFailure> {
        check_ok(http::request_json(self.request(method, body).await?).await?)
    }

    /// Uploads a file without sharing it. Returns its id.
    async fn upload_unshared(&self, file: &AnswerFile) -> Result<String, PlatformFailure> {
        let length = file.content.len().to_string();
        let fields = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("filename", file.name.as_str()),
                ("length", length.as_str()),
            ])
            .finish();
        let client = http::client().await?;
        let request = client
            .post(format!("{}/files.getUploadURLExternal", self.base))
            .bearer_auth(&self.token);
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields);
        let upload = check_ok(http::request_json(request).await?)?;
        let [address, id] =
            ["upload_url", "file_id"].map(|name| upload[name].as_str().unwrap_or_default());
        let request = event_files::post_to(address, &["slack.com"], &self.base).await?;
        let sent = request.multipart(Form::new().part("file", file.part()));
        http::request_json_with_timeout(sent, http::UPLOAD_TIMEOUT).await?;
        Ok(id.to_owned())
    }

    /// Parses a payload from HTTP or the WebSocket.
    fn read(&self, payload: &Value) -> Result<ParsedRequest, IgnoredUpdate> {
        let teams = self.teams.accepted_prefixes(payload)?;
        if let Some(press) = update::press(payload, &teams) {
            return Ok(ParsedRequest::Press(Box::new(press)));
        }
        update::parse_event(payload, &teams, self.wants_mention)
            .map(|event| ParsedRequest::Event(Box::new(event)))
    }
}

#[async_trait]
impl PlatformConnector for SlackConnector {
    fn needs_server(&self) -> bool {
        self.port.is_none() && self.socket.is_none()
    }

    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        match (&self.socket, &self.port) {
            (Some(socket), _) => {
                self.prepare().await?;
                socket.receive(self, runtime).await
            }
            (None, Some((port, path))) => listener::listen(runtime, *port, path).await,
            (None, None) => std::future::pending().await,
        }
    }

    async fn prepare(&self) -> Result<(), String> {
        self.teams.prepare(self).await
    }

    fn parse_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        if !self.is_signed(headers, body, now) {
            return Err(unauthorized_response());
        }
        let payload = match form(body) {
            None => json_body(headers, body)?,
            Some(fields) => match fields.get("payload") {
                Some(payload) => json_text::parse(payload)
                    .map_err(|_| bad_request("The field `payload` of the body is not JSON."))?,
                None => return Ok(command(&fields)),
            },
        };
        if payload["type"] == "url_verification" {
            let challenge = payload["challenge"].as_str().unwrap_or_default().to_owned();
            return Ok(ParsedRequest::Answer(challenge.into_response()));
        }
        Ok(self.read(&payload).unwrap_or_else(|ignored| {
            // Slack reads the response to an interaction, so it must be empty.
            let answer = if payload["type"] == "event_callback" {
                Json(json!({"ok": true, "ignored": true})).into_response()
            } else {
                StatusCode::OK.into_response()
            };
            ParsedRequest::Ignored(ignored, answer)
        }))
    }

    fn acknowledge(&self, _taken: EventAcceptance) -> Response {
        (StatusCode::OK, Json(json!({"ok": true}))).into_response()
    }

    fn literal(&self, text: &str) -> String {
        goondan_markup::escaped_mrkdwn(&code_block(text))
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        goondan_markup::messages(text, &goondan_markup::SLACK)
    }

    async fn send(
        &self,
        origin: &Value,
        _number: usize,
        text: &str,
    ) -> Result<(), PlatformFailure> {
        self.post(origin, text, None).await.map(drop)
    }

    fn takes_files(&self) -> bool {
        true
    }

    /// Uploads the file with two requests that do not share it, so they can be repeated. The third
    /// request shares it in the thread.
    async fn send_file(
        &self,
        origin: &Value,
        _number: usize,
        file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        let file_id = self
            .upload_unshared(file)
            .await
            .map_err(repeatable_failure)?;
        let body = json!({"files": [{"id": file_id, "title": file.name}], "channel_id": origin["channel"]});
        let body = add_thread(origin, body);
        self.call("files.completeUploadExternal", &body)
            .await
            .map(drop)
    }

    async fn post(
        &self,
        origin: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<Value, PlatformFailure> {
        let mut body = add_thread(origin, json!({"channel": origin["channel"], "text": text}));
        if let Some(mark) = mark {
            body["blocks"] = blocks(text, mark);
        }
        Ok(self.call("chat.postMessage", &body).await?["ts"].take())
    }

    async fn edit(
        &self,
        origin: &Value,
        posted: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<(), PlatformFailure> {
        let blocks = mark.map_or_else(|| json!([]), |mark| blocks(text, mark));
        let body =
            json!({"channel": origin["channel"], "ts": posted, "text": text, "blocks": blocks});
        self.call("chat.update", &body).await.map(drop)
    }

    async fn download(&self, file: &EventFile) -> Result<RequestBuilder, PlatformFailure> {
        Ok(event_files::at(&file.place, &["slack.com"], &self.base)
            .await?
            .bearer_auth(&self.token))
    }

    /// Sets a status below the thread; Slack clears it when the app posts there. Direct messages
    /// outside of a thread have no status.
    async fn send_typing(&self, origin: &Value) {
        if origin["thread"].is_null() || self.has_no_status.load(Relaxed) {
            return;
        }
        let body = json!({"channel_id": origin["channel"], "thread_ts": origin["thread"], "status": "is thinking..."});
        if let Err(PlatformFailure::Refused(why)) =
            self.call("assistant.threads.setStatus", &body).await
        {
            // Older workspaces and apps without the permission refuse; do not request it again.
            tracing::debug!("Slack refused the typing status; gdn sends no further status: {why}");
            self.has_no_status.store(true, Relaxed);
        }
    }

    /// Slack clears a status after two minutes.
    fn typing_interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Slack allows about fifty edits per minute.
    fn edit_interval(&self) -> Duration {
        Duration::from_millis(1_200)
    }

    fn has_buttons(&self) -> bool {
        true
    }

    /// Approvers see the edited request message; other users get an ephemeral message.
    async fn report_outcome(&self, press: &ButtonPress, verdict: &PressOutcome) {
        if verdict.text.is_some() {
            return;
        }
        // The id of a user of another workspace begins with the workspace.
        let sender = &press.sender.id;
        let user = sender.rsplit(':').next().unwrap_or(sender);
        let mut body = json!({"channel": press.channel, "user": user, "text": verdict.words});
        if !press.back.is_null() {
            body["thread_ts"] = press.back.clone();
        }
        if let Err(error) = self.call("chat.postEphemeral", &body).await {
            tracing::debug!(
                %error,
                "could not tell the sender whether the approval answer was accepted"
            );
        }
    }
}

/// Checks the `ok` field of a response, because Slack also returns errors with status 200.
fn check_ok(answer: Value) -> Result<Value, PlatformFailure> {
    match answer["error"].as_str() {
        _ if answer["ok"] == true => Ok(answer),
        why => Err(PlatformFailure::Refused(
            why.unwrap_or("no reason given").chars().take(100).collect(),
        )),
    }
}

/// Adds the thread of an event to a message. Direct messages are answered outside of threads.
fn add_thread(origin: &Value, mut message: Value) -> Value {
    if !origin["thread"].is_null() {
        message["thread_ts"] = origin["thread"].clone();
    }
    message
}

/// Marks an unknown result as repeatable, for requests without a visible effect.
fn repeatable_failure(failure: PlatformFailure) -> PlatformFailure {
    match failure {
        PlatformFailure::Unknown(why) => PlatformFailure::Unreached(why),
        other => other,
    }
}

/// Returns the fields of a form, which Slack sends for buttons and slash commands.
fn form(body: &[u8]) -> Option<HashMap<String, String>> {
    let is_form = !body.trim_ascii_start().starts_with(b"{")
        && body
            .split(|byte| *byte == b'=')
            .next()
            .is_some_and(|name| name.len() < body.len() && name.iter().all(is_name_byte));
    is_form.then(|| form_urlencoded::parse(body).into_owned().collect())
}

/// Returns true for a character of a field name.
fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Answers a slash command, so that Slack does not show an error to its sender.
fn command(fields: &HashMap<String, String>) -> ParsedRequest {
    let Some(name) = fields.get("command") else {
        // Slack checks the certificate of the server with `ssl_check=1`.
        let ignored = IgnoredUpdate::new("a form without a command");
        return ParsedRequest::Ignored(ignored, StatusCode::OK.into_response());
    };
    ParsedRequest::Ignored(ignored_command(name), Json(command_reply()).into_response())
}

/// Returns the update for a slash command, which starts no turn.
fn ignored_command(name: &str) -> IgnoredUpdate {
    IgnoredUpdate::new(format!("the slash command {name}"))
}

/// Returns the reply to a slash command.
fn command_reply() -> Value {
    json!({"response_type": "ephemeral", "text": COMMAND_REPLY})
}

/// Returns the blocks of an approval request: plain text and two buttons.
fn blocks(text: &str, mark: &str) -> Value {
    let button_block = |label: &str, style: &str, allows| {
        json!({
            "type": "button", "style": style, "action_id": button(allows, "") , "value": button(allows, mark),
            "text": {"type": "plain_text", "text": label},
        })
    };
    // A section holds at most 3,000 characters.
    let text: String = decode_escapes(text).chars().take(2_900).collect();
    json!([
        {"type": "section", "text": {"type": "plain_text", "text": text}},
        {"type": "actions", "elements": [button_block("Allow", "primary", true), button_block("Deny", "danger", false)]},
    ])
}

/// Returns an event for tests and documentation.
pub(super) fn sample() -> PlatformEvent {
    let payload = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "app_mention", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1700000000.000100",
        "text": "<@U0> Hello",
    }});
    update::parse_event(&payload, &TeamPrefixes::default(), false).unwrap_or_default()
}
