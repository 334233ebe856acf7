//! `telegram`: a bot that fetches its messages (long polling), or gets them delivered (a webhook), and answers in the same chat.
//!
//! What the bot has taken is confirmed by the next call. A process that dies in between gets the same updates again, which
//! start no second turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode as Status};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::connectors::Bound;
use reqwest::multipart::Form;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{Heard, Platform, header, senseless, unsigned};
use crate::asking::{Press, Verdict, button, of_button};
use crate::desk::{Desk, NotTaken, Taken};
use crate::event::{Event, Sender, plain};
use crate::files::Sent;
use crate::http::{self, Failure, PATIENCE};
use crate::lanes;
use crate::signature::{hmac_hex, is_same};
use crate::uploads::Upload;

/// Where bots talk to Telegram, unless it is said otherwise.
const BASE: &str = "https://api.telegram.org";
/// How long a call waits for messages, in seconds, unless it is said otherwise.
const POLL: u64 = 30;
/// The longest message, in UTF-16 units.
const LONGEST: usize = 4_096;
/// What a stranger gets, once.
const STRANGER: &str = "Sorry, I do not know you yet. The people who run me can let you in.";

/// A bot.
pub(super) struct Telegram {
    base: String,
    token: String,
    poll: u64,
    /// Where Telegram delivers, and what it proves itself with.
    webhook: Option<Webhook>,
}

struct Webhook {
    url: String,
    secret: String,
}

/// What a bot gets.
const UPDATES: [&str; 2] = ["message", "callback_query"];

impl Telegram {
    pub(super) fn new(bound: &Bound) -> Self {
        let token = bound.secret("botToken").trim().to_owned();
        Telegram {
            // Who knows it knows the token of the bot; so it needs no place of its own.
            webhook: bound.setting("webhookUrl").map(|url| Webhook {
                url: url.trim().to_owned(),
                secret: hmac_hex(token.as_bytes(), &[b"webhook of ", bound.name.as_bytes()]),
            }),
            base: bound
                .setting("apiBaseUrl")
                .unwrap_or(BASE)
                .trim_end_matches('/')
                .to_owned(),
            token,
            poll: bound
                .setting("pollTimeoutSeconds")
                .and_then(|seconds| seconds.parse().ok())
                .unwrap_or(POLL),
        }
    }

    async fn request(&self, method: &str, body: &Value) -> Result<RequestBuilder, Failure> {
        Ok(http::client()
            .await?
            .post(format!("{}/bot{}/{method}", self.base, self.token))
            .json(body))
    }

    /// The updates from `offset` on, which confirms all before.
    async fn updates(&self, offset: i64) -> Result<Vec<Value>, Failure> {
        let body = json!({"offset": offset, "timeout": self.poll, "allowed_updates": UPDATES});
        let request = self.request("getUpdates", &body).await?;
        let (status, mut body) =
            http::ask(request, Duration::from_secs(self.poll) + PATIENCE).await?;
        match (status, body["result"].take()) {
            (StatusCode::OK, Value::Array(updates)) => Ok(updates),
            (StatusCode::CONFLICT, _) => Err(Failure::Refused(
                "another program fetches the messages of this bot, or it has a webhook; end the one, or call deleteWebhook"
                    .to_owned(),
            )),
            (status, _) => {
                let said: String = body["description"].as_str().unwrap_or_default().chars().take(300).collect();
                Err(Failure::Refused(format!("{} {said}", status.as_u16())))
            }
        }
    }

    async fn take(&self, desk: &Arc<Desk>, update: &Value) -> Result<(), NotTaken> {
        if let Some(press) = press(update) {
            self.tell(&press, &desk.press(&press)).await;
        } else if let Some(event) = event(update) {
            super::take(desk, event).await?;
        }
        Ok(())
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, Failure> {
        http::done(self.request(method, body).await?)
            .await
            .map(|mut answer| answer["result"].take())
    }

    async fn upload(
        &self,
        method: &str,
        field: &'static str,
        origin: &Value,
        file: &Upload,
    ) -> Result<(), Failure> {
        let mut form = Form::new()
            .text("chat_id", origin["chat"].to_string())
            .part(field, file.part());
        if !origin["thread"].is_null() {
            form = form.text("message_thread_id", origin["thread"].to_string());
        }
        let request = http::client()
            .await?
            .post(format!("{}/bot{}/{method}", self.base, self.token));
        http::done_within(request.multipart(form), http::UPLOAD)
            .await
            .map(drop)
    }

    /// Tells Telegram where to deliver. What waits there comes at once.
    async fn deliver_to(&self, webhook: &Webhook) -> Result<(), String> {
        let body =
            json!({"url": webhook.url, "secret_token": webhook.secret, "allowed_updates": UPDATES});
        loop {
            match self.call("setWebhook", &body).await {
                Ok(_) => return Ok(()),
                Err(Failure::Later(wait)) => tokio::time::sleep(wait).await,
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }
}

/// The body of a message in the chat of an event.
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

/// A button of one of our questions.
fn press(update: &Value) -> Option<Press> {
    let query = update.get("callback_query")?;
    let (allows, mark) = of_button(query["data"].as_str()?)?;
    let (from, chat) = (&query["from"], query.pointer("/message/chat/id")?.as_i64()?);
    let sender = Sender {
        id: from["id"].as_i64()?.to_string(),
        name: name(from),
    };
    Some(Press {
        mark,
        allows,
        sender,
        channel: chat.to_string(),
        back: query["id"].clone(),
    })
}

#[async_trait]
impl Platform for Telegram {
    fn is_guarded(&self) -> bool {
        true
    }

    fn needs_server(&self) -> bool {
        self.webhook.is_some()
    }

    /// Telegram signs nothing. What it delivers has the secret that it was told.
    fn hear(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        _now: DateTime<Utc>,
    ) -> Result<Heard, Response> {
        let given = header(headers, "x-telegram-bot-api-secret-token");
        if !self
            .webhook
            .as_ref()
            .is_some_and(|webhook| is_same(given, &webhook.secret))
        {
            return Err(unsigned());
        }
        let update: Value =
            serde_json::from_slice(body).map_err(|_| senseless("The body is not JSON."))?;
        Ok(match (press(&update), event(&update)) {
            (Some(press), _) => Heard::Press(Box::new(press)),
            (None, Some(event)) => Heard::Event(Box::new(event)),
            (None, None) => Heard::Answer(Status::OK.into_response()),
        })
    }

    fn acknowledge(&self, _taken: Taken) -> Response {
        Status::OK.into_response()
    }

    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        if let Some(webhook) = &self.webhook {
            self.deliver_to(webhook).await?;
            return std::future::pending().await;
        }
        let mut offset = 0;
        loop {
            let updates = match self.updates(offset).await {
                Ok(updates) => updates,
                Err(Failure::Later(wait)) => {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            for update in &updates {
                let Some(id) = update["update_id"].as_i64() else {
                    continue;
                };
                match self.take(desk, update).await {
                    // It will never be taken: whoever waits behind it must not wait for it.
                    Err(error) if !error.is_passing => {
                        tracing::warn!(
                            connection = desk.bound.name,
                            "a message was not taken: {error}"
                        );
                    }
                    outcome => outcome.map_err(|error| error.to_string())?,
                }
                offset = offset.max(id.saturating_add(1));
            }
        }
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        lanes::pieces(text, LONGEST, char::len_utf16)
    }

    async fn send(&self, origin: &Value, _number: usize, text: &str) -> Result<(), Failure> {
        self.call("sendMessage", &message(origin, text, None))
            .await
            .map(drop)
    }

    fn takes_files(&self) -> bool {
        true
    }

    /// A picture that Telegram does not show is sent as it is.
    async fn send_file(
        &self,
        origin: &Value,
        _number: usize,
        file: &Upload,
    ) -> Result<(), Failure> {
        if file.is_picture() {
            match self.upload("sendPhoto", "photo", origin, file).await {
                Err(Failure::Refused(_)) => {}
                outcome => return outcome,
            }
        }
        self.upload("sendDocument", "document", origin, file).await
    }

    async fn post(&self, origin: &Value, text: &str, mark: Option<&str>) -> Result<Value, Failure> {
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
    ) -> Result<(), Failure> {
        let mut body = message(origin, text, mark);
        body["message_id"] = posted.clone();
        match self.call("editMessageText", &body).await {
            // It says so already.
            Err(Failure::Refused(why)) if why.contains("message is not modified") => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn has_buttons(&self) -> bool {
        true
    }

    async fn tell(&self, press: &Press, verdict: &Verdict) {
        let body = json!({"callback_query_id": press.back, "text": verdict.words});
        if let Err(error) = self.call("answerCallbackQuery", &body).await {
            tracing::debug!(%error, "somebody was not told what his press has come to");
        }
    }

    /// Politeness: no more than a try.
    async fn turn_away(&self, origin: &Value) {
        if let Err(error) = self.send(origin, 0, STRANGER).await {
            tracing::debug!(%error, "a stranger was not told");
        }
    }

    async fn download(&self, file: &Sent) -> Result<RequestBuilder, Failure> {
        let found = self
            .call("getFile", &json!({"file_id": file.place}))
            .await?;
        let path = found["file_path"].as_str().filter(|path| is_path(path));
        let path =
            path.ok_or_else(|| Failure::Refused("it did not say where the file is".to_owned()))?;
        Ok(http::client()
            .await?
            .get(format!("{}/file/bot{}/{path}", self.base, self.token)))
    }

    async fn busy(&self, origin: &Value) {
        let mut body = json!({"chat_id": origin["chat"], "action": "typing"});
        if !origin["thread"].is_null() {
            body["message_thread_id"] = origin["thread"].clone();
        }
        if let Ok(request) = self.request("sendChatAction", &body).await {
            let _ = http::ask(request, PATIENCE).await;
        }
    }
}

/// A message of a person with a text, or a picture or a file with one.
fn event(update: &Value) -> Option<Event> {
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
    let (file, mark, sent) = file(message);
    let text = [text, &mark]
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
    Some(Event {
        name: "telegram_message".to_owned(),
        id: id.to_string(),
        text,
        key: format!("telegram:{chat_id}"),
        properties,
        sender: from["id"].as_i64().map(|sender| Sender {
            id: sender.to_string(),
            name: name(from),
        }),
        channel: Some(chat_id.to_string()),
        quotes: ["forward_origin", "forward_date"]
            .iter()
            .any(|forwarded| message.get(forwarded).is_some()),
        files: sent.into_iter().collect(),
        origin: Some(json!({"chat": chat_id, "thread": thread})),
    })
}

/// The id of what came with a message, a line that says what it is, and how it can be fetched.
fn file(message: &Value) -> (&Value, String, Option<Sent>) {
    let sent = |file: &Value, media_type: Option<&str>| {
        let place = file["file_id"].as_str()?.to_owned();
        let name = file["file_name"].as_str().map(str::to_owned);
        Some(Sent {
            place,
            name,
            media_type: media_type.map(str::to_owned),
            bytes: file["file_size"].as_u64(),
        })
    };
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        return (
            &photo["file_id"],
            "[a photo]".to_owned(),
            sent(photo, Some("image/jpeg")),
        );
    }
    let document = &message["document"];
    match document["file_id"].is_string() {
        true => {
            let line = format!(
                "[a file: {}]",
                document["file_name"].as_str().unwrap_or("without a name")
            );
            (
                &document["file_id"],
                line,
                sent(document, document["mime_type"].as_str()),
            )
        }
        false => (&Value::Null, String::new(), None),
    }
}

/// A path below the files of a bot, and nothing else.
fn is_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_plain))
}

fn name(from: &Value) -> String {
    let parts = ["first_name", "last_name"]
        .iter()
        .filter_map(|part| from[*part].as_str());
    parts.collect::<Vec<_>>().join(" ")
}

pub(super) fn sample() -> Event {
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
