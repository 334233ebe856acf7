//! `slack`: messages as a Slack app.

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_markup::SLACK;
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::file_transfer::{DownloadOptions, UploadedFile};
use super::outgoing_text::{OutgoingText, add_sent_count, restore_mentions};
use super::{
    ApiAnswer, ApiRequestBody, PLATFORM_CONFIG_KEYS, PlatformClient, PlatformDescription,
    TimeLimit, merge_emojis, no_emoji_error, without_nulls,
};
use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(super) const PLATFORM: PlatformDescription = PlatformDescription {
    name: "Slack",
    base: "https://slack.com/api",
    variables: &["SLACK_BOT_TOKEN", "SLACK_TOKEN"],
    scheme: "Bearer",
    headers: &[],
};
/// Default number of messages.
const DEFAULT_MESSAGE_COUNT: u32 = 20;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "slack",
    about: "Sends, reads, edits, deletes and reacts to messages as a Slack app, and sends and \
        downloads files. The token is `config.token`, else the variable `SLACK_BOT_TOKEN`, else \
        `SLACK_TOKEN`; models never see it.",
    config: PLATFORM_CONFIG_KEYS,
    open: |opening| {
        let bot = Arc::new(PlatformClient::open(opening, &PLATFORM)?);
        let download = ToolExport::new::<SlackDownloadFile>("downloadFile", &bot)
            .with_permission(Permission::Network)
            .with_optional_permission(Permission::Write);
        Ok(vec![
            ToolExport::new::<SlackSend>("send", &bot).with_permission(Permission::Network),
            ToolExport::new::<SlackRead>("read", &bot)
                .with_permission(Permission::Network)
                .read_only(),
            ToolExport::new::<SlackEdit>("edit", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<SlackDelete>("delete", &bot).with_permission(Permission::Network),
            ToolExport::new::<SlackReact>("react", &bot).with_permission(Permission::Network),
            ToolExport::new::<SlackSendFile>("sendFile", &bot)
                .with_permission(Permission::Network)
                .with_permission(Permission::Read),
            download,
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Calls a method of the Web API, and returns the answer.
async fn call(
    bot: &PlatformClient,
    method: &str,
    body: Value,
    timeout_ms: TimeLimit,
) -> Result<Value, HandlerError> {
    checked_answer(
        bot,
        method,
        bot.post_json(
            format!("{}/{method}", bot.base),
            true,
            without_nulls(body),
            timeout_ms,
        )
        .await?,
    )
}

fn checked_answer(
    bot: &PlatformClient,
    method: &str,
    (status, answer): ApiAnswer,
) -> Result<Value, HandlerError> {
    if status.is_success() && answer["ok"] == true {
        Ok(answer)
    } else {
        Err(bot.rejection_error(method, status, answer["error"].as_str()))
    }
}

/// Send a message to a Slack channel.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackSend {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Text, as Markdown. `<@USER>` and `<#CHANNEL>` mention a user and a channel. A long text
    /// becomes several messages.
    #[schemars(length(min = 1))]
    text: String,
    /// `ts` of the message whose thread to post in.
    thread_ts: Option<String>,
    /// Send the text as it is, in Slack's own markup.
    #[serde(default)]
    raw: bool,
    /// With `raw`: `false` shows the markup as plain text.
    mrkdwn: Option<bool>,
    /// Show previews of links.
    unfurl_links: Option<bool>,
    /// Show previews of linked media.
    unfurl_media: Option<bool>,
    /// Also show a thread reply in the channel.
    reply_broadcast: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackSend {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let texts = outgoing_text(&self.text, self.raw || self.mrkdwn.is_some()).messages()?;
        let mut sent = Vec::with_capacity(texts.len());
        for text in &texts {
            let body = json!({
                "channel": self.channel_id,
                "text": text,
                "thread_ts": self.thread_ts,
                "mrkdwn": self.mrkdwn,
                "unfurl_links": self.unfurl_links,
                "unfurl_media": self.unfurl_media,
                "reply_broadcast": self.reply_broadcast,
            });
            let answer = call(bot, "chat.postMessage", body, self.timeout_ms).await;
            sent.push(answer.map_err(|error| add_sent_count(error, sent.len(), texts.len()))?);
        }
        let first = &sent[0];
        let channel = first["channel"].as_str().unwrap_or(&self.channel_id);
        let text = first["message"]["text"].as_str().unwrap_or(&texts[0]);
        let mut output =
            json!({"ok": true, "channelId": channel, "messageTs": first["ts"], "text": text});
        if sent.len() > 1 {
            let message_ids: Vec<&Value> = sent.iter().map(|answer| &answer["ts"]).collect();
            output["allMessageTs"] = json!(message_ids);
        }
        Ok(titled_output(
            format!("Sent a message to {channel}"),
            output,
        ))
    }
}

/// Returns the text of a call in Slack's markup.
fn outgoing_text(text: &str, is_raw: bool) -> OutgoingText<'_> {
    OutgoingText {
        text,
        is_raw,
        format: &SLACK,
        with_mentions: |text| restore_mentions(text, ("&lt;", "&gt;"), is_mention),
    }
}

/// Returns true if the content between `<` and `>` mentions a user or a channel. Mentions of groups,
/// such as `!channel`, need raw text.
fn is_mention(content: &str) -> bool {
    let id = content
        .strip_prefix("@U")
        .or(content.strip_prefix("@W"))
        .or(content.strip_prefix("#C"));
    id.is_some_and(|id| {
        !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    })
}

/// Read messages of a channel or thread.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackRead {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Read the message with this `ts`.
    message_ts: Option<String>,
    /// Read the thread with this first `ts`.
    thread_ts: Option<String>,
    /// Read up to this `ts`.
    latest: Option<String>,
    /// Read from this `ts` on.
    oldest: Option<String>,
    /// Include messages at `latest` and `oldest`.
    inclusive: Option<bool>,
    /// Number of messages; default: 20, or 1 with `messageTs`.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// `nextCursor` of the previous result.
    cursor: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackRead {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let requested_ts = self.message_ts.as_deref();
        let method = if self.thread_ts.is_some() {
            "conversations.replies"
        } else {
            "conversations.history"
        };
        let body = json!({
            "channel": self.channel_id,
            "ts": self.thread_ts,
            "latest": self.latest.as_deref().or(requested_ts),
            "oldest": self.oldest,
            "inclusive": self.inclusive.or(requested_ts.map(|_| true)),
            "limit": self.limit.unwrap_or(if requested_ts.is_some() { 1 } else { DEFAULT_MESSAGE_COUNT }),
            "cursor": self.cursor,
        });
        let answer = call(bot, method, body, self.timeout_ms).await?;
        let messages = answer["messages"].as_array().cloned().unwrap_or_default();
        let found_message =
            requested_ts.and_then(|ts| messages.iter().find(|message| message["ts"] == ts));
        let cursor = answer["response_metadata"]["next_cursor"]
            .as_str()
            .filter(|cursor| !cursor.is_empty());
        let output = json!({
            "ok": true,
            "channelId": self.channel_id,
            "method": method,
            "messageTs": requested_ts,
            "threadTs": self.thread_ts,
            "count": messages.len(),
            "found": found_message,
            "messages": messages,
            "hasMore": answer["has_more"].as_bool().unwrap_or(false),
            "nextCursor": cursor,
        });
        Ok(titled_output(
            format!("Read {} messages", messages.len()),
            output,
        ))
    }
}

/// Replace the text of a message from the app.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackEdit {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    /// New text, as Markdown.
    #[schemars(length(min = 1))]
    text: String,
    /// Use the text as it is, in Slack's own markup.
    #[serde(default)]
    raw: bool,
    /// With `raw`: `false` shows the markup as plain text.
    mrkdwn: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackEdit {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let text = outgoing_text(&self.text, self.raw || self.mrkdwn.is_some()).message()?;
        let body = json!({"channel": self.channel_id, "ts": self.message_ts, "text": text, "mrkdwn": self.mrkdwn});
        call(bot, "chat.update", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "edited": true});
        Ok(titled_output(
            format!("Edited a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Delete a message from the app.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackDelete {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackDelete {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        call(
            bot,
            "chat.delete",
            json!({"channel": self.channel_id, "ts": self.message_ts}),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "deleted": true});
        Ok(titled_output(
            format!("Deleted a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Add reactions to a message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackReact {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    /// Name of an emoji, such as `eyes`.
    emoji: Option<String>,
    /// Several names.
    #[serde(default)]
    emojis: Vec<String>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackReact {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let names = merge_emojis(self.emoji, self.emojis, |name| name.trim_matches(':'));
        if names.is_empty() {
            return Err(no_emoji_error());
        }
        if let Some(wrong) = names.iter().find(|name| name.contains(char::is_whitespace)) {
            return Err(errors::invalid_argument(format!(
                "`{wrong}` is not an emoji name: it contains a space"
            )));
        }
        for name in &names {
            let body =
                json!({"channel": self.channel_id, "timestamp": self.message_ts, "name": name});
            call(bot, "reactions.add", body, self.timeout_ms).await?;
        }
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "reactionCount": names.len(), "emojis": names,
        });
        Ok(titled_output(
            format!("Reacted to a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Send a file to a Slack channel.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackSendFile {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// File, relative to the working directory, at most 10,000,000 bytes.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH_FORMAT))]
    path: String,
    /// Name to show; default: the file's own.
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// Message for the file, as Markdown.
    text: Option<String>,
    /// `ts` of the message whose thread to post in.
    thread_ts: Option<String>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackSendFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let text = self.text.as_deref().filter(|text| !text.trim().is_empty());
        let text = text
            .map(|text| outgoing_text(text, false).message())
            .transpose()?;
        let file = UploadedFile::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        // This method only accepts a form.
        let fields = ApiRequestBody::Fields(vec![
            ("filename", name.clone()),
            ("length", size.to_string()),
        ]);
        let method = "files.getUploadURLExternal";
        let request = (Method::POST, format!("{}/{method}", bot.base), true);
        let room = checked_answer(
            bot,
            method,
            bot.send_request(request, fields, self.timeout_ms).await?,
        )?;
        let (Some(url), Some(id)) = (room["upload_url"].as_str(), room["file_id"].as_str()) else {
            return Err(
                HandlerError::new("Slack did not return an upload URL").code(Code::TOOL_HTTP)
            );
        };
        if !is_of_slack(url, &bot.base) {
            return Err(
                HandlerError::new("Slack returned an upload URL outside of Slack")
                    .code(Code::TOOL_HTTP),
            );
        }
        let form = file.into_form("file", Vec::new());
        let (status, _) = bot
            .send_request((Method::POST, url.to_owned(), false), form, self.timeout_ms)
            .await?;
        if !status.is_success() {
            return Err(bot.rejection_error("the upload", status, None));
        }
        let body = json!({
            "files": [{"id": id, "title": name}],
            "channel_id": self.channel_id,
            "thread_ts": self.thread_ts,
            "initial_comment": text,
        });
        call(bot, "files.completeUploadExternal", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "fileId": id, "name": name, "sizeBytes": size});
        Ok(titled_output(
            format!("Sent {name} to {}", self.channel_id),
            output,
        ))
    }
}

/// Download a file from Slack.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
struct SlackDownloadFile {
    /// `url_private` or `url_private_download` of the file.
    #[schemars(length(min = 1))]
    url: String,
    #[serde(flatten)]
    fetch: DownloadOptions,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackDownloadFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        self.fetch.check(ctx)?;
        if !is_of_slack(&self.url, &bot.base) {
            let error = errors::invalid_argument(
                "`url` is not the URL of a Slack file; the token is sent only to Slack",
            );
            return Err(error.suggest("use http-fetch for other URLs"));
        }
        let facts = [("url".to_owned(), json!(self.url))].into_iter().collect();
        self.fetch
            .fetch(ctx, bot, (self.url, true), self.timeout_ms, facts)
            .await
    }
}

/// Returns true if the token may be sent there: to Slack itself with TLS, or to the configured API.
fn is_of_slack(url: &str, base: &str) -> bool {
    let (Ok(url), Ok(base)) = (Url::parse(url), Url::parse(base)) else {
        return false;
    };
    let is_slack = |host: &str| host == "slack.com" || host.ends_with(".slack.com");
    url.origin() == base.origin()
        || (url.scheme() == "https" && url.host_str().is_some_and(is_slack))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slack_urls_may_receive_the_token() {
        for mine in [
            "https://files.slack.com/a.png",
            "https://slack.com/x",
            "https://SLACK.com:443/x",
        ] {
            assert!(is_of_slack(mine, PLATFORM.base), "{mine}");
        }
        let others = [
            "http://files.slack.com/a",
            "https://slack.com.evil.example/a",
            "https://evilslack.com/",
            "file:///a",
            "a",
        ];
        for other in others {
            assert!(!is_of_slack(other, PLATFORM.base), "{other}");
        }
        assert!(is_of_slack("http://127.0.0.1:80/f", "http://127.0.0.1/api"));
        assert!(!is_of_slack(
            "http://127.0.0.1:81/f",
            "http://127.0.0.1/api"
        ));
    }
}
