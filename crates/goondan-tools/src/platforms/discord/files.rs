//! Files sent to and fetched from Discord.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::super::file_transfer::{DownloadOptions, UploadedFile};
use super::super::{PlatformClient, TimeLimit, without_nulls};
use super::{calls, messages, outgoing_text, reply_reference};
use crate::errors;
use crate::tool_operation::{ToolOperation, titled_output};

/// Hosts of message files.
const ATTACHMENT_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// Send a file to a Discord channel or thread.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DiscordSendFile {
    /// Channel or thread id.
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
    /// Id of the message to answer.
    reply_to_message_id: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordSendFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = messages(bot, &self.channel_id, None)?;
        let text = self.text.as_deref().filter(|text| !text.trim().is_empty());
        let text = text
            .map(|text| outgoing_text(text, false).message())
            .transpose()?;
        let metadata = without_nulls(json!({
            "content": text,
            "message_reference": reply_reference(self.reply_to_message_id.as_ref())?,
            "allowed_mentions": calls(),
        }));
        let file = UploadedFile::read(ctx, self.path, self.name).await?;
        let (name, size) = (file.name.clone(), file.content.len());
        let form = file.into_form("files[0]", vec![("payload_json", metadata.to_string())]);
        let sent = bot
            .call("the file", (Method::POST, url), form, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "channelId": self.channel_id, "messageId": sent["id"], "name": name, "sizeBytes": size,
        });
        Ok(titled_output(
            format!("Sent {name} to {}", self.channel_id),
            output,
        ))
    }
}

/// Download a file of a message.
#[derive(Deserialize, JsonSchema)]
// serde cannot refuse fields with a flattened struct; the schema does.
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub(super) struct DiscordDownloadFile {
    /// `url` of the file, from `read`.
    #[schemars(length(min = 1))]
    url: String,
    #[serde(flatten)]
    fetch: DownloadOptions,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordDownloadFile {
    type Shared = PlatformClient;

    async fn run(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        self.fetch.check(ctx)?;
        if !is_of_discord(&self.url, &bot.base) {
            let error = errors::invalid_argument("`url` is not the URL of a Discord file");
            return Err(error.suggest("use http-fetch for other URLs"));
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
    let is_known = url.scheme() == "https"
        && url
            .host_str()
            .is_some_and(|host| ATTACHMENT_HOSTS.contains(&host));
    is_known || url.origin() == base.origin()
}
