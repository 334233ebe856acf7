//! `discord`: commands and buttons of a Discord application over HTTP. The answer replaces the
//! "thinking…" message.

mod command;

use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::spec::kinds::ReplyMode;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};

use self::command::{DiscordCommand, choices};
use super::{
    IgnoredUpdate, ParsedRequest, PlatformConnector, code_block, header, json_body,
    unauthorized_response,
};
use crate::answer_files::AnswerFile;
use crate::channel_approvals::{ButtonPress, PressOutcome, button, parse_button};
use crate::event::{EventFile, EventSender, PlatformEvent, scalar_text};
use crate::event_acceptance::EventAcceptance;
use crate::event_files;
use crate::http::{self, PlatformFailure};
use crate::signature::{is_ed25519, is_fresh};

/// Default URL of the API.
const DEFAULT_API_URL: &str = "https://discord.com/api/v10";
/// Interaction types.
const INTERACTION_PING: u64 = 1;
const INTERACTION_COMMAND: u64 = 2;
const INTERACTION_COMPONENT: u64 = 3;
const INTERACTION_AUTOCOMPLETE: u64 = 4;
/// Message flag: visible only to the person who sent the interaction.
const FLAG_EPHEMERAL: u64 = 64;
/// Reply to an unknown sender.
const UNKNOWN_SENDER_REPLY: &str =
    "Sorry, you are not approved yet. The operators of this bot can approve you.";

pub(super) struct DiscordConnector {
    base: String,
    public_key: String,
    answers: bool,
}

impl DiscordConnector {
    /// Reads the settings of the connection.
    pub(super) fn new(bound: &BoundConnection) -> Self {
        DiscordConnector {
            base: bound
                .setting("apiBaseUrl")
                .unwrap_or(DEFAULT_API_URL)
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
impl PlatformConnector for DiscordConnector {
    fn needs_server(&self) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        true
    }

    fn parse_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        let [timestamp, given] =
            ["x-signature-timestamp", "x-signature-ed25519"].map(|name| header(headers, name));
        if !is_fresh(timestamp, now)
            || !is_ed25519(&self.public_key, &[timestamp.as_bytes(), body], given)
        {
            return Err(unauthorized_response());
        }
        let interaction = json_body(headers, body)?;
        match interaction["type"].as_u64() {
            Some(INTERACTION_PING) => {
                return Ok(ParsedRequest::Answer(
                    Json(json!({"type": 1})).into_response(),
                ));
            }
            Some(INTERACTION_AUTOCOMPLETE) => {
                return Ok(ParsedRequest::Answer(
                    Json(choices(&interaction["data"])).into_response(),
                ));
            }
            _ => {}
        }
        if let Some(press) = press(&interaction) {
            return Ok(ParsedRequest::Press(Box::new(press)));
        }
        Ok(match event(&interaction) {
            Some(event) => ParsedRequest::Event(Box::new(event)),
            None => {
                let kind = format!("an interaction of type {}", interaction["type"]);
                let answer = private_reply("Sorry, this command is not supported.");
                ParsedRequest::Ignored(IgnoredUpdate::new(kind), answer)
            }
        })
    }

    fn acknowledge(&self, acceptance: EventAcceptance) -> Response {
        match acceptance {
            // Response type 5 shows "thinking…" until the answer arrives.
            EventAcceptance::Accepted if self.answers => Json(json!({"type": 5})).into_response(),
            EventAcceptance::Accepted => private_reply("Accepted."),
            EventAcceptance::UnknownSender | EventAcceptance::NotAllowed => {
                private_reply(UNKNOWN_SENDER_REPLY)
            }
        }
    }

    fn literal(&self, text: &str) -> String {
        code_block(text)
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        goondan_markup::messages(text, &goondan_markup::DISCORD)
    }

    /// The first message replaces the "thinking…" message.
    async fn send(&self, origin: &Value, number: usize, text: &str) -> Result<(), PlatformFailure> {
        match number {
            0 => {
                self.edit(origin, &ORIGINAL_MESSAGE_ID.into(), text, None)
                    .await
            }
            _ => self.post(origin, text, None).await.map(drop),
        }
    }

    fn takes_files(&self) -> bool {
        true
    }

    async fn send_file(
        &self,
        origin: &Value,
        number: usize,
        file: &AnswerFile,
    ) -> Result<(), PlatformFailure> {
        let client = http::client().await?;
        let request = match number {
            // The file replaces the "thinking…" message.
            0 => client.patch(format!(
                "{}/messages/{ORIGINAL_MESSAGE_ID}",
                self.hook(origin)
            )),
            _ => client.post(format!("{}?wait=true", self.hook(origin))),
        };
        let payload = json!({"allowed_mentions": {"parse": []}}).to_string();
        let form = Form::new()
            .text("payload_json", payload)
            .part("files[0]", file.part());
        http::request_json_with_timeout(request.multipart(form), http::UPLOAD_TIMEOUT)
            .await
            .map(drop)
    }

    async fn post(
        &self,
        origin: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<Value, PlatformFailure> {
        let request = http::client()
            .await?
            .post(format!("{}?wait=true", self.hook(origin)));
        Ok(http::request_json(request.json(&message(text, mark))).await?["id"].take())
    }

    async fn edit(
        &self,
        origin: &Value,
        posted: &Value,
        text: &str,
        mark: Option<&str>,
    ) -> Result<(), PlatformFailure> {
        // `@original` is the id of the first answer to an interaction. The empty id makes Discord
        // reject the request.
        let id = posted
            .as_str()
            .filter(|id| is_plain(id.trim_start_matches('@')))
            .unwrap_or_default();
        let request = http::client()
            .await?
            .patch(format!("{}/messages/{id}", self.hook(origin)));
        http::request_json(request.json(&message(text, mark)))
            .await
            .map(drop)
    }

    async fn draft(&self, origin: &Value, text: &str) -> Result<Value, PlatformFailure> {
        self.edit(origin, &ORIGINAL_MESSAGE_ID.into(), text, None)
            .await
            .map(|()| ORIGINAL_MESSAGE_ID.into())
    }

    async fn download(&self, file: &EventFile) -> Result<RequestBuilder, PlatformFailure> {
        event_files::at(
            &file.place,
            &["cdn.discordapp.com", "media.discordapp.net"],
            &self.base,
        )
        .await
    }

    /// Discord requires a response to an interaction within three seconds.
    fn files_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn has_buttons(&self) -> bool {
        true
    }

    fn pressed(&self, verdict: &PressOutcome) -> Response {
        match &verdict.text {
            // The request message shows its result, without buttons.
            Some(text) => Json(json!({"type": 7, "data": message(text, None)})).into_response(),
            None => private_reply(verdict.words),
        }
    }
}

impl DiscordConnector {
    /// Returns the webhook URL for answers to the interaction.
    fn hook(&self, origin: &Value) -> String {
        let [application, token] =
            ["application", "token"].map(|name| origin[name].as_str().unwrap_or_default());
        format!("{}/webhooks/{application}/{token}", self.base)
    }
}

/// Id of the "thinking…" message.
const ORIGINAL_MESSAGE_ID: &str = "@original";

/// Builds a message. Mentions in the agent's text notify no user. With the approval code `mark`,
/// adds the buttons "Allow" and "Deny".
fn message(text: &str, mark: Option<&str>) -> Value {
    let button_json = |label, style, allows, mark| json!({"type": 2, "style": style, "label": label, "custom_id": button(allows, mark)});
    let keys = mark.map(|mark| {
        [
            button_json("Allow", 3, true, mark),
            button_json("Deny", 4, false, mark),
        ]
    });
    let rows: Vec<Value> = keys
        .into_iter()
        .map(|keys| json!({"type": 1, "components": keys}))
        .collect();
    json!({"content": text, "allowed_mentions": {"parse": []}, "components": rows})
}

/// Parses a press of an approval button.
fn press(interaction: &Value) -> Option<ButtonPress> {
    let button_id = interaction
        .pointer("/data/custom_id")
        .filter(|_| interaction["type"] == INTERACTION_COMPONENT)?;
    let (allows, mark) = parse_button(button_id.as_str()?)?;
    let user = interaction
        .pointer("/member/user")
        .or(interaction.get("user"))?;
    let name = user["global_name"]
        .as_str()
        .or(user["username"].as_str())
        .unwrap_or_default()
        .to_owned();
    let sender = EventSender {
        id: user["id"].as_str()?.to_owned(),
        name,
    };
    Some(ButtonPress {
        mark,
        allows,
        sender,
        channel: interaction["channel_id"].as_str()?.to_owned(),
        back: Value::Null,
    })
}

/// Replies to an interaction with a message that only its sender sees.
fn private_reply(text: &str) -> Response {
    Json(json!({"type": 4, "data": {"content": text, "flags": FLAG_EPHEMERAL}})).into_response()
}

/// Parses a command with its options, or a press of a button or menu. Returns `None` for anything
/// else and for events of bots.
fn event(interaction: &Value) -> Option<PlatformEvent> {
    let data = &interaction["data"];
    let (name, command) = match interaction["type"].as_u64()? {
        INTERACTION_COMMAND => ("slash_command", command::read(data)?),
        INTERACTION_COMPONENT => ("component_interaction", component(data)?),
        _ => return None,
    };
    let user = interaction
        .pointer("/member/user")
        .or(interaction.get("user"))?;
    let [id, token, application] =
        ["id", "token", "application_id"].map(|field| interaction[field].as_str());
    // Both values become parts of a URL.
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
        ("subcommand", &command.subcommand),
        ("channelId", &interaction["channel_id"]),
        ("guildId", &interaction["guild_id"]),
        ("userId", &user["id"]),
        ("username", &user["username"]),
    ];
    let sender_name = user["global_name"]
        .as_str()
        .or(user["username"].as_str())
        .unwrap_or_default();
    Some(PlatformEvent {
        name: name.to_owned(),
        id: id.to_owned(),
        text: command.text,
        quoted: command.quoted,
        key: format!("discord:{channel}"),
        properties: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), scalar_text(value)?)))
            .collect(),
        sender: Some(EventSender {
            id: sender.to_owned(),
            name: sender_name.to_owned(),
        }),
        channel: Some(channel.to_owned()),
        files: command.files,
        origin: Some(json!({"application": application, "token": token})),
        ..PlatformEvent::default()
    })
}

/// Returns the button id, with the selected values of a menu.
fn component(data: &Value) -> Option<DiscordCommand> {
    let id = data["custom_id"].as_str()?;
    let values = data["values"].as_array().map(|values| {
        values
            .iter()
            .filter_map(scalar_text)
            .collect::<Vec<_>>()
            .join(", ")
    });
    Some(DiscordCommand {
        text: match values.filter(|values| !values.is_empty()) {
            Some(values) => format!("{id}: {values}"),
            None => id.to_owned(),
        },
        ..DiscordCommand::default()
    })
}

/// Returns true if the text can be a part of a URL path.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns an event for tests and documentation.
pub(super) fn sample() -> PlatformEvent {
    let interaction = json!({
        "id": "1", "application_id": "2", "token": "sample", "type": INTERACTION_COMMAND, "channel_id": "C1", "guild_id": "G1",
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
