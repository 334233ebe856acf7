//! `telegram`: messages as a Telegram bot.

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_markup::TELEGRAM;
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file_transfer::{DownloadOptions, UploadedFile};
use super::outgoing_text::{OutgoingText, add_sent_count};
use super::{
    ApiAnswer, PLATFORM_CONFIG_KEYS, PlatformClient, PlatformDescription, TimeLimit, merge_emojis,
    no_emoji_error, without_nulls,
};
use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(super) const PLATFORM: PlatformDescription = PlatformDescription {
    name: "Telegram",
    base: "https://api.telegram.org",
    variables: &["TELEGRAM_BOT_TOKEN", "BOT_TOKEN", "TELEGRAM_TOKEN"],
    // The token is a part of the URL.
    scheme: "",
    headers: &[],
};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "telegram",
    about: "Sends, edits, deletes and reacts to messages as a Telegram bot, and sends and \
        downloads files. The token is `config.token`, else the variable `TELEGRAM_BOT_TOKEN`, \
        else `BOT_TOKEN`, else `TELEGRAM_TOKEN`; models never see it.",
    config: PLATFORM_CONFIG_KEYS,
    open: |opening| {
        let bot = Arc::new(PlatformClient::open(opening, &PLATFORM)?);
        let download = ToolExport::new::<TelegramDownloadFile>("downloadFile", &bot)
            .with_permission(Permission::Network)
            .with_optional_permission(Permission::Write);
        Ok(vec![
            ToolExport::new::<TelegramSend>("send", &bot).with_permission(Permission::Network),
            ToolExport::new::<TelegramEdit>("edit", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<TelegramDelete>("delete", &bot).with_permission(Permission::Network),
            ToolExport::new::<TelegramReact>("react", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<SetChatAction>("setChatAction", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<TelegramSendFile>("sendFile", &bot)
                .with_permission(Permission::Network)
                .with_permission(Permission::Read),
            download,
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// An id, which people write as a number or as text.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum TelegramId {
    Number(i64),
    Text(String),
}

impl TelegramId {
    /// Returns the chat id, or the `@name`.
    fn chat_id(&self) -> Result<String, HandlerError> {
        match self {
            TelegramId::Number(number) => Ok(number.to_string()),
            TelegramId::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            TelegramId::Text(_) => Err(errors::invalid_argument("`chatId` must not be empty")),
        }
    }

    /// Returns the message id.
    fn message(&self, field: &str) -> Result<i64, HandlerError> {
        let number = match self {
            TelegramId::Number(number) => Some(*number),
            TelegramId::Text(text) => text.trim().parse().ok(),
        };
        number.filter(|number| *number > 0).ok_or_else(|| {
            errors::invalid_argument(format!("`{field}` must be a positive integer"))
        })
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
    bot: &PlatformClient,
    method: &str,
    body: Value,
    timeout_ms: TimeLimit,
) -> Result<Value, HandlerError> {
    let url = format!("{}/bot{}/{method}", bot.base, bot.token()?);
    checked_answer(
        bot,
        method,
        bot.post_json(url, false, without_nulls(body), timeout_ms)
            .await?,
    )
}

/// Returns the `result` of a successful answer.
fn checked_answer(
    bot: &PlatformClient,
    method: &str,
    (status, mut answer): ApiAnswer,
) -> Result<Value, HandlerError> {
    if status.is_success() && answer["ok"] == true {
        Ok(answer["result"].take())
    } else {
        Err(bot.rejection_error(method, status, answer["description"].as_str()))
    }
}

/// Send a text message to a Telegram chat.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TelegramSend {
    /// Chat id, or `@name` of a channel.
    chat_id: TelegramId,
    /// Text, as Markdown. A long text becomes several messages.
    #[schemars(length(min = 1))]
    text: String,
    /// Send the text as it is, at most 4,096 characters.
    #[serde(default)]
    raw: bool,
    /// Telegram's own markup of the text, which is then sent as it is. Default with `raw`: plain text.
    parse_mode: Option<ParseMode>,
    /// Send without sound.
    disable_notification: Option<bool>,
    /// Show no preview of links.
    disable_web_page_preview: Option<bool>,
    /// Id of the message to answer.
    reply_to_message_id: Option<TelegramId>,
    /// Send even if that message was deleted.
    allow_sending_without_reply: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramSend {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let chat = self.chat_id.chat_id()?;
        let reply_to = self
            .reply_to_message_id
            .map(|id| id.message("replyToMessageId"))
            .transpose()?;
        let (outgoing, parse_mode) = outgoing_text(&self.text, self.raw, self.parse_mode);
        let texts = outgoing.messages()?;
        let mut sent = Vec::with_capacity(texts.len());
        for text in &texts {
            let body = json!({
                "chat_id": chat,
                "text": text,
                "parse_mode": parse_mode,
                "disable_notification": self.disable_notification,
                "disable_web_page_preview": self.disable_web_page_preview,
                "reply_to_message_id": reply_to.filter(|_| sent.is_empty()),
                "allow_sending_without_reply": self.allow_sending_without_reply,
            });
            let answer = call(bot, "sendMessage", body, self.timeout_ms).await;
            sent.push(answer.map_err(|error| add_sent_count(error, sent.len(), texts.len()))?);
        }
        let first = &sent[0];
        let mut output = json!({
            "ok": true, "chatId": chat, "messageId": first["message_id"], "date": first["date"], "text": first["text"],
        });
        if sent.len() > 1 {
            let message_ids: Vec<&Value> =
                sent.iter().map(|answer| &answer["message_id"]).collect();
            output["allMessageIds"] = json!(message_ids);
        }
        Ok(titled_output(format!("Sent a message to {chat}"), output))
    }
}

/// Returns the text of a call in Telegram's markup, and the parse mode of its messages.
fn outgoing_text(
    text: &str,
    is_raw: bool,
    parse_mode: Option<ParseMode>,
) -> (OutgoingText<'_>, Option<ParseMode>) {
    let is_raw = is_raw || parse_mode.is_some();
    let outgoing = OutgoingText {
        text,
        is_raw,
        format: &TELEGRAM,
        with_mentions: |text| text,
    };
    let parse_mode = if is_raw {
        parse_mode
    } else {
        Some(ParseMode::Html)
    };
    (outgoing, parse_mode)
}

/// Replace the text of a message from the bot.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TelegramEdit {
    /// Chat id.
    chat_id: TelegramId,
    /// Message id.
    message_id: TelegramId,
    /// New text, as Markdown.
    #[schemars(length(min = 1))]
    text: String,
    /// Use the text as it is, at most 4,096 characters.
    #[serde(default)]
    raw: bool,
    /// Telegram's own markup of the text, which is then used as it is. Default with `raw`: plain text.
    parse_mode: Option<ParseMode>,
    /// Show no preview of links.
    disable_web_page_preview: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramEdit {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let (chat, message) = (
            self.chat_id.chat_id()?,
            self.message_id.message("messageId")?,
        );
        let (outgoing, parse_mode) = outgoing_text(&self.text, self.raw, self.parse_mode);
        let body = json!({
            "chat_id": chat,
            "message_id": message,
            "text": outgoing.message()?,
            "parse_mode": parse_mode,
            "disable_web_page_preview": self.disable_web_page_preview,
        });
        call(bot, "editMessageText", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "chatId": chat, "messageId": message, "edited": true});
        Ok(titled_output(format!("Edited a message in {chat}"), output))
    }
}

/// Delete a message of a chat.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TelegramDelete {
    /// Chat id.
    chat_id: TelegramId,
    /// Message id.
    message_id: TelegramId,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramDelete {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let (chat, message) = (
            self.chat_id.chat_id()?,
            self.message_id.message("messageId")?,
        );
        call(
            bot,
            "deleteMessage",
            json!({"chat_id": chat, "message_id": message}),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "chatId": chat, "messageId": message, "deleted": true});
        Ok(titled_output(
            format!("Deleted a message in {chat}"),
            output,
        ))
    }
}

/// Set the bot's reactions to a message, replacing its earlier ones.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TelegramReact {
    /// Chat id.
    chat_id: TelegramId,
    /// Message id.
    message_id: TelegramId,
    /// Emoji.
    emoji: Option<String>,
    /// Several emojis.
    #[serde(default)]
    emojis: Vec<String>,
    /// Remove the reactions.
    #[serde(default)]
    clear: bool,
    /// Use a large animation.
    is_big: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramReact {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let (chat, message) = (
            self.chat_id.chat_id()?,
            self.message_id.message("messageId")?,
        );
        let emojis = if self.clear {
            Vec::new()
        } else {
            merge_emojis(self.emoji, self.emojis, str::trim)
        };
        if emojis.is_empty() && !self.clear {
            return Err(no_emoji_error().suggest("to remove the reactions, pass `clear: true`"));
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
        Ok(titled_output(
            format!("Reacted to a message in {chat}"),
            output,
        ))
    }
}

/// What the bot is shown to be doing.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "kebab-case", serialize = "snake_case"))]
#[schemars(inline)]
enum TelegramChatAction {
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

/// Show a chat status such as `typing` for a few seconds.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetChatAction {
    /// Chat id.
    chat_id: TelegramId,
    /// Action; default: `typing`.
    action: Option<TelegramChatAction>,
    /// Alias of `action`.
    status: Option<TelegramChatAction>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SetChatAction {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let (chat, action) = (
            self.chat_id.chat_id()?,
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
        Ok(titled_output(
            format!("Showed {} in {chat}", action.as_str().unwrap_or_default()),
            output,
        ))
    }
}

/// What a file is shown as.
#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum TelegramFileDisplay {
    #[default]
    Document,
    Photo,
}

/// Send a file to a Telegram chat.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TelegramSendFile {
    /// Chat id, or `@name` of a channel.
    chat_id: TelegramId,
    /// File, relative to the working directory, at most 10,000,000 bytes.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH_FORMAT))]
    path: String,
    /// Name to show; default: the file's own.
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// Caption, as Markdown, at most 1,024 characters.
    #[schemars(length(max = 1024))]
    text: Option<String>,
    /// `photo`: a compressed image, shown inline. Default: `document`, unchanged.
    #[serde(default)]
    shown_as: TelegramFileDisplay,
    /// Id of the message to answer.
    reply_to_message_id: Option<TelegramId>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramSendFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let chat = self.chat_id.chat_id()?;
        let reply_to = self
            .reply_to_message_id
            .map(|id| id.message("replyToMessageId"))
            .transpose()?;
        let (method, field) = match self.shown_as {
            TelegramFileDisplay::Document => ("sendDocument", "document"),
            TelegramFileDisplay::Photo => ("sendPhoto", "photo"),
        };
        let file = UploadedFile::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        let mut fields = vec![("chat_id", chat.clone())];
        if let Some(text) = self.text.filter(|text| !text.trim().is_empty()) {
            let (outgoing, _) = outgoing_text(&text, false, None);
            fields.push(("caption", outgoing.message()?));
            fields.push(("parse_mode", "HTML".to_owned()));
        }
        fields.extend(reply_to.map(|id| ("reply_to_message_id", id.to_string())));
        let form = file.into_form(field, fields);
        let url = format!("{}/bot{}/{method}", bot.base, bot.token()?);
        let answer = bot
            .send_request((Method::POST, url, false), form, self.timeout_ms)
            .await?;
        let sent = checked_answer(bot, method, answer)?;
        let output = json!({"ok": true, "chatId": chat, "messageId": sent["message_id"], "name": name, "sizeBytes": size});
        Ok(titled_output(format!("Sent {name} to {chat}"), output))
    }
}

/// Download a file that was sent to the bot.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
struct TelegramDownloadFile {
    /// File id.
    #[schemars(length(min = 1))]
    file_id: String,
    #[serde(flatten)]
    fetch: DownloadOptions,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for TelegramDownloadFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
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
                HandlerError::new("Telegram did not return the file path").code(Code::TOOL_HTTP)
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
