//! `read`: messages in a compact form.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{ApiRequestBody, PlatformClient, TimeLimit, without_nulls};
use super::{id, messages};
use crate::errors;
use crate::tool_operation::{ToolOperation, titled_output};

/// Default number of messages.
const DEFAULT_MESSAGE_COUNT: u32 = 20;

/// Read messages of a channel or thread, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DiscordRead {
    /// Channel or thread id.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Read only the message with this id.
    message_id: Option<String>,
    /// Read messages before this id.
    before: Option<String>,
    /// Read messages after this id.
    after: Option<String>,
    /// Read messages before and after this id.
    around: Option<String>,
    /// Number of messages; default: 20.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DiscordRead {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let mut url = messages(bot, &self.channel_id, self.message_id.as_deref())?;
        let bounds = [
            ("before", &self.before),
            ("after", &self.after),
            ("around", &self.around),
        ];
        let mut given_bounds: Vec<(&str, &String)> = bounds
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
            .collect();
        if given_bounds.len() + usize::from(self.message_id.is_some()) > 1 {
            return Err(errors::invalid_argument(
                "use only one of `messageId`, `before`, `after` and `around`",
            ));
        }
        let limit = self.limit.unwrap_or(DEFAULT_MESSAGE_COUNT).to_string();
        if self.message_id.is_none() {
            given_bounds
                .iter()
                .try_for_each(|(name, value)| id(name, value).map(drop))?;
            given_bounds.push(("limit", &limit));
            url.query_pairs_mut().extend_pairs(given_bounds);
        }
        let answer = bot
            .call(
                "to read",
                (Method::GET, url),
                ApiRequestBody::Empty,
                self.timeout_ms,
            )
            .await?;
        let read = match answer {
            Value::Array(messages) => messages,
            one => vec![one],
        };
        let shown_messages: Vec<Value> = read.iter().map(message_json).collect();
        let output = json!({
            "ok": true,
            "channelId": self.channel_id,
            "count": shown_messages.len(),
            "messages": shown_messages,
            "oldestId": read.last().map(|message| &message["id"]),
        });
        Ok(titled_output(
            format!("Read {} messages", read.len()),
            output,
        ))
    }
}

/// Returns the relevant fields of a message. A complete one mostly consists of avatars and display
/// settings.
fn message_json(message: &Value) -> Value {
    let files = message["attachments"].as_array().into_iter().flatten();
    let files: Vec<Value> = files
        .map(|file| {
            json!({
                "name": file["filename"], "url": file["url"], "contentType": file["content_type"], "sizeBytes": file["size"],
            })
        })
        .collect();
    let reactions = message["reactions"].as_array().into_iter().flatten();
    let reactions: Vec<Value> = reactions
        .map(|one| json!({"emoji": one.pointer("/emoji/name"), "count": one["count"]}))
        .collect();
    without_nulls(json!({
        "messageId": message["id"],
        "author": without_nulls(json!({
            "id": message.pointer("/author/id"),
            "username": message.pointer("/author/username"),
            "name": message.pointer("/author/global_name"),
            "bot": message.pointer("/author/bot"),
        })),
        "text": message["content"],
        "sentAt": message["timestamp"],
        "editedAt": message["edited_timestamp"],
        "replyToMessageId": message.pointer("/message_reference/message_id"),
        "threadId": message.pointer("/thread/id"),
        "files": (!files.is_empty()).then_some(files),
        "reactions": (!reactions.is_empty()).then_some(reactions),
    }))
}
