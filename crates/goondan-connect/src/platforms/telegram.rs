//! `telegram`: a bot that receives messages by long polling or a webhook, and answers in the same
//! chat.
//!
//! Each poll confirms the updates of the previous one. After a crash in between, Telegram delivers
//! the same updates again, which start no second turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode as Status};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::BoundConnection;
use reqwest::multipart::Form;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{ParsedRequest, PlatformConnector, bad_request, header, unauthorized};
use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome, button, parse_button};
use crate::connection_runtime::{ConnectionRuntime, EventAcceptance, EventRefusal};
use crate::event::{EventSender, PlatformEvent, plain};
use crate::event_files::EventFile;
use crate::http::{self, PlatformFailure, REQUEST_TIMEOUT};
use crate::reply_queue;
use crate::signature::{constant_time_eq, hmac_hex};

/// Default URL of the API.
const DEFAULT_API_URL: &str = "https://api.telegram.org";
/// Default duration of a long poll in seconds.
const DEFAULT_POLL_SECONDS: u64 = 30;
/// Maximum UTF-16 units of a message.
const MAX_MESSAGE_UNITS: usize = 4_096;
/// Reply to an unknown sender, sent once.
const UNKNOWN_SENDER_REPLY: &str =
    "Sorry, you are not approved yet. The operators of this bot can approve you.";

pub(super) struct TelegramConnector {
    base: String,
    token: String,
    poll: u64,
    /// Webhook URL and secret; `None` for long polling.
    webhook: Option<TelegramWebhook>,
}

struct TelegramWebhook {
    url: String,
    secret: String,
}

/// Update types that the bot receives.
const UPDATE_TYPES: [&str; 2] = ["message", "callback_query"];

impl TelegramConnector {
    /// Reads the settings of the connection.
    pub(super) fn new(bound: &BoundConnection) -> Self {
        let token = bound.secret("botToken").trim().to_owned();
        TelegramConnector {
            // The secret is derived from the bot token, so it needs no storage.
            webhook: bound.setting("webhookUrl").map(|url| TelegramWebhook {
                url: url.trim().to_owned(),
                secret: hmac_hex(token.as_bytes(), &[b"webhook of ", bound.name.as_bytes()]),
            }),
            base: bound
                .setting("apiBaseUrl")
                .unwrap_or(DEFAULT_API_URL)
                .trim_end_matches('/')
                .to_owned(),
            token,
            poll: bound
                .setting("pollTimeoutSeconds")
                .and_then(|seconds| seconds.parse().ok())
                .unwrap_or(DEFAULT_POLL_SECONDS),
        }
    }

    /// Creates a request to the bot API.
    async fn request(&self, method: &str, body: &Value) -> Result<RequestBuilder, PlatformFailure> {
        Ok(http::client()
            .await?
            .post(format!("{}/bot{}/{method}", self.base, self.token))
            .json(body))
    }

    /// Fetches the updates from `offset` on, which confirms all earlier ones.
    async fn updates(&self, offset: i64) -> Result<Vec<Value>, PlatformFailure> {
        let body = json!({"offset": offset, "timeout": self.poll, "allowed_updates": UPDATE_TYPES});
        let request = self.request("getUpdates", &body).await?;
        let (status, mut body) =
            http::ask(request, Duration::from_secs(self.poll) + REQUEST_TIMEOUT).await?;
        match (status, body["result"].take()) {
            (StatusCode::OK, Value::Array(updates)) => Ok(updates),
            (StatusCode::CONFLICT, _) => Err(PlatformFailure::Refused(
                "another program receives the messages of this bot, or the bot has a webhook; stop \
                the program or call deleteWebhook"
                    .to_owned(),
            )),
            (status, _) => {
                let said: String = body["description"]
                    .as_str()
                    .unwrap_or_default()
                    .chars()
                    .take(300)
                    .collect();
                Err(PlatformFailure::Refused(format!(
                    "{} {said}",
                    status.as_u16()
                )))
            }
        }
    }

    /// Handles an update: a message or a button press.
    async fn take(
        &self,
        runtime: &Arc<ConnectionRuntime>,
        update: &Value,
    ) -> Result<(), EventRefusal> {
        if let Some(press) = press(update) {
            self.tell(&press, &runtime.press(&press)).await;
        } else if let Some(event) = event(update) {
            super::accept_event(runtime, event).await?;
        }
        Ok(())
    }

    /// Calls a method of the bot API and returns its result.
    async fn call(&self, method: &str, body: &Value) -> Result<Value, PlatformFailure> {
        http::done(self.request(method, body).await?)
            .await
            .map(|mut answer| answer["result"].take())
    }

    /// Sends a file to the chat.
    async fn upload(
        &self,
        method: &str,
        field: &'static str,
        origin: &Value,
        file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        let mut form = Form::new()
            .text("chat_id", origin["chat"].to_string())
            .part(field, file.part());
        if !origin["thread"].is_null() {
            form = form.text("message_thread_id", origin["thread"].to_string());
        }
        let request = http::client()
            .await?
            .post(format!("{}/bot{}/{method}", self.base, self.token));
        http::done_within(request.multipart(form), http::UPLOAD_TIMEOUT)
            .await
            .map(drop)
    }

    /// Registers the webhook. Telegram then delivers waiting updates immediately.
    async fn deliver_to(&self, webhook: &TelegramWebhook) -> Result<(), String> {
        let body = json!({"url": webhook.url, "secret_token": webhook.secret, "allowed_updates": UPDATE_TYPES});
        loop {
            match self.call("setWebhook", &body).await {
                Ok(_) => return Ok(()),
                Err(PlatformFailure::Later(wait)) => tokio::time::sleep(wait).await,
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }
}

/// Builds a message for the chat of an event.
fn message(origin: &Value, text: &str, mark: Option<&str>) -> Value {
    let mut body = json!({"chat_id": origin["chat"], "text": text});
    if !origin["thread"].is_null() {
        body["message_thread_id"] = origin["thread"].clone();
    }
    if let Some(mark) = mark {
        let key = |text: &str, allows| json!({"text": text, "callback_data": button(allows, mark)});
        body["reply_markup"] =
            json!({"inline_keyboard": [[key("Allow", true), key("Deny", false)]]});
    }
    body
}

/// Parses a press of an approval button.
fn press(update: &Value) -> Option<ButtonPress> {
    let query = update.get("callback_query")?;
    let (allows, mark) = parse_button(query["data"].as_str()?)?;
    let (from, chat) = (&query["from"], query.pointer("/message/chat/id")?.as_i64()?);
    let sender = EventSender {
        id: from["id"].as_i64()?.to_string(),
        name: name(from),
    };
    Some(ButtonPress {
        mark,
        allows,
        sender,
        channel: chat.to_string(),
        back: query["id"].clone(),
    })
}

#[async_trait]
impl PlatformConnector for TelegramConnector {
    fn is_guarded(&self) -> bool {
        true
    }

    fn needs_server(&self) -> bool {
        self.webhook.is_some()
    }

    /// Telegram does not sign requests; it sends the registered secret in a header.
    fn parse_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        _now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        let sent_secret = header(headers, "x-telegram-bot-api-secret-token");
        if !self
            .webhook
            .as_ref()
            .is_some_and(|webhook| constant_time_eq(sent_secret, &webhook.secret))
        {
            return Err(unauthorized());
        }
        let update: Value =
            serde_json::from_slice(body).map_err(|_| bad_request("The body is not JSON."))?;
        Ok(match (press(&update), event(&update)) {
            (Some(press), _) => ParsedRequest::Press(Box::new(press)),
            (None, Some(event)) => ParsedRequest::Event(Box::new(event)),
            (None, None) => ParsedRequest::Answer(Status::OK.into_response()),
        })
    }

    fn acknowledge(&self, _taken: EventAcceptance) -> Response {
        Status::OK.into_response()
    }

    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        if let Some(webhook) = &self.webhook {
            self.deliver_to(webhook).await?;
            return std::future::pending().await;
        }
        let mut offset = 0;
        loop {
            let updates = match self.updates(offset).await {
                Ok(updates) => updates,
                Err(PlatformFailure::Later(wait)) => {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            for update in &updates {
                let Some(id) = update["update_id"].as_i64() else {
                    continue;
                };
                match self.take(runtime, update).await {
                    // The message would fail again, and later messages must not wait for it.
                    Err(error) if !error.is_passing => {
                        tracing::warn!(
                            connection = runtime.bound.name,
                            "could not accept a message: {error}"
                        );
                    }
                    outcome => outcome.map_err(|error| error.to_string())?,
                }
                offset = offset.max(id.saturating_add(1));
            }
        }
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        reply_queue::pieces(text, MAX_MESSAGE_UNITS, char::len_utf16)
    }

    async fn send(
        &self,
        origin: &Value,
        _number: usize,
        text: &str,
    ) -> Result<(), PlatformFailure> {
        self.call("sendMessage", &message(origin, text, None))
            .await
            .map(drop)
    }

    fn takes_files(&self) -> bool {
        true
    }

    /// Images that Telegram refuses to display are sent as documents.
    async fn send_file(
        &self,
        origin: &Value,
        _number: usize,
        file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        if file.is_displayable_image() {
            match self.upload("sendPhoto", "photo", origin, file).await {
                Err(PlatformFailure::Refused(_)) => {}
                outcome => return outcome,
            }
        }
        self.upload("sendDocument", "document", origin, file).await
    }

    async fn post(
        &self,
        origin: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<Value, PlatformFailure> {
        Ok(self
            .call("sendMessage", &message(origin, text, mark))
            .await?["message_id"]
            .take())
    }

    async fn edit(
        &self,
        origin: &Value,
        posted: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<(), PlatformFailure> {
        let mut body = message(origin, text, mark);
        body["message_id"] = posted.clone();
        match self.call("editMessageText", &body).await {
            // The message already has this text.
            Err(PlatformFailure::Refused(why)) if why.contains("message is not modified") => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn has_buttons(&self) -> bool {
        true
    }

    async fn tell(&self, press: &ButtonPress, verdict: &PressOutcome) {
        let body = json!({"callback_query_id": press.back, "text": verdict.words});
        if let Err(error) = self.call("answerCallbackQuery", &body).await {
            tracing::debug!(
                %error,
                "could not tell the sender whether the approval answer was accepted"
            );
        }
    }

    /// Best effort: a failure is only logged.
    async fn notify_unknown_sender(&self, origin: &Value) {
        if let Err(error) = self.send(origin, 0, UNKNOWN_SENDER_REPLY).await {
            tracing::debug!(
                %error,
                "could not tell an unknown sender that an operator must approve them"
            );
        }
    }

    async fn download(&self, file: &EventFile) -> Result<RequestBuilder, PlatformFailure> {
        let file_info = self
            .call("getFile", &json!({"file_id": file.place}))
            .await?;
        let path = file_info["file_path"].as_str().filter(|path| is_path(path));
        let path = path.ok_or_else(|| {
            PlatformFailure::Refused("the response contains no file path".to_owned())
        })?;
        Ok(http::client()
            .await?
            .get(format!("{}/file/bot{}/{path}", self.base, self.token)))
    }

    async fn send_typing(&self, origin: &Value) {
        let mut body = json!({"chat_id": origin["chat"], "action": "typing"});
        if !origin["thread"].is_null() {
            body["message_thread_id"] = origin["thread"].clone();
        }
        if let Ok(request) = self.request("sendChatAction", &body).await {
            let _ = http::ask(request, REQUEST_TIMEOUT).await;
        }
    }
}

/// Parses a message of a user with text, an image or a file.
fn event(update: &Value) -> Option<PlatformEvent> {
    let id = update["update_id"].as_i64()?;
    let message = update.get("message")?;
    let (from, chat) = (&message["from"], &message["chat"]);
    if from["is_bot"].as_bool() == Some(true) {
        return None;
    }
    let chat_id = chat["id"].as_i64()?;
    let text = message["text"]
        .as_str()
        .or(message["caption"].as_str())
        .unwrap_or_default();
    let (file, file_line, event_file) = file(message);
    let text = [text, &file_line]
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    if text.is_empty() {
        return None;
    }
    let facts = [
        ("chatId", &chat["id"]),
        ("chatType", &chat["type"]),
        ("messageId", &message["message_id"]),
        ("threadId", &message["message_thread_id"]),
        ("senderId", &from["id"]),
        ("username", &from["username"]),
        ("fileId", file),
    ];
    let properties = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), plain(value)?)))
        .collect();
    let thread = message
        .get("message_thread_id")
        .filter(|_| message["is_topic_message"].as_bool() == Some(true));
    Some(PlatformEvent {
        name: "telegram_message".to_owned(),
        id: id.to_string(),
        text,
        key: format!("telegram:{chat_id}"),
        properties,
        sender: from["id"].as_i64().map(|sender| EventSender {
            id: sender.to_string(),
            name: name(from),
        }),
        channel: Some(chat_id.to_string()),
        // The sender did not write a forwarded message, nor the result of an inline bot.
        quotes: ["forward_origin", "forward_date", "via_bot"]
            .iter()
            .any(|forwarded| message.get(forwarded).is_some()),
        files: event_file.into_iter().collect(),
        origin: Some(json!({"chat": chat_id, "thread": thread})),
    })
}

/// Returns the file id of an attachment, a line that describes it, and the file to fetch.
fn file(message: &Value) -> (&Value, String, Option<EventFile>) {
    let to_event_file = |file: &Value, media_type: Option<&str>| {
        let file_id = file["file_id"].as_str()?.to_owned();
        let name = file["file_name"].as_str().map(str::to_owned);
        Some(EventFile {
            place: file_id,
            name,
            media_type: media_type.map(str::to_owned),
            bytes: file["file_size"].as_u64(),
        })
    };
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        return (
            &photo["file_id"],
            "[a photo]".to_owned(),
            to_event_file(photo, Some("image/jpeg")),
        );
    }
    let document = &message["document"];
    match document["file_id"].is_string() {
        true => {
            let line = format!(
                "[a file: {}]",
                document["file_name"].as_str().unwrap_or("unnamed")
            );
            (
                &document["file_id"],
                line,
                to_event_file(document, document["mime_type"].as_str()),
            )
        }
        false => (&Value::Null, String::new(), None),
    }
}

/// Checks that a path stays below the bot's file directory.
fn is_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_plain))
}

/// Returns the full name of a user.
fn name(from: &Value) -> String {
    let parts = ["first_name", "last_name"]
        .iter()
        .filter_map(|part| from[*part].as_str());
    parts.collect::<Vec<_>>().join(" ")
}

/// Returns an event for tests and documentation.
pub(super) fn sample() -> PlatformEvent {
    let update = json!({"update_id": 1, "message": {
        "message_id": 2, "text": "Hello", "chat": {"id": 1001, "type": "private"},
        "from": {"id": 1001, "is_bot": false, "first_name": "Ada", "username": "ada"},
    }});
    event(&update).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_people_are_events() {
        let topic = json!({"update_id": 5, "message": {
            "message_id": 9, "caption": "look", "message_thread_id": 3, "is_topic_message": true,
            "photo": [{"file_id": "small"}, {"file_id": "large"}],
            "chat": {"id": -100, "type": "supergroup"}, "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        }});
        let read = event(&topic).unwrap();
        assert_eq!(read.text, "look\n[a photo]");
        assert_eq!(read.key, "telegram:-100");
        assert_eq!(read.properties["fileId"], "large");
        assert_eq!(read.origin, Some(json!({"chat": -100, "thread": 3})));
        for ignored in [
            json!({"update_id": 1, "message": {"text": "x", "chat": {"id": 1}, "from": {"id": 2, "is_bot": true}}}),
            json!({"update_id": 1, "message": {"sticker": {}, "chat": {"id": 1}, "from": {"id": 2}}}),
            json!({"update_id": 1, "edited_message": {"text": "x", "chat": {"id": 1}}}),
            json!({"message": {"text": "x", "chat": {"id": 1}}}),
            json!(null),
        ] {
            assert_eq!(event(&ignored), None, "{ignored}");
        }
    }
}
