//! `read`: messages in a compact form.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{Body, Bot, TimeLimit, given};
use super::{id, messages};
use crate::define::{Operation, titled};
use crate::errors;

/// Default number of messages.
const MESSAGES: u32 = 20;

/// Read messages of a channel or a thread, the newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Read {
    /// The id of the channel or of the thread.
    #[schemars(length(min = 1))]
    channel_id: String,
    /// Read the message of this id alone.
    message_id: Option<String>,
    /// Read messages before the one of this id.
    before: Option<String>,
    /// Read messages after the one of this id.
    after: Option<String>,
    /// Read messages before and after the one of this id.
    around: Option<String>,
    /// How many messages to read; 20 without it.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Read {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let mut url = messages(bot, &self.channel_id, self.message_id.as_deref())?;
        let bounds = [
            ("before", &self.before),
            ("after", &self.after),
            ("around", &self.around),
        ];
        let mut given: Vec<(&str, &String)> = bounds
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
            .collect();
        if given.len() + usize::from(self.message_id.is_some()) > 1 {
            return Err(errors::invalid(
                "`messageId`, `before`, `after` and `around` exclude each other",
            ));
        }
        let limit = self.limit.unwrap_or(MESSAGES).to_string();
        if self.message_id.is_none() {
            given
                .iter()
                .try_for_each(|(name, value)| id(name, value).map(drop))?;
            given.push(("limit", &limit));
            url.query_pairs_mut().extend_pairs(given);
        }
        let answer = bot
            .call("to read", (Method::GET, url), Body::Empty, self.timeout_ms)
            .await?;
        let read = match answer {
            Value::Array(messages) => messages,
            one => vec![one],
        };
        let shown: Vec<Value> = read.iter().map(shown).collect();
        let output = json!({
            "ok": true,
            "channelId": self.channel_id,
            "count": shown.len(),
            "messages": shown,
            "oldestId": read.last().map(|message| &message["id"]),
        });
        Ok(titled(format!("Read {} messages", read.len()), output))
    }
}

/// Returns the relevant fields of a message. A complete one mostly consists of avatars and display
/// settings.
fn shown(message: &Value) -> Value {
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
    given(json!({
        "messageId": message["id"],
        "author": given(json!({
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
