//! Message events in the format that extensions write.

use chrono::{DateTime, Utc};
use goondan_core::message::{
    Message, MessageData, MessageEvent, MessagePart, MessageRole, MessageSource,
};
use goondan_core::ports::tool::HandlerError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::invalid_value;
use crate::turn::TurnContext;

/// Event as an extension writes it: content may be a plain string, and omitted fields get defaults.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum WrittenEvent {
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
    role: MessageRole,
    content: Value,
}

/// Applies the events that `extension` has emitted, in order.
pub(super) async fn apply_events(
    context: &mut TurnContext,
    extension: &str,
    events: Vec<Value>,
) -> Result<(), goondan_core::event::TurnError> {
    for event in events {
        let event = read(context, extension, event)
            .map_err(|error| super::extension_error(extension, error))?;
        context.emit(event).await?;
    }
    Ok(())
}

/// Decodes a message event of an extension. A replacement without an id keeps the id of its target.
fn read(
    context: &mut TurnContext,
    extension: &str,
    event: Value,
) -> Result<MessageEvent, HandlerError> {
    let written: WrittenEvent = serde_json::from_value(event).map_err(|error| {
        invalid_value(format_args!("it emitted an invalid message event: {error}"))
    })?;
    Ok(match written {
        WrittenEvent::Append { message } => MessageEvent::Append {
            message: message.read(context, extension)?,
        },
        WrittenEvent::Replace { target_id, message } => {
            let message = WrittenMessage {
                id: message.id.or_else(|| Some(target_id.clone())),
                ..message
            };
            MessageEvent::Replace {
                target_id,
                message: message.read(context, extension)?,
            }
        }
        WrittenEvent::Remove { target_id } => MessageEvent::Remove { target_id },
        WrittenEvent::Truncate => MessageEvent::Truncate,
    })
}

impl WrittenMessage {
    /// Converts the message of an extension. An unknown source is replaced by the extension itself;
    /// a missing id or time is generated.
    fn read(self, context: &mut TurnContext, extension: &str) -> Result<Message, HandlerError> {
        let extension_source = MessageSource::Extension {
            extension_name: extension.to_owned(),
        };
        // Other source formats of the original contain no additional information.
        let source = serde_json::from_value(self.source).unwrap_or(extension_source);
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

/// Parses content: a string or a list of parts.
fn content(written: Value) -> Result<Vec<MessagePart>, HandlerError> {
    match written {
        Value::String(text) => Ok(vec![MessagePart::text(text)]),
        Value::Array(parts) => {
            let read_part = |part: Value| match part {
                Value::String(text) => Ok(MessagePart::text(text)),
                part => serde_json::from_value(part).map_err(|error| {
                    invalid_value(format_args!("a message part is invalid: {error}"))
                }),
            };
            parts.into_iter().map(read_part).collect()
        }
        other => Err(invalid_value(format_args!(
            "message content must be a string or a list, not {other}"
        ))),
    }
}

/// Parses a message that an extension returns.
pub(super) fn message(
    context: &mut TurnContext,
    extension: &str,
    written: Value,
) -> Result<Message, HandlerError> {
    match read(
        context,
        extension,
        json!({"type": "append", "message": written}),
    )? {
        MessageEvent::Append { message } => Ok(message),
        _ => unreachable!("an append was read"),
    }
}
