//! `slack`: messages as a Slack app.

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use reqwest::multipart::Form;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::files::{Fetch, Outgoing};
use super::{Answer, Body, Bot, CONFIG, Platform, TimeLimit, emojis, given, no_emoji};
use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

pub(super) const PLATFORM: Platform = Platform {
    name: "Slack",
    base: "https://slack.com/api",
    variables: &["SLACK_BOT_TOKEN", "SLACK_TOKEN"],
    scheme: "Bearer",
    headers: &[],
};
/// Default number of messages.
const MESSAGES: u32 = 20;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "slack",
    about: "Sends, reads, edits, deletes and reacts to messages as an app of Slack, and sends and fetches files. Its token is \
            `config.token`, or the first that is set of the variables `SLACK_BOT_TOKEN` and `SLACK_TOKEN`; no model sees it.",
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
            Export::new::<React>("react", &bot).needs(Permission::Network),
            Export::new::<SendFile>("sendFile", &bot)
                .needs(Permission::Network)
                .needs(Permission::Read),
            download,
        ])
    },
    ..Builtin::BLANK
};

/// Calls a method of the Web API, and returns the answer.
async fn call(
    bot: &Bot,
    method: &str,
    body: Value,
    timeout_ms: TimeLimit,
) -> Result<Value, ToolError> {
    said(
        bot,
        method,
        bot.post(
            format!("{}/{method}", bot.base),
            true,
            given(body),
            timeout_ms,
        )
        .await?,
    )
}

fn said(bot: &Bot, method: &str, (status, answer): Answer) -> Result<Value, ToolError> {
    match status.is_success() && answer["ok"] == true {
        true => Ok(answer),
        false => Err(bot.refused(method, status, answer["error"].as_str())),
    }
}

/// Send a message to a channel of Slack.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Send {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The text, in Slack's own markup.
    #[schemars(length(min = 1))]
    text: String,
    /// The `ts` of the message whose thread it belongs to.
    thread_ts: Option<String>,
    /// Whether the markup counts.
    mrkdwn: Option<bool>,
    /// Show what links lead to.
    unfurl_links: Option<bool>,
    /// Show media that links lead to.
    unfurl_media: Option<bool>,
    /// Show an answer in a thread in the channel, too.
    reply_broadcast: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Send {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
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

/// Read messages of a channel, or of a thread in it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Read {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Look for the message with this `ts`.
    message_ts: Option<String>,
    /// Read the thread that begins with this `ts`.
    thread_ts: Option<String>,
    /// The `ts` up to which to read.
    latest: Option<String>,
    /// The `ts` from which on to read.
    oldest: Option<String>,
    /// Whether the messages at both ends count.
    inclusive: Option<bool>,
    /// How many messages to read; 20 without it, and 1 with `messageTs`.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// Go on where an earlier result has ended: its `nextCursor`.
    cursor: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Read {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
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
            "limit": self.limit.unwrap_or(if one.is_some() { 1 } else { MESSAGES }),
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

/// Replace the text of a message that the app has sent.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Edit {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    /// The new text.
    #[schemars(length(min = 1))]
    text: String,
    /// Whether the markup counts.
    mrkdwn: Option<bool>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Edit {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let body = json!({"channel": self.channel_id, "ts": self.message_ts, "text": self.text, "mrkdwn": self.mrkdwn});
        call(bot, "chat.update", body, self.timeout_ms).await?;
        let output = json!({"ok": true, "channelId": self.channel_id, "messageTs": self.message_ts, "edited": true});
        Ok(titled(
            format!("Edited a message in {}", self.channel_id),
            output,
        ))
    }
}

/// Delete a message that the app has sent.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delete {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Delete {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
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
struct React {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The `ts` of the message.
    #[schemars(length(min = 1))]
    message_ts: String,
    /// The name of an emoji, such as `eyes`.
    emoji: Option<String>,
    /// Several names.
    #[serde(default)]
    emojis: Vec<String>,
    /// The time limit of each request in milliseconds.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for React {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let names = emojis(self.emoji, self.emojis, |name| name.trim_matches(':'));
        if names.is_empty() {
            return Err(no_emoji());
        }
        if let Some(wrong) = names.iter().find(|name| name.contains(char::is_whitespace)) {
            return Err(errors::invalid(format!(
                "`{wrong}` is not the name of an emoji: there is a space in it"
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

/// Send a file of the working directory to a channel of Slack.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SendFile {
    /// The id of the channel.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The file, relative to the working directory, at most 10,000,000 bytes.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH))]
    path: String,
    /// What it is called there; its own name without it.
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// A text that goes with it.
    text: Option<String>,
    /// The `ts` of the message whose thread it belongs to.
    thread_ts: Option<String>,
    /// The time limit of each request in milliseconds.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for SendFile {
    type Shared = Bot;

    async fn run(self, ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let file = Outgoing::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        // This method only accepts a form.
        let fields = Body::Fields(vec![
            ("filename", name.clone()),
            ("length", size.to_string()),
        ]);
        let method = "files.getUploadURLExternal";
        let request = (Method::POST, format!("{}/{method}", bot.base), true);
        let room = said(
            bot,
            method,
            bot.ask(request, fields, self.timeout_ms).await?,
        )?;
        let (Some(url), Some(id)) = (room["upload_url"].as_str(), room["file_id"].as_str()) else {
            return Err(
                ToolError::new("Slack did not say where the file goes").code(Code::TOOL_HTTP)
            );
        };
        if !is_of_slack(url, &bot.base) {
            return Err(
                ToolError::new("Slack named an address for the file that is not its own")
                    .code(Code::TOOL_HTTP),
            );
        }
        let form = Form::new().part("file", file.part());
        let (status, _) = bot
            .ask(
                (Method::POST, url.to_owned(), false),
                Body::Form(form),
                self.timeout_ms,
            )
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

/// Fetch a file that somebody has put into Slack.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
struct DownloadFile {
    /// The file's `url_private` or `url_private_download`.
    #[schemars(length(min = 1))]
    url: String,
    #[serde(flatten)]
    fetch: Fetch,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for DownloadFile {
    type Shared = Bot;

    async fn run(self, ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        self.fetch.check(ctx)?;
        if !is_of_slack(&self.url, &bot.base) {
            let error = errors::invalid(
                "`url` is not the address of a file in Slack, and nobody else may see the token",
            );
            return Err(error.suggest("use http-fetch for other addresses"));
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
