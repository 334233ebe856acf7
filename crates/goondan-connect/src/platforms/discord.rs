//! `discord`: commands and buttons of an application, which Discord delivers by HTTP. The answer takes the place of "thinking…".

use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::connectors::Bound;
use goondan::spec::kinds::Reply as ReplyMode;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};

use super::{Heard, Platform, fenced, header, senseless, unsigned};
use crate::asking::{Press, Verdict, button, of_button};
use crate::desk::Taken;
use crate::event::{Event, Sender, plain};
use crate::files::{self, Sent};
use crate::http::{self, Failure};
use crate::lanes;
use crate::signature::{is_ed25519, is_fresh};
use crate::uploads::Upload;

/// Where Discord's API is, unless it is said otherwise.
const BASE: &str = "https://discord.com/api/v10";
/// The longest message, in characters.
const LONGEST: usize = 2_000;
/// Kinds of interactions.
const PING: u64 = 1;
const COMMAND: u64 = 2;
const COMPONENT: u64 = 3;
/// The type of an option that is a file.
const ATTACHMENT: u64 = 11;
/// Only who has asked sees the message.
const EPHEMERAL: u64 = 64;
/// What a stranger gets.
const STRANGER: &str = "Sorry, I do not know you yet. The people who run me can let you in.";

/// An application.
pub(super) struct Discord {
    base: String,
    public_key: String,
    answers: bool,
}

impl Discord {
    pub(super) fn new(bound: &Bound) -> Self {
        Discord {
            base: bound
                .setting("apiBaseUrl")
                .unwrap_or(BASE)
                .trim_end_matches('/')
                .to_owned(),
            public_key: bound
                .setting("publicKey")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            answers: bound.reply != ReplyMode::None,
        }
    }
}

#[async_trait]
impl Platform for Discord {
    fn needs_server(&self) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        true
    }

    fn hear(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<Heard, Response> {
        let [timestamp, given] =
            ["x-signature-timestamp", "x-signature-ed25519"].map(|name| header(headers, name));
        if !is_fresh(timestamp, now)
            || !is_ed25519(&self.public_key, &[timestamp.as_bytes(), body], given)
        {
            return Err(unsigned());
        }
        let interaction: Value =
            serde_json::from_slice(body).map_err(|_| senseless("The body is not JSON."))?;
        if interaction["type"].as_u64() == Some(PING) {
            return Ok(Heard::Answer(Json(json!({"type": 1})).into_response()));
        }
        if let Some(press) = press(&interaction) {
            return Ok(Heard::Press(Box::new(press)));
        }
        match event(&interaction) {
            Some(event) => Ok(Heard::Event(Box::new(event))),
            None => Ok(Heard::Answer(told("Sorry, I can't do anything with that."))),
        }
    }

    fn acknowledge(&self, taken: Taken) -> Response {
        match taken {
            // It shows "thinking…" until the answer comes.
            Taken::Accepted if self.answers => Json(json!({"type": 5})).into_response(),
            Taken::Accepted => told("Accepted."),
            Taken::Stranger | Taken::NotLetIn => told(STRANGER),
        }
    }

    fn literal(&self, text: &str) -> String {
        fenced(text)
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        lanes::pieces(text, LONGEST, |_| 1)
    }

    /// The first message takes the place of the one that says that an answer is coming.
    async fn send(&self, origin: &Value, number: usize, text: &str) -> Result<(), Failure> {
        match number {
            0 => self.edit(origin, &ORIGINAL.into(), text, None).await,
            _ => self.post(origin, text, None).await.map(drop),
        }
    }

    fn takes_files(&self) -> bool {
        true
    }

    async fn send_file(&self, origin: &Value, number: usize, file: &Upload) -> Result<(), Failure> {
        let client = http::client().await?;
        let request = match number {
            // "thinking…" becomes the file.
            0 => client.patch(format!("{}/messages/{ORIGINAL}", self.hook(origin))),
            _ => client.post(format!("{}?wait=true", self.hook(origin))),
        };
        let told = json!({"allowed_mentions": {"parse": []}}).to_string();
        let form = Form::new()
            .text("payload_json", told)
            .part("files[0]", file.part());
        http::done_within(request.multipart(form), http::UPLOAD)
            .await
            .map(drop)
    }

    async fn post(&self, origin: &Value, text: &str, mark: Option<&str>) -> Result<Value, Failure> {
        let request = http::client()
            .await?
            .post(format!("{}?wait=true", self.hook(origin)));
        Ok(http::done(request.json(&message(text, mark))).await?["id"].take())
    }

    async fn edit(
        &self,
        origin: &Value,
        posted: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<(), Failure> {
        let id = posted
            .as_str()
            .filter(|id| is_plain(id.trim_start_matches('@')))
            .unwrap_or_default();
        let request = http::client()
            .await?
            .patch(format!("{}/messages/{id}", self.hook(origin)));
        http::done(request.json(&message(text, mark)))
            .await
            .map(drop)
    }

    async fn draft(&self, origin: &Value, text: &str) -> Result<Value, Failure> {
        self.edit(origin, &ORIGINAL.into(), text, None)
            .await
            .map(|()| ORIGINAL.into())
    }

    async fn download(&self, file: &Sent) -> Result<RequestBuilder, Failure> {
        files::at(
            &file.place,
            &["cdn.discordapp.com", "media.discordapp.net"],
            &self.base,
        )
        .await
    }

    /// Discord wants to know within three seconds that the interaction was taken.
    fn patience(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn has_buttons(&self) -> bool {
        true
    }

    fn pressed(&self, verdict: &Verdict) -> Response {
        match &verdict.text {
            // The question becomes its answer, without buttons.
            Some(text) => Json(json!({"type": 7, "data": message(text, None)})).into_response(),
            None => told(verdict.words),
        }
    }
}

impl Discord {
    fn hook(&self, origin: &Value) -> String {
        let [application, token] =
            ["application", "token"].map(|name| origin[name].as_str().unwrap_or_default());
        format!("{}/webhooks/{application}/{token}", self.base)
    }
}

/// The message that says that an answer is coming.
const ORIGINAL: &str = "@original";

/// A message that calls nobody, whatever an agent writes.
fn message(text: &str, mark: Option<&str>) -> Value {
    let key = |label, style, allows, mark| json!({"type": 2, "style": style, "label": label, "custom_id": button(allows, mark)});
    let keys = mark.map(|mark| [key("Allow", 3, true, mark), key("Deny", 4, false, mark)]);
    let rows: Vec<Value> = keys
        .into_iter()
        .map(|keys| json!({"type": 1, "components": keys}))
        .collect();
    json!({"content": text, "allowed_mentions": {"parse": []}, "components": rows})
}

/// A button of one of our questions.
fn press(interaction: &Value) -> Option<Press> {
    let carried = interaction
        .pointer("/data/custom_id")
        .filter(|_| interaction["type"] == COMPONENT)?;
    let (allows, mark) = of_button(carried.as_str()?)?;
    let user = interaction
        .pointer("/member/user")
        .or(interaction.get("user"))?;
    let name = user["global_name"]
        .as_str()
        .or(user["username"].as_str())
        .unwrap_or_default()
        .to_owned();
    let sender = Sender {
        id: user["id"].as_str()?.to_owned(),
        name,
    };
    Some(Press {
        mark,
        allows,
        sender,
        channel: interaction["channel_id"].as_str()?.to_owned(),
        back: Value::Null,
    })
}

fn told(text: &str) -> Response {
    Json(json!({"type": 4, "data": {"content": text, "flags": EPHEMERAL}})).into_response()
}

/// A command with its options, or a button that was pressed.
fn event(interaction: &Value) -> Option<Event> {
    let data = &interaction["data"];
    let (name, text) = match interaction["type"].as_u64()? {
        COMMAND => ("slash_command", command(data)?),
        COMPONENT => ("component_interaction", component(data)?),
        _ => return None,
    };
    let user = interaction
        .pointer("/member/user")
        .or(interaction.get("user"))?;
    let [id, token, application] =
        ["id", "token", "application_id"].map(|field| interaction[field].as_str());
    // Both become parts of an address.
    let (id, token, application) = (
        id?,
        token.filter(|token| is_plain(token))?,
        application.filter(|id| is_plain(id))?,
    );
    if user["bot"].as_bool() == Some(true) {
        return None;
    }
    let (sender, channel) = (user["id"].as_str()?, interaction["channel_id"].as_str()?);
    let facts = [
        (
            "command",
            data.get("name")
                .or(data.get("custom_id"))
                .unwrap_or(&Value::Null),
        ),
        ("channelId", &interaction["channel_id"]),
        ("guildId", &interaction["guild_id"]),
        ("userId", &user["id"]),
        ("username", &user["username"]),
    ];
    let shown = user["global_name"]
        .as_str()
        .or(user["username"].as_str())
        .unwrap_or_default();
    Some(Event {
        name: name.to_owned(),
        id: id.to_owned(),
        text,
        key: format!("discord:{channel}"),
        properties: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), plain(value)?)))
            .collect(),
        sender: Some(Sender {
            id: sender.to_owned(),
            name: shown.to_owned(),
        }),
        channel: Some(channel.to_owned()),
        quotes: false,
        files: attached(data),
        origin: Some(json!({"application": application, "token": token})),
    })
}

/// The text of the only option where there is one; otherwise the command with its options.
fn command(data: &Value) -> Option<String> {
    let name = data["name"].as_str()?;
    // Files come beside the text.
    let (files, options): (Vec<&Value>, Vec<&Value>) = data["options"]
        .as_array()
        .into_iter()
        .flatten()
        .partition(|option| option["type"] == ATTACHMENT);
    if let ([option], []) = (options.as_slice(), files.as_slice())
        && let Some(text) = option["value"]
            .as_str()
            .filter(|text| !text.trim().is_empty())
    {
        return Some(text.to_owned());
    }
    let said = options.iter().filter_map(|option| {
        Some(format!(
            " {}: {}",
            option["name"].as_str()?,
            plain(&option["value"])?
        ))
    });
    let said = match options.as_slice() {
        [option] if option["value"].is_string() => plain(&option["value"])?,
        _ => format!("/{name}{}", said.collect::<String>()),
    };
    let named = attached(data)
        .into_iter()
        .map(|file| format!("[a file: {}]", file.name.unwrap_or_default()));
    Some(
        [said]
            .into_iter()
            .chain(named)
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// Files that are options of a command.
fn attached(data: &Value) -> Vec<Sent> {
    let text = |file: &Value, name: &str| file[name].as_str().map(str::to_owned);
    let sent = |file: &Value| {
        let place = text(file, "url").unwrap_or_default();
        let bytes = file["size"].as_u64();
        Sent {
            place,
            name: text(file, "filename"),
            media_type: text(file, "content_type"),
            bytes,
        }
    };
    let files = data
        .pointer("/resolved/attachments")
        .and_then(Value::as_object);
    files
        .map(|files| files.values().map(sent).collect())
        .unwrap_or_default()
}

fn component(data: &Value) -> Option<String> {
    let id = data["custom_id"].as_str()?;
    let values = data["values"].as_array().map(|values| {
        values
            .iter()
            .filter_map(plain)
            .collect::<Vec<_>>()
            .join(", ")
    });
    Some(match values.filter(|values| !values.is_empty()) {
        Some(values) => format!("{id}: {values}"),
        None => id.to_owned(),
    })
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

pub(super) fn sample() -> Event {
    let interaction = json!({
        "id": "1", "application_id": "2", "token": "sample", "type": COMMAND, "channel_id": "C1", "guild_id": "G1",
        "data": {"name": "ask", "options": [{"name": "question", "value": "Hello"}]},
        "member": {"user": {"id": "U1", "username": "ada"}},
    });
    event(&interaction).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_buttons_are_events() {
        let mut interaction = json!({
            "id": "9", "application_id": "2", "token": "aW50-_x", "type": 2, "channel_id": "5",
            "data": {"name": "ask", "options": [{"name": "question", "value": "why?"}]},
            "user": {"id": "7", "username": "ada"},
        });
        let read = event(&interaction).unwrap();
        assert_eq!(
            (read.text.as_str(), read.key.as_str(), read.id.as_str()),
            ("why?", "discord:5", "9")
        );
        interaction["data"]["options"] =
            json!([{"name": "n", "value": 2}, {"name": "on", "value": true}]);
        assert_eq!(event(&interaction).unwrap().text, "/ask n: 2 on: true");
        interaction["type"] = json!(3);
        interaction["data"] = json!({"custom_id": "yes", "values": ["a", "b"]});
        assert_eq!(event(&interaction).unwrap().text, "yes: a, b");
        interaction["token"] = json!("../../users/@me");
        assert_eq!(event(&interaction), None);
        interaction["type"] = json!(5);
        assert_eq!(event(&interaction), None);
    }
}
