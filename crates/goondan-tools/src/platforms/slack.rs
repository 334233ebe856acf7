//! `slack`: messages as a Slack app.

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::file_transfer::{DownloadOptions, UploadedFile};
use super::{
    ApiAnswer, ApiRequestBody, PLATFORM_CONFIG_KEYS, PlatformClient, PlatformDescription,
    TimeLimit, emojis, no_emoji, without_nulls,
};
use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled};

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
        let mut download =
            ToolExport::new::<SlackDownloadFile>("downloadFile", &bot).needs(Permission::Network);
        download.spec.optional_permissions.insert(Permission::Write);
        Ok(vec![
            ToolExport::new::<SlackSend>("send", &bot).needs(Permission::Network),
            ToolExport::new::<SlackRead>("read", &bot)
                .needs(Permission::Network)
                .read_only(),
            ToolExport::new::<SlackEdit>("edit", &bot)
                .needs(Permission::Network)
                .idempotent(),
            ToolExport::new::<SlackDelete>("delete", &bot).needs(Permission::Network),
            ToolExport::new::<SlackReact>("react", &bot).needs(Permission::Network),
            ToolExport::new::<SlackSendFile>("sendFile", &bot)
                .needs(Permission::Network)
                .needs(Permission::Read),
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
) -> Result<Value, ToolError> {
    checked_answer(
        bot,
        method,
        bot.post(
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
) -> Result<Value, ToolError> {
    match status.is_success() && answer["ok"] == true {
        true => Ok(answer),
        false => Err(bot.refused(method, status, answer["error"].as_str())),
    }
}

/// Send a message to a Slack channel.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlackSend {
    /// Channel id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Text, in Slack markup.
    #[schemars(length(min = 1))]
    text: String,
    /// `ts` of the message whose thread to post in.
    thread_ts: Option<String>,
    /// Format the text as markup.
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

    async fn run(self, _ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        let body = json!({
            "channel": self.channel_id,
            "text": self.text,
            "thread_ts": self.thread_ts,
            "mrkdwn": self.mrkdwn,
            "unfurl_links": self.unfurl_links,
            "unfurl_media": self.unfurl_media,
            "reply_broadcast": self.reply_broadcast,
        });
        let sent = call(bot, "chat.postMessage", body, self.timeout_ms).await?;
        let channel = sent["channel"].as_str().unwrap_or(&self.channel_id);
        let text = sent["message"]["text"].as_str().unwrap_or(&self.text);
        let output =
            json!({"ok": true, "channelId": channel, "messageTs": sent["ts"], "text": text});
        Ok(titled(format!("Sent a message to {channel}"), output))
    }
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

    async fn run(self, _ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        let one = self.message_ts.as_deref();
        let method = if self.thread_ts.is_some() {
            "conversations.replies"
        } else {
            "conversations.history"
        };
        let body = json!({
            "channel": self.channel_id,
            "ts": self.thread_ts,
            "latest": self.latest.as_deref().or(one),
            "oldest": self.oldest,
            "inclusive": self.inclusive.or(one.map(|_| true)),
            "limit": self.limit.unwrap_or(if one.is_some() { 1 } else { DEFAULT_MESSAGE_COUNT }),
            "cursor": self.cursor,
        });
        let answer = call(bot, method, body, self.timeout_ms).await?;
        let messages = answer["messages"].as_array().cloned().unwrap_or_default();
        let found = one.and_then(|ts| messages.iter().find(|message| message["ts"] == ts));
        let cursor = answer["response_metadata"]["next_cursor"]
            .as_str()
            .filter(|cursor| !cursor.is_empty());
        let output = json!({
            "ok": true,
            "channelId": self.channel_id,
            "method": method,
            "messageTs": one,
            "threadTs": self.thread_ts,
            "count": messages.len(),
            "found": found,
            "messages": messages,
            "hasMore": answer["has_more"].as_bool().unwrap_or(false),
            "nextCursor": cursor,
        });
        Ok(titled(format!("Read {} messages", messages.len()), output))
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
    /// New text.
    #[schemars(length(min = 1))]
    text: String,
    /// Format the text as markup.
    mrkdwn: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackEdit {
    type Shared = PlatformClient;

    async fn run(self, _ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        let body = json!({"channel": self.channel_id, "ts": self.message_ts, "text": self.text, "mrkdwn": self.mrkdwn});
        call(bot, "chat.update", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "edited": true});
        Ok(titled(
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

    async fn run(self, _ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        call(
            bot,
            "chat.delete",
            json!({"channel": self.channel_id, "ts": self.message_ts}),
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "deleted": true});
        Ok(titled(
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

    async fn run(self, _ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        let names = emojis(self.emoji, self.emojis, |name| name.trim_matches(':'));
        if names.is_empty() {
            return Err(no_emoji());
        }
        if let Some(wrong) = names.iter().find(|name| name.contains(char::is_whitespace)) {
            return Err(errors::invalid(format!(
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
        Ok(titled(
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
    /// Message for the file.
    text: Option<String>,
    /// `ts` of the message whose thread to post in.
    thread_ts: Option<String>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SlackSendFile {
    type Shared = PlatformClient;

    async fn run(self, ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
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
            bot.ask(request, fields, self.timeout_ms).await?,
        )?;
        let (Some(url), Some(id)) = (room["upload_url"].as_str(), room["file_id"].as_str()) else {
            return Err(ToolError::new("Slack did not return an upload URL").code(Code::TOOL_HTTP));
        };
        if !is_of_slack(url, &bot.base) {
            return Err(
                ToolError::new("Slack returned an upload URL outside of Slack")
                    .code(Code::TOOL_HTTP),
            );
        }
        let form = file.form("file", Vec::new());
        let (status, _) = bot
            .ask((Method::POST, url.to_owned(), false), form, self.timeout_ms)
            .await?;
        if !status.is_success() {
            return Err(bot.refused("the upload", status, None));
        }
        let body = json!({
            "files": [{"id": id, "title": name}],
            "channel_id": self.channel_id,
            "thread_ts": self.thread_ts,
            "initial_comment": self.text,
        });
        call(bot, "files.completeUploadExternal", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "fileId": id, "name": name, "sizeBytes": size});
        Ok(titled(
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

    async fn run(self, ctx: &ToolContext, bot: &PlatformClient) -> Result<ToolOutput, ToolError> {
        self.fetch.check(ctx)?;
        if !is_of_slack(&self.url, &bot.base) {
            let error = errors::invalid(
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
    fn the_token_goes_to_slack_alone() {
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
