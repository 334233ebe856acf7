//! `telegram`: messages as a Telegram bot.

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use reqwest::multipart::Form;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::{Fetch, Outgoing};
use super::{Answer, Body, Bot, CONFIG, Platform, TimeLimit, emojis, given, no_emoji};
use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

pub(super) const PLATFORM: Platform = Platform {
    name: "Telegram",
    base: "https://api.telegram.org",
    variables: &["TELEGRAM_BOT_TOKEN", "BOT_TOKEN", "TELEGRAM_TOKEN"],
    // The token is a part of the URL.
    scheme: "",
    headers: &[],
};

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "telegram",
    about: "Sends, edits, deletes and reacts to messages as a bot of Telegram, and sends and fetches files. Its token is `config.token`, or \
            the first that is set of the variables `TELEGRAM_BOT_TOKEN`, `BOT_TOKEN` and `TELEGRAM_TOKEN`; no model sees it.",
    config: CONFIG,
    open: |opening| {
        let bot = Arc::new(Bot::open(opening, &PLATFORM)?);
        let mut download =
            Export::new::<DownloadFile>("downloadFile", &bot).needs(Permission::Network);
        download.spec.optional_permissions.insert(Permission::Write);
        Ok(vec![
            Export::new::<Send>("send", &bot).needs(Permission::Network),
            Export::new::<Edit>("edit", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<Delete>("delete", &bot).needs(Permission::Network),
            Export::new::<React>("react", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<SetChatAction>("setChatAction", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<SendFile>("sendFile", &bot)
                .needs(Permission::Network)
                .needs(Permission::Read),
            download,
        ])
    },
    ..Builtin::BLANK
};

/// An id, which people write as a number or as text.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    /// Returns the chat id, or the `@name`.
    fn chat(&self) -> Result<String, ToolError> {
        match self {
            Id::Number(number) => Ok(number.to_string()),
            Id::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Id::Text(_) => Err(errors::invalid("`chatId` must not be empty")),
        }
    }

    /// Returns the message id.
    fn message(&self, field: &str) -> Result<i64, ToolError> {
        let number = match self {
            Id::Number(number) => Some(*number),
            Id::Text(text) => text.trim().parse().ok(),
        };
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| errors::invalid(format!("`{field}` must be a positive whole number")))
    }
}

/// How a text is marked up.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
enum ParseMode {
    #[serde(alias = "markdown")]
    Markdown,
    #[serde(alias = "markdownv2", alias = "markdown-v2")]
    MarkdownV2,
    #[serde(rename = "HTML", alias = "html")]
    Html,
}

/// Calls a method of the Bot API, and returns its `result`.
async fn call(
    bot: &Bot,
    method: &str,
    body: Value,
    timeout_ms: TimeLimit,
) -> Result<Value, ToolError> {
    let url = format!("{}/bot{}/{method}", bot.base, bot.token()?);
    said(
        bot,
        method,
        bot.post(url, false, given(body), timeout_ms).await?,
    )
}

/// Returns the `result` of a successful answer.
fn said(bot: &Bot, method: &str, (status, mut answer): Answer) -> Result<Value, ToolError> {
    match status.is_success() && answer["ok"] == true {
        true => Ok(answer["result"].take()),
        false => Err(bot.refused(method, status, answer["description"].as_str())),
    }
}

/// Send a text message to a chat of Telegram.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Send {
    /// The id of the chat, or the `@name` of a channel.
    chat_id: Id,
    /// The text, at most 4,096 characters.
    #[schemars(length(min = 1))]
    text: String,
    /// How the text is marked up. Without it, it is plain.
    parse_mode: Option<ParseMode>,
    /// Deliver it without a sound.
    disable_notification: Option<bool>,
    /// Show no preview of links.
    disable_web_page_preview: Option<bool>,
    /// The message of the chat that it answers.
    reply_to_message_id: Option<Id>,
    /// Send it even if that message is gone.
    allow_sending_without_reply: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Send {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let chat = self.chat_id.chat()?;
        let reply_to = self
            .reply_to_message_id
            .map(|id| id.message("replyToMessageId"))
            .transpose()?;
        let body = json!({
            "chat_id": chat,
            "text": self.text,
            "parse_mode": self.parse_mode,
            "disable_notification": self.disable_notification,
            "disable_web_page_preview": self.disable_web_page_preview,
            "reply_to_message_id": reply_to,
            "allow_sending_without_reply": self.allow_sending_without_reply,
        });
        let sent = call(bot, "sendMessage", body, self.timeout_ms).await?;
        let output = json!({
            "ok": true, "chatId": chat, "messageId": sent["message_id"], "date": sent["date"], "text": sent["text"],
        });
        Ok(titled(format!("Sent a message to {chat}"), output))
    }
}

/// Replace the text of a message that the bot has sent.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Edit {
    /// The id of the chat.
    chat_id: Id,
    /// The id of the message.
    message_id: Id,
    /// The new text.
    #[schemars(length(min = 1))]
    text: String,
    /// How the text is marked up. Without it, it is plain.
    parse_mode: Option<ParseMode>,
    /// Show no preview of links.
    disable_web_page_preview: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Edit {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let (chat, message) = (self.chat_id.chat()?, self.message_id.message("messageId")?);
        let body = json!({
            "chat_id": chat,
            "message_id": message,
            "text": self.text,
            "parse_mode": self.parse_mode,
            "disable_web_page_preview": self.disable_web_page_preview,
        });
        call(bot, "editMessageText", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "chatId": chat, "messageId": message, "edited": true});
        Ok(titled(format!("Edited a message in {chat}"), output))
    }
}

/// Delete a message of a chat.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delete {
    /// The id of the chat.
    chat_id: Id,
    /// The id of the message.
    message_id: Id,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Delete {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let (chat, message) = (self.chat_id.chat()?, self.message_id.message("messageId")?);
        call(
            bot,
            "deleteMessage",
            json!({"chat_id": chat, "message_id": message}),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "chatId": chat, "messageId": message, "deleted": true});
        Ok(titled(format!("Deleted a message in {chat}"), output))
    }
}

/// Set the bot's reactions to a message, in place of those that it has set before.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct React {
    /// The id of the chat.
    chat_id: Id,
    /// The id of the message.
    message_id: Id,
    /// An emoji.
    emoji: Option<String>,
    /// Several emojis.
    #[serde(default)]
    emojis: Vec<String>,
    /// Take the reactions away instead.
    #[serde(default)]
    clear: bool,
    /// Show it large.
    is_big: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for React {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let (chat, message) = (self.chat_id.chat()?, self.message_id.message("messageId")?);
        let emojis = if self.clear {
            Vec::new()
        } else {
            emojis(self.emoji, self.emojis, str::trim)
        };
        if emojis.is_empty() && !self.clear {
            return Err(no_emoji().suggest("to take the reactions away, pass `clear: true`"));
        }
        let reaction: Vec<Value> = emojis
            .iter()
            .map(|emoji| json!({"type": "emoji", "emoji": emoji}))
            .collect();
        let body = json!({"chat_id": chat, "message_id": message, "reaction": reaction, "is_big": self.is_big});
        call(bot, "setMessageReaction", body, self.timeout_ms).await?;
        let output = json!({
            "ok": true, "chatId": chat, "messageId": message, "cleared": self.clear, "reactionCount": emojis.len(),
            "emojis": emojis,
        });
        Ok(titled(format!("Reacted to a message in {chat}"), output))
    }
}

/// What the bot is shown to be doing.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "kebab-case", serialize = "snake_case"))]
#[schemars(inline)]
enum Action {
    #[default]
    Typing,
    #[serde(alias = "upload_photo")]
    UploadPhoto,
    #[serde(alias = "record_video")]
    RecordVideo,
    #[serde(alias = "upload_video")]
    UploadVideo,
    #[serde(alias = "record_voice")]
    RecordVoice,
    #[serde(alias = "upload_voice")]
    UploadVoice,
    #[serde(alias = "upload_document")]
    UploadDocument,
    #[serde(alias = "choose_sticker")]
    ChooseSticker,
    #[serde(alias = "find_location")]
    FindLocation,
    #[serde(alias = "record_video_note")]
    RecordVideoNote,
    #[serde(alias = "upload_video_note")]
    UploadVideoNote,
}

/// Show in a chat for a few seconds that the bot is doing something.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetChatAction {
    /// The id of the chat.
    chat_id: Id,
    /// What it is doing; `typing` without it.
    action: Option<Action>,
    /// The same as `action`.
    status: Option<Action>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for SetChatAction {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let (chat, action) = (
            self.chat_id.chat()?,
            json!(self.action.or(self.status).unwrap_or_default()),
        );
        call(
            bot,
            "sendChatAction",
            json!({"chat_id": chat, "action": action}),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "chatId": chat, "status": action, "action": action});
        Ok(titled(
            format!("Showed {} in {chat}", action.as_str().unwrap_or_default()),
            output,
        ))
    }
}

/// What a file is shown as.
#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum ShownAs {
    #[default]
    Document,
    Photo,
}

/// Send a file of the working directory to a chat of Telegram.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SendFile {
    /// The id of the chat, or the `@name` of a channel.
    chat_id: Id,
    /// The file, relative to the working directory, at most 10,000,000 bytes.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH))]
    path: String,
    /// What it is called there; its own name without it.
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// A text below it, at most 1,024 characters.
    #[schemars(length(max = 1024))]
    text: Option<String>,
    /// `photo` for a picture that is shown at once and made smaller; `document`, as it is, without it.
    #[serde(default)]
    shown_as: ShownAs,
    /// The message of the chat that it answers.
    reply_to_message_id: Option<Id>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for SendFile {
    type Shared = Bot;

    async fn run(self, ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let chat = self.chat_id.chat()?;
        let reply_to = self
            .reply_to_message_id
            .map(|id| id.message("replyToMessageId"))
            .transpose()?;
        let (method, field) = match self.shown_as {
            ShownAs::Document => ("sendDocument", "document"),
            ShownAs::Photo => ("sendPhoto", "photo"),
        };
        let file = Outgoing::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        let mut form = Form::new()
            .text("chat_id", chat.clone())
            .part(field, file.part());
        if let Some(text) = self.text {
            form = form.text("caption", text);
        }
        if let Some(reply_to) = reply_to {
            form = form.text("reply_to_message_id", reply_to.to_string());
        }
        let url = format!("{}/bot{}/{method}", bot.base, bot.token()?);
        let answer = bot
            .ask(
                (Method::POST, url, false),
                Body::Form(form),
                self.timeout_ms,
            )
            .await?;
        let sent = said(bot, method, answer)?;
        let output = json!({"ok": true, "chatId": chat, "messageId": sent["message_id"], "name": name, "sizeBytes": size});
        Ok(titled(format!("Sent {name} to {chat}"), output))
    }
}

/// Fetch a file that somebody has sent to the bot.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
struct DownloadFile {
    /// The id of the file.
    #[schemars(length(min = 1))]
    file_id: String,
    #[serde(flatten)]
    fetch: Fetch,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for DownloadFile {
    type Shared = Bot;

    async fn run(self, ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        self.fetch.check(ctx)?;
        let file = call(
            bot,
            "getFile",
            json!({"file_id": self.file_id}),
            self.timeout_ms,
        )
        .await?;
        let Some(path) = file["file_path"].as_str() else {
            return Err(
                ToolError::new("Telegram did not say where the file is").code(Code::TOOL_HTTP)
            );
        };
        let facts = json!({
            "fileId": file["file_id"], "fileUniqueId": file["file_unique_id"], "filePath": path, "fileSize": file["file_size"],
        });
        // The URL contains the token, so it must not appear in messages.
        let url = format!("{}/file/bot{}/{path}", bot.base, bot.token()?);
        self.fetch
            .fetch(
                ctx,
                bot,
                (url, false),
                self.timeout_ms,
                facts.as_object().cloned().unwrap_or_default(),
            )
            .await
    }
}
