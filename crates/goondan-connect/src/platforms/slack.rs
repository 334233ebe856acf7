//! `slack`: an app whose events Slack delivers by HTTP or over a WebSocket, and which answers in the thread.

mod socket;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::connectors::Bound;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};
use url::form_urlencoded;

use self::socket::Socket;
use super::{Heard, Platform, fenced, header, senseless, unsigned};
use crate::asking::{Press, Verdict, button, of_button};
use crate::desk::{Desk, Taken};
use crate::event::{Event, Sender, plain};
use crate::files::{self, Sent};
use crate::http::{self, Failure};
use crate::lanes;
use crate::listener;
use crate::signature::{is_fresh, is_hmac_hex};
use crate::uploads::Upload;

/// Where apps talk to Slack, unless it is said otherwise.
const BASE: &str = "https://slack.com/api";
/// The longest message that Slack recommends, in characters.
const LONGEST: usize = 4_000;
/// What Slack says of a message that may be sent later.
const RATE_LIMITED: &str = "ratelimited";

/// An app.
pub(super) struct Slack {
    base: String,
    token: String,
    signing_secret: String,
    /// Events come over a connection that this side opens.
    socket: Option<Socket>,
    /// Only messages that mention the app, and direct ones.
    wants_mention: bool,
    /// A port of its own, with the path that counts there.
    port: Option<(u16, String)>,
    /// Slack has said that it does not show whether the app is at work.
    has_no_status: AtomicBool,
}

impl Slack {
    pub(super) fn new(bound: &Bound) -> Self {
        let base = bound
            .setting("apiBaseUrl")
            .unwrap_or(BASE)
            .trim_end_matches('/')
            .to_owned();
        let app_token = Some(bound.secret("appToken").trim()).filter(|token| !token.is_empty());
        Slack {
            socket: app_token.map(|token| Socket::new(&base, token)),
            base,
            token: bound.secret("botToken").trim().to_owned(),
            signing_secret: bound.secret("signingSecret").trim().to_owned(),
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

    fn is_signed(&self, headers: &HeaderMap, body: &Bytes, now: DateTime<Utc>) -> bool {
        let timestamp = header(headers, "x-slack-request-timestamp");
        let given = header(headers, "x-slack-signature").strip_prefix("v0=");
        let message: [&[u8]; 4] = [b"v0:", timestamp.as_bytes(), b":", body];
        !self.signing_secret.is_empty()
            && is_fresh(timestamp, now)
            && given
                .is_some_and(|given| is_hmac_hex(self.signing_secret.as_bytes(), &message, given))
    }

    async fn request(&self, method: &str, body: &Value) -> Result<RequestBuilder, Failure> {
        let client = http::client().await?;
        Ok(client
            .post(format!("{}/{method}", self.base))
            .bearer_auth(&self.token)
            .json(body))
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, Failure> {
        well(http::done(self.request(method, body).await?).await?)
    }

    /// Brings a file to Slack, where nobody sees it yet; gives back its id.
    async fn room(&self, file: &Upload) -> Result<String, Failure> {
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
        let room = well(http::done(request).await?)?;
        let [address, id] =
            ["upload_url", "file_id"].map(|name| room[name].as_str().unwrap_or_default());
        let request = files::post_to(address, &["slack.com"], &self.base).await?;
        let sent = request.multipart(Form::new().part("file", file.part()));
        http::done_within(sent, http::UPLOAD).await?;
        Ok(id.to_owned())
    }

    /// What Slack has to say, whichever way it came.
    fn read(&self, payload: &Value) -> Option<Heard> {
        let pressed = press(payload).map(|press| Heard::Press(Box::new(press)));
        pressed.or_else(|| {
            event(payload, self.wants_mention).map(|event| Heard::Event(Box::new(event)))
        })
    }
}

#[async_trait]
impl Platform for Slack {
    fn needs_server(&self) -> bool {
        self.port.is_none() && self.socket.is_none()
    }

    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        match (&self.socket, &self.port) {
            (Some(socket), _) => socket.receive(self, desk).await,
            (None, Some((port, path))) => listener::listen(desk, *port, path).await,
            (None, None) => std::future::pending().await,
        }
    }

    fn hear(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<Heard, Response> {
        if !self.is_signed(headers, body, now) {
            return Err(unsigned());
        }
        let payload = payload(body).ok_or_else(|| senseless("The body is not JSON."))?;
        if payload["type"] == "url_verification" {
            let challenge = payload["challenge"].as_str().unwrap_or_default().to_owned();
            return Ok(Heard::Answer(challenge.into_response()));
        }
        let ignored = || Heard::Answer(Json(json!({"ok": true, "ignored": true})).into_response());
        Ok(self.read(&payload).unwrap_or_else(ignored))
    }

    fn acknowledge(&self, _taken: Taken) -> Response {
        (StatusCode::OK, Json(json!({"ok": true}))).into_response()
    }

    fn literal(&self, text: &str) -> String {
        fenced(text)
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        lanes::pieces(text, LONGEST, |_| 1)
    }

    async fn send(&self, origin: &Value, _number: usize, text: &str) -> Result<(), Failure> {
        let body = json!({"channel": origin["channel"], "thread_ts": origin["thread"], "text": escaped(text)});
        self.call("chat.postMessage", &body).await.map(drop)
    }

    fn takes_files(&self) -> bool {
        true
    }

    /// The file is seen only with the third step, so the first two may be done again.
    async fn send_file(
        &self,
        origin: &Value,
        _number: usize,
        file: &Upload,
    ) -> Result<(), Failure> {
        let room = self.room(file).await.map_err(unseen)?;
        let body = json!({
            "files": [{"id": room, "title": file.name}], "channel_id": origin["channel"], "thread_ts": origin["thread"],
        });
        self.call("files.completeUploadExternal", &body)
            .await
            .map(drop)
    }

    async fn post(&self, origin: &Value, text: &str, mark: Option<&str>) -> Result<Value, Failure> {
        let mut body = json!({"channel": origin["channel"], "thread_ts": origin["thread"], "text": escaped(text)});
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
    ) -> Result<(), Failure> {
        let blocks = mark.map_or_else(|| json!([]), |mark| blocks(text, mark));
        let body = json!({"channel": origin["channel"], "ts": posted, "text": escaped(text), "blocks": blocks});
        self.call("chat.update", &body).await.map(drop)
    }

    async fn download(&self, file: &Sent) -> Result<RequestBuilder, Failure> {
        Ok(files::at(&file.place, &["slack.com"], &self.base)
            .await?
            .bearer_auth(&self.token))
    }

    /// A status below the thread, until the app writes there.
    async fn busy(&self, origin: &Value) {
        if self.has_no_status.load(Relaxed) {
            return;
        }
        let body = json!({"channel_id": origin["channel"], "thread_ts": origin["thread"], "status": "is thinking..."});
        if let Err(Failure::Refused(why)) = self.call("assistant.threads.setStatus", &body).await {
            // An older workspace, or an app that may not: it is not asked again.
            tracing::debug!("Slack does not show that an answer is being written: {why}");
            self.has_no_status.store(true, Relaxed);
        }
    }

    /// Slack takes it away after two minutes.
    fn busy_for(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Slack takes some fifty changes a minute.
    fn pace(&self) -> Duration {
        Duration::from_millis(1_200)
    }

    fn has_buttons(&self) -> bool {
        true
    }

    /// Who may answer sees the question change; to others Slack shows a line that nobody else sees.
    async fn tell(&self, press: &Press, verdict: &Verdict) {
        if verdict.text.is_some() {
            return;
        }
        let mut body =
            json!({"channel": press.channel, "user": press.sender.id, "text": verdict.words});
        if !press.back.is_null() {
            body["thread_ts"] = press.back.clone();
        }
        if let Err(error) = self.call("chat.postEphemeral", &body).await {
            tracing::debug!(%error, "somebody was not told what his press has come to");
        }
    }
}

/// The answer where it says that all went well: a status of 200 says nothing.
fn well(answer: Value) -> Result<Value, Failure> {
    match answer["error"].as_str() {
        _ if answer["ok"] == true => Ok(answer),
        Some(RATE_LIMITED) => Err(Failure::Later(Duration::from_secs(30))),
        why => Err(Failure::Refused(
            why.unwrap_or("it gave no reason")
                .chars()
                .take(100)
                .collect(),
        )),
    }
}

/// What came of a step that nobody sees: it may be done again.
fn unseen(failure: Failure) -> Failure {
    match failure {
        Failure::Unknown(why) => Failure::Unreached(why),
        other => other,
    }
}

/// What a request holds: JSON, or a form whose only field is JSON, as for buttons.
fn payload(body: &[u8]) -> Option<Value> {
    if !body.starts_with(b"payload=") {
        return serde_json::from_slice(body).ok();
    }
    let (_, payload) = form_urlencoded::parse(body).next()?;
    serde_json::from_str(&payload).ok()
}

/// The question, as plain text, and its two buttons.
fn blocks(text: &str, mark: &str) -> Value {
    let key = |label: &str, style: &str, allows| {
        json!({
            "type": "button", "style": style, "action_id": button(allows, "") , "value": button(allows, mark),
            "text": {"type": "plain_text", "text": label},
        })
    };
    // A section takes 3,000 characters.
    let text: String = text.chars().take(2_900).collect();
    json!([
        {"type": "section", "text": {"type": "plain_text", "text": text}},
        {"type": "actions", "elements": [key("Allow", "primary", true), key("Deny", "danger", false)]},
    ])
}

/// A button of one of our questions.
fn press(payload: &Value) -> Option<Press> {
    let action = payload
        .pointer("/actions/0")
        .filter(|_| payload["type"] == "block_actions")?;
    let (allows, mark) = of_button(action["value"].as_str()?)?;
    let (user, channel) = (
        &payload["user"],
        payload
            .pointer("/channel/id")
            .or(payload.pointer("/container/channel_id"))?,
    );
    let sender = Sender {
        id: user["id"].as_str()?.to_owned(),
        name: user["username"]
            .as_str()
            .or(user["name"].as_str())
            .unwrap_or_default()
            .to_owned(),
    };
    let thread = payload
        .pointer("/container/thread_ts")
        .or(payload.pointer("/message/thread_ts"));
    let (channel, back) = (
        channel.as_str()?.to_owned(),
        thread.cloned().unwrap_or_default(),
    );
    Some(Press {
        mark,
        allows,
        sender,
        channel,
        back,
    })
}

/// What an agent writes can't call a whole channel.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A message of a person. One that mentions the app comes twice, under two ids: what counts is where it stands.
fn event(payload: &Value, wants_mention: bool) -> Option<Event> {
    let event = payload
        .get("event")
        .filter(|_| payload["type"] == "event_callback")?;
    let is_mention = event["type"] == "app_mention";
    let is_direct = event["channel_type"] == "im";
    // Edits, deletions, people who come and go.
    let is_plain = matches!(
        event["subtype"].as_str(),
        None | Some("thread_broadcast" | "file_share")
    );
    let is_bot = !event["bot_id"].is_null() || event["user"].as_str().is_none();
    if !(is_mention || event["type"] == "message") || !is_plain || is_bot {
        return None;
    }
    if wants_mention && !is_mention && !is_direct {
        return None;
    }
    let [channel, ts, user] =
        ["channel", "ts", "user"].map(|name| event[name].as_str().unwrap_or_default());
    let text = event["text"].as_str().unwrap_or_default().trim();
    let files = sent_with(event);
    if channel.is_empty() || ts.is_empty() || (text.is_empty() && files.is_empty()) {
        return None;
    }
    let named = files.iter().map(|file| {
        format!(
            "[a file: {}]",
            file.name.as_deref().unwrap_or("without a name")
        )
    });
    let text = [text.to_owned()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .chain(named)
        .collect::<Vec<_>>()
        .join("\n");
    let thread = event["thread_ts"]
        .as_str()
        .filter(|thread| !thread.is_empty())
        .unwrap_or(ts);
    let facts = [
        ("channelId", &event["channel"]),
        ("channelType", &event["channel_type"]),
        ("messageTs", &event["ts"]),
        ("threadTs", &event["thread_ts"]),
        ("userId", &event["user"]),
        ("teamId", &payload["team_id"]),
    ];
    Some(Event {
        name: if is_mention {
            "app_mention"
        } else {
            "message_im"
        }
        .to_owned(),
        id: format!(
            "{}:{channel}:{ts}",
            payload["team_id"].as_str().unwrap_or_default()
        ),
        text,
        key: format!("slack:{channel}:{thread}"),
        properties: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), plain(value)?)))
            .collect(),
        sender: Some(Sender {
            id: user.to_owned(),
            name: String::new(),
        }),
        channel: Some(channel.to_owned()),
        quotes: false,
        files,
        origin: Some(json!({"channel": channel, "thread": thread})),
    })
}

/// What has come with a message. Files that lie elsewhere are named alone.
fn sent_with(event: &Value) -> Vec<Sent> {
    let text = |file: &Value, name: &str| {
        file[name]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let sent = |file: &Value| {
        let place = text(file, "url_private_download")
            .or(text(file, "url_private"))
            .unwrap_or_default();
        let bytes = file["size"].as_u64();
        Sent {
            place,
            name: text(file, "name"),
            media_type: text(file, "mimetype"),
            bytes,
        }
    };
    event["files"]
        .as_array()
        .map(|files| files.iter().map(sent).collect())
        .unwrap_or_default()
}

pub(super) fn sample() -> Event {
    let payload = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "app_mention", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1700000000.000100",
        "text": "<@U0> Hello",
    }});
    event(&payload, false).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: Value) -> Value {
        let mut event =
            json!({"type": "message", "channel": "C1", "user": "U1", "ts": "1.2", "text": "hi"});
        event
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event})
    }

    #[test]
    fn messages_of_people_are_events_once() {
        let plain = event(&message(json!({})), false).unwrap();
        let mention = event(&message(json!({"type": "app_mention"})), false).unwrap();
        assert_eq!(plain.id, mention.id, "the same message");
        assert_eq!(
            (plain.name.as_str(), mention.name.as_str()),
            ("message_im", "app_mention")
        );
        assert_eq!(plain.key, "slack:C1:1.2");
        let reply = event(&message(json!({"thread_ts": "0.9"})), false).unwrap();
        assert_eq!(
            (reply.key.as_str(), reply.origin.unwrap()["thread"].as_str()),
            ("slack:C1:0.9", Some("0.9"))
        );
        for ignored in [
            json!({"bot_id": "B1"}),
            json!({"subtype": "message_changed"}),
            json!({"user": null}),
            json!({"text": " "}),
            json!({"type": "reaction_added"}),
        ] {
            assert_eq!(event(&message(ignored.clone()), false), None, "{ignored}");
        }
        assert_eq!(
            event(&message(json!({})), true),
            None,
            "nobody has mentioned the app"
        );
        assert!(event(&message(json!({"channel_type": "im"})), true).is_some());
    }

    #[test]
    fn an_answer_calls_nobody() {
        assert_eq!(escaped("<!channel> a & b"), "&lt;!channel&gt; a &amp; b");
    }
}
