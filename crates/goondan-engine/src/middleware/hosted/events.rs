//! Message events as an extension writes them.

use chrono::{DateTime, Utc};
use goondan_core::message::{Message, MessageData, MessageEvent, MessageSource, Part, Role};
use goondan_core::ports::tool::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::senseless;
use crate::turn::TurnContext;

/// An event before it is one: contents may be plain text, and what is left out is filled in.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum Written {
    Append {
        message: WrittenMessage,
    },
    Replace {
        target_id: String,
        message: WrittenMessage,
    },
    Remove {
        target_id: String,
    },
    Truncate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMessage {
    #[serde(default)]
    id: Option<String>,
    data: WrittenData,
    #[serde(default)]
    metadata: goondan_core::JsonObject,
    #[serde(default)]
    created_at: Option<DateTime<Utc>>,
    #[serde(default)]
    source: Value,
}

#[derive(Deserialize)]
struct WrittenData {
    role: Role,
    content: Value,
}

/// Takes up the events that `extension` has emitted, in their order.
pub(super) async fn take_up(
    context: &mut TurnContext,
    extension: &str,
    events: Vec<Value>,
) -> Result<(), goondan_core::event::TurnError> {
    for event in events {
        let event =
            read(context, extension, event).map_err(|error| super::failed(extension, error))?;
        context.emit(event).await?;
    }
    Ok(())
}

fn read(
    context: &mut TurnContext,
    extension: &str,
    event: Value,
) -> Result<MessageEvent, ToolError> {
    let written: Written = serde_json::from_value(event)
        .map_err(|error| senseless(format_args!("it emitted no message event: {error}")))?;
    Ok(match written {
        Written::Append { message } => MessageEvent::Append {
            message: message.read(context, extension)?,
        },
        Written::Replace { target_id, message } => {
            let message = WrittenMessage {
                id: message.id.or_else(|| Some(target_id.clone())),
                ..message
            };
            MessageEvent::Replace {
                target_id,
                message: message.read(context, extension)?,
            }
        }
        Written::Remove { target_id } => MessageEvent::Remove { target_id },
        Written::Truncate => MessageEvent::Truncate,
    })
}

impl WrittenMessage {
    fn read(self, context: &mut TurnContext, extension: &str) -> Result<Message, ToolError> {
        let own = MessageSource::Extension {
            extension_name: extension.to_owned(),
        };
        // Sources of the original that have another form here say no more than whose message it is.
        let source = serde_json::from_value(self.source).unwrap_or(own);
        let content = content(self.data.content)?;
        let blank = context.new_message(self.data.role, extension, "", self.metadata);
        Ok(Message {
            id: self.id.filter(|id| !id.is_empty()).unwrap_or(blank.id),
            data: MessageData {
                role: self.data.role,
                content,
            },
            metadata: blank.metadata,
            created_at: self.created_at.unwrap_or(blank.created_at),
            source,
        })
    }
}

/// Text, or parts.
fn content(written: Value) -> Result<Vec<Part>, ToolError> {
    match written {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(parts) => {
            let read = |part: Value| match part {
                Value::String(text) => Ok(Part::text(text)),
                part => serde_json::from_value(part).map_err(|error| {
                    senseless(format_args!("a part of a message makes no sense: {error}"))
                }),
            };
            parts.into_iter().map(read).collect()
        }
        other => Err(senseless(format_args!(
            "the content of a message is text or a list, not {other}"
        ))),
    }
}

/// A message that an extension gives back.
pub(super) fn message(
    context: &mut TurnContext,
    extension: &str,
    written: Value,
) -> Result<Message, ToolError> {
    match read(
        context,
        extension,
        json!({"type": "append", "message": written}),
    )? {
        MessageEvent::Append { message } => Ok(message),
        _ => unreachable!("an append was read"),
    }
}
