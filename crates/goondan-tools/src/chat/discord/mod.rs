//! `discord`: messages as a Discord bot.

mod files;
mod read;

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use self::files::{DownloadFile, SendFile};
use self::read::Read;
use super::{Body, Bot, CONFIG, Platform, TimeLimit, emojis, given, no_emoji};
use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

pub(super) const PLATFORM: Platform = Platform {
    name: "Discord",
    base: "https://discord.com/api/v10",
    variables: &["DISCORD_BOT_TOKEN", "DISCORD_TOKEN"],
    scheme: "Bot",
    // Discord rejects requests without this identification.
    headers: &[(
        "user-agent",
        concat!(
            "DiscordBot (",
            env!("CARGO_PKG_REPOSITORY"),
            ", ",
            env!("CARGO_PKG_VERSION"),
            ")"
        ),
    )],
};
const SUPPRESS_EMBEDS: u64 = 1 << 2;
/// Message flag that suppresses notifications.
const SILENT: u64 = 1 << 12;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "discord",
    about: "Sends, reads, edits, deletes and reacts to messages as a bot of Discord, opens threads, and sends and fetches files. \
            Its messages call people whom they mention, and never roles or everybody. Its token is `config.token`, or the first that \
            is set of the variables `DISCORD_BOT_TOKEN` and `DISCORD_TOKEN`; no model sees it.",
    config: CONFIG,
    open: |opening| {
        let bot = Arc::new(Bot::open(opening, &PLATFORM)?);
        let mut download =
            Export::new::<DownloadFile>("downloadFile", &bot).needs(Permission::Network);
        download.spec.optional_permissions.insert(Permission::Write);
        Ok(vec![
            Export::new::<Send>("send", &bot).needs(Permission::Network),
            Export::new::<Read>("read", &bot)
                .needs(Permission::Network)
                .read_only(),
            Export::new::<Edit>("edit", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<Delete>("delete", &bot).needs(Permission::Network),
            Export::new::<React>("react", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<Typing>("typing", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<StartThread>("startThread", &bot).needs(Permission::Network),
            Export::new::<SendFile>("sendFile", &bot)
                .needs(Permission::Network)
                .needs(Permission::Read),
            download,
        ])
    },
    ..Builtin::BLANK
};

fn id<'t>(field: &str, text: &'t str) -> Result<&'t str, ToolError> {
    let text = text.trim();
    match !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(text),
        false => Err(errors::invalid(format!(
            "`{field}` must be the digits of an id, not `{text}`"
        ))),
    }
}

/// Returns the URL of a channel's messages, or of one message.
fn messages(bot: &Bot, channel: &str, message: Option<&str>) -> Result<Url, ToolError> {
    let mut parts = vec!["channels", id("channelId", channel)?, "messages"];
    if let Some(message) = message {
        parts.push(id("messageId", message)?);
    }
    bot.address(&parts)
}

/// Limits mentions in a message to users.
fn calls() -> Value {
    json!({"parse": ["users"]})
}

/// Returns the reference to the answered message.
fn answered(reply_to: Option<&String>) -> Result<Option<Value>, ToolError> {
    let reference = |message: &String| {
        Ok(json!({"message_id": id("replyToMessageId", message)?, "fail_if_not_exists": false}))
    };
    reply_to.map(reference).transpose()
}

/// Send a message to a channel of Discord, or to a thread.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Send {
    /// The id of the channel or of the thread: digits, as text.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The text, in Discord's own markup.
    #[schemars(length(min = 1, max = 2000))]
    text: String,
    /// The id of the message that it answers.
    reply_to_message_id: Option<String>,
    /// Deliver it without a sound.
    #[serde(default)]
    silent: bool,
    /// Show nothing of what links lead to.
    #[serde(default)]
    suppress_embeds: bool,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Send {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let flags =
            u64::from(self.silent) * SILENT + u64::from(self.suppress_embeds) * SUPPRESS_EMBEDS;
        let body = given(json!({
            "content": self.text,
            "message_reference": answered(self.reply_to_message_id.as_ref())?,
            "allowed_mentions": calls(),
            "flags": (flags > 0).then_some(flags),
        }));
        let url = messages(bot, &self.channel_id, None)?;
        let sent = bot
            .call(
                "the message",
                (Method::POST, url),
                Body::Json(body),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": sent["id"],
            "text": sent["content"].as_str().unwrap_or(&self.text),
        });
        Ok(titled(
            format!("Sent a message to {}", self.channel_id),
            output,
        ))
    }
}

/// Replace the text of a message that the bot has sent.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Edit {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The id of the message.
    #[schemars(length(min = 1))]
    message_id: String,
    /// The new text.
    #[schemars(length(min = 1, max = 2000))]
    text: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Edit {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let body = Body::Json(json!({"content": self.text, "allowed_mentions": calls()}));
        let url = messages(bot, &self.channel_id, Some(&self.message_id))?;
        bot.call("the change", (Method::PATCH, url), body, self.timeout_ms)
            .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageId": self.message_id, "edited": true});
        Ok(titled(
            format!("Edited a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Delete a message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delete {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The id of the message.
    #[schemars(length(min = 1))]
    message_id: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Delete {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = messages(bot, &self.channel_id, Some(&self.message_id))?;
        bot.call(
            "to delete",
            (Method::DELETE, url),
            Body::Empty,
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageId": self.message_id, "deleted": true});
        Ok(titled(
            format!("Deleted a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Add reactions of the bot to a message, or take them away.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct React {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The id of the message.
    #[schemars(length(min = 1))]
    message_id: String,
    /// An emoji: the character itself, or `name:id` of one of the server's own.
    emoji: Option<String>,
    /// Several emojis.
    #[serde(default)]
    emojis: Vec<String>,
    /// Take them away instead.
    #[serde(default)]
    remove: bool,
    /// The time limit of each request in milliseconds.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for React {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let names = emojis(self.emoji, self.emojis, |name| {
            name.trim_matches(['<', '>']).trim_matches(':')
        });
        if names.is_empty() {
            return Err(no_emoji());
        }
        let method = if self.remove {
            Method::DELETE
        } else {
            Method::PUT
        };
        let message = [
            "channels",
            id("channelId", &self.channel_id)?,
            "messages",
            id("messageId", &self.message_id)?,
        ];
        for name in &names {
            let url = bot.address(&[message.as_slice(), &["reactions", name, "@me"]].concat())?;
            bot.call(
                "the reaction",
                (method.clone(), url),
                Body::Empty,
                self.timeout_ms,
            )
            .await?;
        }
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": self.message_id, "removed": self.remove,
            "reactionCount": names.len(), "emojis": names,
        });
        Ok(titled(
            format!("Reacted to a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Show in a channel for ten seconds that the bot is typing.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Typing {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Typing {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = bot.address(&["channels", id("channelId", &self.channel_id)?, "typing"])?;
        bot.call(
            "to show that",
            (Method::POST, url),
            Body::Json(json!({})),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id});
        Ok(titled(
            format!("Showed typing in {}", self.channel_id),
            output,
        ))
    }
}

/// Open a thread below a message. Its id is then a channel to send to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartThread {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The id of the message.
    #[schemars(length(min = 1))]
    message_id: String,
    /// What the thread is called.
    #[schemars(length(min = 1, max = 100))]
    name: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for StartThread {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let (channel, message) = (
            id("channelId", &self.channel_id)?,
            id("messageId", &self.message_id)?,
        );
        let url = bot.address(&["channels", channel, "messages", message, "threads"])?;
        let body = Body::Json(json!({"name": self.name}));
        let made = bot
            .call("the thread", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output =
            json!({"ok": true, "channelId": channel, "threadId": made["id"], "name": self.name});
        Ok(titled(format!("Opened the thread {}", self.name), output))
    }
}
