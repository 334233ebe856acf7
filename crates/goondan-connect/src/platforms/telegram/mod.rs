//! `telegram`: a bot that receives messages by long polling or a webhook, and answers in the same
//! chat.
//!
//! Each poll confirms the updates of the previous one. After a crash in between, Telegram delivers
//! the same updates again, which start no second turn.

mod content;
mod update;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

use self::update::{TelegramUpdate, merge_albums};
use super::{ParsedRequest, PlatformConnector, header, json_body, unauthorized_response};
use crate::albums::ALBUM_WAIT;
use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome, button};
use crate::connection_runtime::ConnectionRuntime;
use crate::event::{EventFile, PlatformEvent};
use crate::event_acceptance::EventAcceptance;
use crate::http::{self, PlatformFailure, REQUEST_TIMEOUT};
use crate::signature::{constant_time_eq, hmac_hex};

/// Default URL of the API.
const DEFAULT_API_URL: &str = "https://api.telegram.org";
/// Default duration of a long poll in seconds.
const DEFAULT_POLL_SECONDS: u64 = 30;
/// Reply to an unknown sender, sent once.
const UNKNOWN_SENDER_REPLY: &str =
    "Sorry, you are not approved yet. The operators of this bot can approve you.";

pub(super) struct TelegramConnector {
    base: String,
    token: String,
    poll: u64,
    /// Webhook URL and secret; `None` for long polling.
    webhook: Option<TelegramWebhook>,
    /// New ids of groups that became supergroups.
    moved: Mutex<HashMap<i64, Value>>,
    /// User name of the bot, if Telegram has reported it.
    own_name: OnceLock<String>,
}

struct TelegramWebhook {
    url: String,
    secret: String,
}

/// Maximum number of updates in a response.
const MAX_UPDATES: usize = 100;

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
            moved: Mutex::default(),
            own_name: OnceLock::new(),
            poll: bound
                .setting("pollTimeoutSeconds")
                .and_then(|seconds| seconds.parse().ok())
                .unwrap_or(DEFAULT_POLL_SECONDS),
        }
    }

    /// Creates a request to the bot API.
    async fn request(&self, method: &str, body: &Value) -> Result<RequestBuilder, PlatformFailure> {
        Ok(http::client().await?.post(self.url(method)).json(body))
    }

    /// Requests the user name of the bot. Without the name, mentions of the bot stay in the text.
    async fn learn_own_name(&self) {
        match self.call("getMe", &json!({})).await {
            Ok(bot) => {
                if let Some(name) = bot["username"].as_str() {
                    let _ = self.own_name.set(name.to_owned());
                }
            }
            Err(error) => tracing::debug!(%error, "could not read the name of the bot"),
        }
    }

    /// Parses an update. The text of a message does not mention the bot.
    fn read(&self, update: &Value) -> TelegramUpdate {
        let mut update = TelegramUpdate::read(update);
        if let (TelegramUpdate::Message(event), Some(name)) = (&mut update, self.own_name.get()) {
            event.text = update::without_mention(&event.text, name);
        }
        update
    }

    /// Fetches the updates from `offset` on, which confirms all earlier ones.
    async fn updates(&self, offset: i64) -> Result<Vec<Value>, PlatformFailure> {
        let body = json!({"offset": offset, "timeout": self.poll, "allowed_updates": UPDATE_TYPES});
        let request = self.request("getUpdates", &body).await?;
        let timeout = Duration::from_secs(self.poll) + REQUEST_TIMEOUT;
        let mut answer = http::send(request, timeout).await?;
        match (answer.status, answer.body["result"].take()) {
            (StatusCode::OK, Value::Array(updates)) => Ok(updates),
            (StatusCode::CONFLICT, _) => Err(PlatformFailure::Refused(
                "another program receives the messages of this bot, or the bot has a webhook; stop \
                the program or call deleteWebhook"
                    .to_owned(),
            )),
            _ => Err(PlatformFailure::Refused(answer.message())),
        }
    }

    /// Fetches the next updates. The messages of an album may arrive one after another, so gdn
    /// fetches them again after a short wait; this confirms none of them.
    async fn whole_updates(&self, offset: i64) -> Result<Vec<Value>, PlatformFailure> {
        let updates = self.updates(offset).await?;
        if !updates.iter().any(|update| update::album(update).is_some()) {
            return Ok(updates);
        }
        tokio::time::sleep(ALBUM_WAIT).await;
        let mut updates = self.updates(offset).await?;
        // An album at the end of a full response may continue in the next one.
        let last = updates.last().and_then(update::album).cloned();
        let first = updates
            .iter()
            .position(|update| last.is_some() && update::album(update) == last.as_ref());
        if let Some(first) = first.filter(|first| *first > 0 && updates.len() >= MAX_UPDATES) {
            updates.truncate(first);
        }
        Ok(updates)
    }

    /// Handles an update. A message that would fail again is only logged.
    async fn take(
        &self,
        runtime: &Arc<ConnectionRuntime>,
        update: TelegramUpdate,
    ) -> Result<(), String> {
        match update {
            TelegramUpdate::Press(press) => {
                self.report_outcome(&press, &runtime.press(&press)).await
            }
            TelegramUpdate::Ignored(ignored) => ignored.log(runtime),
            TelegramUpdate::Message(event) => {
                match super::accept_event(runtime, *event).await {
                    // Later messages must not wait for this one.
                    Err(error) if !error.is_retryable => tracing::warn!(
                        connection = runtime.bound.name,
                        "could not accept a message: {error}"
                    ),
                    outcome => {
                        outcome.map_err(|error| error.to_string())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls a method of the bot API and returns its result.
    async fn call(&self, method: &str, body: &Value) -> Result<Value, PlatformFailure> {
        let (client, url) = (http::client().await?, self.url(method));
        let (chat, thread) = (body["chat_id"].clone(), body["message_thread_id"].clone());
        self.send_to(chat, thread, REQUEST_TIMEOUT, |chat, thread| {
            let mut body = body.clone();
            for (name, value) in [("chat_id", chat), ("message_thread_id", thread)] {
                if body.get(name).is_some() {
                    body[name] = value.clone();
                }
            }
            client.post(&url).json(&body)
        })
        .await
    }

    /// Sends a request to a chat and its topic, and returns the result. Repeats it with the new id
    /// of a chat that has moved, and without a topic that was deleted. `request` creates the
    /// request for a chat and a topic.
    async fn send_to(
        &self,
        mut chat: Value,
        mut thread: Value,
        timeout: Duration,
        request: impl Fn(&Value, &Value) -> RequestBuilder,
    ) -> Result<Value, PlatformFailure> {
        for _ in 0..MAX_MOVES {
            chat = self.new_id(&chat).unwrap_or(chat);
            let answer = http::send(request(&chat, &thread), timeout).await?;
            match move_of(&answer.body) {
                Some(ChatMove::To(new_id)) => self.remember(&chat, new_id),
                Some(ChatMove::NoTopic) if !thread.is_null() => thread = Value::Null,
                _ => return answer.success().map(|mut answer| answer["result"].take()),
            }
        }
        Err(PlatformFailure::Refused(
            "Telegram gave the chat a new id too many times in a row".to_owned(),
        ))
    }

    /// Returns the URL of a method of the bot API.
    fn url(&self, method: &str) -> String {
        format!("{}/bot{}/{method}", self.base, self.token)
    }

    /// Returns the new id of a group that became a supergroup.
    fn new_id(&self, chat: &Value) -> Option<Value> {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.get(&chat.as_i64()?).cloned()
    }

    /// Remembers the new id of a group that became a supergroup.
    fn remember(&self, chat: &Value, new_id: Value) {
        let Some(old_id) = chat.as_i64() else { return };
        tracing::warn!(
            "Telegram group {old_id} became a supergroup; change its id to {new_id} in \
            `allow.channels` and in rules"
        );
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.insert(old_id, new_id);
    }

    /// Sends a file to the chat of an event. `field` is the name of the file in the form of the API
    /// method `method`.
    async fn upload(
        &self,
        method: &str,
        field: &'static str,
        origin: &Value,
        file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        let (client, url) = (http::client().await?, self.url(method));
        let (chat, thread) = (origin["chat"].clone(), origin["thread"].clone());
        self.send_to(chat, thread, http::UPLOAD_TIMEOUT, |chat, thread| {
            let mut form = Form::new()
                .text("chat_id", chat.to_string())
                .part(field, file.part());
            if !thread.is_null() {
                form = form.text("message_thread_id", thread.to_string());
            }
            client.post(&url).multipart(form)
        })
        .await
        .map(drop)
    }

    /// Registers the webhook. Telegram then delivers waiting updates immediately.
    async fn deliver_to(&self, webhook: &TelegramWebhook) -> Result<(), String> {
        let body = json!({"url": webhook.url, "secret_token": webhook.secret, "allowed_updates": UPDATE_TYPES});
        loop {
            match self.call("setWebhook", &body).await {
                Ok(_) => return Ok(()),
                Err(PlatformFailure::Later(wait)) => http::wait_for_limit(wait).await,
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }
}

/// Maximum attempts to find the new place of a chat.
const MAX_MOVES: usize = 3;

/// Reason why a message needs another destination.
enum ChatMove {
    /// The group became a supergroup with this id.
    To(Value),
    /// The topic was deleted or closed, or it is the general topic, which has no id.
    NoTopic,
}

/// Returns the new destination that a refusal names.
fn move_of(answer: &Value) -> Option<ChatMove> {
    if let Some(chat) = answer.pointer("/parameters/migrate_to_chat_id") {
        return Some(ChatMove::To(chat.clone()));
    }
    let description = answer["description"].as_str().unwrap_or_default();
    let is_gone = ["thread not found", "TOPIC_CLOSED", "TOPIC_DELETED"]
        .iter()
        .any(|reason| description.contains(reason));
    is_gone.then_some(ChatMove::NoTopic)
}

/// Builds a message for the chat of an event. `text` is HTML.
fn message(origin: &Value, text: &str, mark: Option<&str>) -> Value {
    let mut body = json!({"chat_id": origin["chat"], "text": text, "parse_mode": "HTML"});
    if !origin["thread"].is_null() {
        body["message_thread_id"] = origin["thread"].clone();
    }
    if let Some(mark) = mark {
        let button_json =
            |text: &str, allows| json!({"text": text, "callback_data": button(allows, mark)});
        body["reply_markup"] =
            json!({"inline_keyboard": [[button_json("Allow", true), button_json("Deny", false)]]});
    }
    body
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
            return Err(unauthorized_response());
        }
        Ok(match self.read(&json_body(headers, body)?) {
            TelegramUpdate::Press(press) => ParsedRequest::Press(press),
            TelegramUpdate::Message(event) => ParsedRequest::Event(event),
            TelegramUpdate::Ignored(ignored) => {
                ParsedRequest::Ignored(ignored, Status::OK.into_response())
            }
        })
    }

    fn acknowledge(&self, _taken: EventAcceptance) -> Response {
        Status::OK.into_response()
    }

    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        self.learn_own_name().await;
        if let Some(webhook) = &self.webhook {
            self.deliver_to(webhook).await?;
            return std::future::pending().await;
        }
        let mut offset = 0;
        loop {
            let updates = match self.whole_updates(offset).await {
                Ok(updates) => updates,
                Err(PlatformFailure::Later(wait)) => {
                    http::wait_for_limit(wait).await;
                    continue;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            for update in merge_albums(updates.iter().map(|update| self.read(update))) {
                self.take(runtime, update).await?;
            }
            let ids = updates
                .iter()
                .filter_map(|update| update["update_id"].as_i64());
            offset = ids.max().map_or(offset, |last| last.saturating_add(1));
        }
    }

    fn literal(&self, text: &str) -> String {
        goondan_markup::escaped_html(text)
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        goondan_markup::messages(text, &goondan_markup::TELEGRAM)
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

    async fn report_outcome(&self, press: &ButtonPress, verdict: &PressOutcome) {
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
        if let Err(error) = self.call("sendChatAction", &body).await {
            tracing::debug!(%error, "could not show that the bot is typing");
        }
    }
}

/// Checks that a path stays below the bot's file directory.
fn is_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_plain))
}

/// Returns an event for tests and documentation.
pub(super) fn sample() -> PlatformEvent {
    let update = json!({"update_id": 1, "message": {
        "message_id": 2, "text": "Hello", "chat": {"id": 1001, "type": "private"},
        "from": {"id": 1001, "is_bot": false, "first_name": "Ada", "username": "ada"},
    }});
    update::parse_event(&update).unwrap_or_default()
}
