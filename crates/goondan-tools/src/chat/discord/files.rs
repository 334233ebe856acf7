//! Files sent to and fetched from Discord.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use reqwest::Method;
use reqwest::multipart::Form;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::super::files::{Fetch, Outgoing};
use super::super::{Body, Bot, TimeLimit, given};
use super::{answered, calls, messages};
use crate::define::{Operation, titled};
use crate::errors;

/// Hosts of message files.
const FILES: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// Send a file of the working directory to a channel of Discord, or to a thread.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SendFile {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// The file, relative to the working directory, at most 10,000,000 bytes.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH))]
    path: String,
    /// What it is called there; its own name without it.
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// A text that goes with it.
    #[schemars(length(max = 2000))]
    text: Option<String>,
    /// The id of the message that it answers.
    reply_to_message_id: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for SendFile {
    type Shared = Bot;

    async fn run(self, ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = messages(bot, &self.channel_id, None)?;
        let told = given(json!({
            "content": self.text,
            "message_reference": answered(self.reply_to_message_id.as_ref())?,
            "allowed_mentions": calls(),
        }));
        let file = Outgoing::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        let form = Form::new()
            .text("payload_json", told.to_string())
            .part("files[0]", file.part());
        let sent = bot
            .call(
                "the file",
                (Method::POST, url),
                Body::Form(form),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": sent["id"], "name": name, "sizeBytes": size,
        });
        Ok(titled(
            format!("Sent {name} to {}", self.channel_id),
            output,
        ))
    }
}

/// Fetch a file of a message.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub(super) struct DownloadFile {
    /// The `url` of the file, as `read` tells it.
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
        if !is_of_discord(&self.url, &bot.base) {
            let error = errors::invalid("`url` is not the address of a file of Discord");
            return Err(error.suggest("use http-fetch for other addresses"));
        }
        let facts = [("url".to_owned(), json!(self.url))].into_iter().collect();
        // The URL itself grants access, so the token is not sent.
        self.fetch
            .fetch(ctx, bot, (self.url, false), self.timeout_ms, facts)
            .await
    }
}

/// Returns true for files of Discord, or of the configured API.
fn is_of_discord(url: &str, base: &str) -> bool {
    let (Ok(url), Ok(base)) = (Url::parse(url), Url::parse(base)) else {
        return false;
    };
    let is_known =
        url.scheme() == "https" && url.host_str().is_some_and(|host| FILES.contains(&host));
    is_known || url.origin() == base.origin()
}
