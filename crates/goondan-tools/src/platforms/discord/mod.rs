//! `discord`: messages as a Discord bot.

mod files;
mod read;

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_markup::DISCORD;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use self::files::{DiscordDownloadFile, DiscordSendFile};
use self::read::DiscordRead;
use super::outgoing_text::{OutgoingText, add_sent_count, restore_mentions};
use super::{
    ApiRequestBody, PLATFORM_CONFIG_KEYS, PlatformClient, PlatformDescription, TimeLimit,
    merge_emojis, no_emoji_error, without_nulls,
};
use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(super) const PLATFORM: PlatformDescription = PlatformDescription {
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
const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "discord",
    about: "Sends, reads, edits, deletes and reacts to messages as a Discord bot, opens threads, \
        and sends and downloads files. Its messages can notify mentioned users, but not roles or \
        @everyone. The token is `config.token`, else the variable `DISCORD_BOT_TOKEN`, else \
        `DISCORD_TOKEN`; models never see it.",
    config: PLATFORM_CONFIG_KEYS,
    open: |opening| {
        let bot = Arc::new(PlatformClient::open(opening, &PLATFORM)?);
        let download = ToolExport::new::<DiscordDownloadFile>("downloadFile", &bot)
            .with_permission(Permission::Network)
            .with_optional_permission(Permission::Write);
        Ok(vec![
            ToolExport::new::<DiscordSend>("send", &bot).with_permission(Permission::Network),
            ToolExport::new::<DiscordRead>("read", &bot)
                .with_permission(Permission::Network)
                .read_only(),
            ToolExport::new::<DiscordEdit>("edit", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<DiscordDelete>("delete", &bot).with_permission(Permission::Network),
            ToolExport::new::<DiscordReact>("react", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<DiscordTyping>("typing", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<StartThread>("startThread", &bot)
                .with_permission(Permission::Network),
            ToolExport::new::<DiscordSendFile>("sendFile", &bot)
                .with_permission(Permission::Network)
                .with_permission(Permission::Read),
            download,
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

fn id<'t>(field: &str, text: &'t str) -> Result<&'t str, HandlerError> {
    let text = text.trim();
    if !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text)
    } else {
        Err(errors::invalid_argument(format!(
            "`{field}` must be the digits of an id, not `{text}`"
        )))
    }
}

/// Returns the URL of a channel's messages, or of one message.
fn messages(
    bot: &PlatformClient,
    channel: &str,
    message: Option<&str>,
) -> Result<Url, HandlerError> {
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
fn reply_reference(reply_to: Option<&String>) -> Result<Option<Value>, HandlerError> {
    let reference = |message: &String| {
        Ok(json!({"message_id": id("replyToMessageId", message)?, "fail_if_not_exists": false}))
    };
    reply_to.map(reference).transpose()
}

/// Send a message to a Discord channel or thread.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscordSend {
    /// Channel or thread id: digits, as a string.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Text, as Markdown. `<@USER>` and `<#CHANNEL>` mention a user and a channel. A long text
    /// becomes several messages.
    #[schemars(length(min = 1))]
    text: String,
    /// Send the text as it is, in Discord's own markup, at most 2,000 characters.
    #[serde(default)]
    raw: bool,
    /// Id of the message to answer.
    reply_to_message_id: Option<String>,
    /// Send without sound.
    #[serde(default)]
    silent: bool,
    /// Do not show previews of links.
    #[serde(default)]
    suppress_embeds: bool,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordSend {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let flags = u64::from(self.silent) * SUPPRESS_NOTIFICATIONS
            + u64::from(self.suppress_embeds) * SUPPRESS_EMBEDS;
        let texts = outgoing_text(&self.text, self.raw).messages()?;
        let mut reply_to = reply_reference(self.reply_to_message_id.as_ref())?;
        let url = messages(bot, &self.channel_id, None)?;
        let mut sent = Vec::with_capacity(texts.len());
        for text in &texts {
            let body = without_nulls(json!({
                "content": text,
                "message_reference": reply_to.take(),
                "allowed_mentions": calls(),
                "flags": (flags > 0).then_some(flags),
            }));
            let answer = bot
                .call(
                    "the message",
                    (Method::POST, url.clone()),
                    ApiRequestBody::Json(body),
                    self.timeout_ms,
                )
                .await;
            sent.push(answer.map_err(|error| add_sent_count(error, sent.len(), texts.len()))?);
        }
        let first = &sent[0];
        let mut output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": first["id"],
            "text": first["content"].as_str().unwrap_or(&texts[0]),
        });
        if sent.len() > 1 {
            let message_ids: Vec<&Value> = sent.iter().map(|answer| &answer["id"]).collect();
            output["allMessageIds"] = json!(message_ids);
        }
        Ok(titled_output(
            format!("Sent a message to {}", self.channel_id),
            output,
        ))
    }
}

/// Returns the text of a call in Discord's markup.
fn outgoing_text(text: &str, is_raw: bool) -> OutgoingText<'_> {
    OutgoingText {
        text,
        is_raw,
        format: &DISCORD,
        with_mentions: |text| restore_mentions(text, ("\\<", "\\>"), is_mention),
    }
}

/// Returns true if the content between `<` and `>` mentions a user or a channel.
fn is_mention(content: &str) -> bool {
    let digits = content
        .strip_prefix("@!")
        .or(content.strip_prefix('@'))
        .or(content.strip_prefix('#'));
    digits.is_some_and(|digits| id("text", digits).is_ok_and(|id| id == digits))
}

/// Replace the text of a message from the bot.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscordEdit {
    /// Channel or thread id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Message id.
    #[schemars(length(min = 1))]
    message_id: String,
    /// New text, as Markdown.
    #[schemars(length(min = 1))]
    text: String,
    /// Use the text as it is, in Discord's own markup, at most 2,000 characters.
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordEdit {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let text = outgoing_text(&self.text, self.raw).message()?;
        let body = ApiRequestBody::Json(json!({"content": text, "allowed_mentions": calls()}));
        let url = messages(bot, &self.channel_id, Some(&self.message_id))?;
        bot.call("the change", (Method::PATCH, url), body, self.timeout_ms)
            .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageId": self.message_id, "edited": true});
        Ok(titled_output(
            format!("Edited a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Delete a message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscordDelete {
    /// Channel or thread id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Message id.
    #[schemars(length(min = 1))]
    message_id: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordDelete {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = messages(bot, &self.channel_id, Some(&self.message_id))?;
        bot.call(
            "to delete",
            (Method::DELETE, url),
            ApiRequestBody::Empty,
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageId": self.message_id, "deleted": true});
        Ok(titled_output(
            format!("Deleted a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Add or remove the bot's reactions to a message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscordReact {
    /// Channel or thread id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Message id.
    #[schemars(length(min = 1))]
    message_id: String,
    /// Emoji: the character itself, or `name:id` of a custom emoji.
    emoji: Option<String>,
    /// Several emojis.
    #[serde(default)]
    emojis: Vec<String>,
    /// Remove the reactions.
    #[serde(default)]
    remove: bool,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordReact {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let names = merge_emojis(self.emoji, self.emojis, |name| {
            name.trim_matches(['<', '>']).trim_matches(':')
        });
        if names.is_empty() {
            return Err(no_emoji_error());
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
                ApiRequestBody::Empty,
                self.timeout_ms,
            )
            .await?;
        }
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": self.message_id, "removed": self.remove,
            "reactionCount": names.len(), "emojis": names,
        });
        Ok(titled_output(
            format!("Reacted to a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Show that the bot is typing, for ten seconds.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscordTyping {
    /// Channel or thread id.
    #[schemars(length(min = 1))]
    channel_id: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordTyping {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = bot.address(&["channels", id("channelId", &self.channel_id)?, "typing"])?;
        bot.call(
            "the typing indicator",
            (Method::POST, url),
            ApiRequestBody::Json(json!({})),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id});
        Ok(titled_output(
            format!("Showed typing in {}", self.channel_id),
            output,
        ))
    }
}

/// Open a thread at a message. Its id works as a channel id.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartThread {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Message id.
    #[schemars(length(min = 1))]
    message_id: String,
    /// Thread name.
    #[schemars(length(min = 1, max = 100))]
    name: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for StartThread {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let (channel, message) = (
            id("channelId", &self.channel_id)?,
            id("messageId", &self.message_id)?,
        );
        let url = bot.address(&["channels", channel, "messages", message, "threads"])?;
        let body = ApiRequestBody::Json(json!({"name": self.name}));
        let thread = bot
            .call("the thread", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output =
            json!({"ok": true, "channelId": channel, "threadId": thread["id"], "name": self.name});
        Ok(titled_output(
            format!("Opened the thread {}", self.name),
            output,
        ))
    }
}
