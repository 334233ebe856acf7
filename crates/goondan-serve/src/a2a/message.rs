//! Messages of A2A clients and their send options.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use goondan::ports::tool::Attachment;
use goondan::spec::JsonObject;
use serde_json::Value;

use super::encoding::{ProtocolVersion, TaskPart};
use super::rpc::{self, RpcError, RpcParams};

#[derive(Debug)]
pub(super) struct IncomingMessage {
    pub(super) id: String,
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    pub(super) pieces: Vec<TaskPart>,
    pub(super) metadata: JsonObject,
    /// Respond as soon as the task is on disk.
    pub(super) at_once: bool,
    /// Maximum number of history messages in the response.
    pub(super) history: Option<usize>,
}

impl IncomingMessage {
    /// Parses the parameters of a sent message.
    pub(super) fn read(
        params: RpcParams,
        dialect: ProtocolVersion,
    ) -> Result<IncomingMessage, RpcError> {
        let RpcParams(mut params) = params;
        let Some(Value::Object(message)) = params.remove("message") else {
            return Err(RpcError::invalid_param(
                "message",
                "`message` must be an object.",
            ));
        };
        let message = RpcParams(message);
        let id = message.text("messageId")?.ok_or_else(|| {
            RpcError::invalid_param(
                "message.messageId",
                "`message.messageId` must be a string. A retried message keeps its id.",
            )
        })?;
        let role = message.text("role")?;
        if !matches!(
            (role, dialect),
            (Some("user"), ProtocolVersion::V03) | (Some("ROLE_USER"), ProtocolVersion::V10)
        ) {
            return Err(RpcError::invalid_param(
                "message.role",
                "`message.role` must be the user role.",
            ));
        }
        let parts = message
            .0
            .get("parts")
            .and_then(Value::as_array)
            .filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| {
            RpcError::invalid_param(
                "message.parts",
                "`message.parts` must have at least one part.",
            )
        })?;
        let pieces = parts
            .iter()
            .enumerate()
            .map(|(index, part)| parse_part(part, dialect, index))
            .collect::<Result<_, _>>()?;
        let configuration = RpcParams(
            params
                .remove("configuration")
                .and_then(into_object)
                .unwrap_or_default(),
        );
        let wants_push = ["taskPushNotificationConfig", "pushNotificationConfig"].iter();
        if wants_push
            .into_iter()
            .any(|name| configuration.0.get(*name).is_some_and(|it| !it.is_null()))
        {
            return Err(no_push());
        }
        let at_once = match dialect {
            ProtocolVersion::V10 => {
                configuration.0.get("returnImmediately") == Some(&Value::Bool(true))
            }
            ProtocolVersion::V03 => configuration.0.get("blocking") == Some(&Value::Bool(false)),
        };
        let history = rpc::parse_number(
            configuration.0.get("historyLength"),
            "configuration.historyLength",
        )?;
        Ok(IncomingMessage {
            id: id.to_owned(),
            context: message.text("contextId")?.map(str::to_owned),
            task: message.text("taskId")?.map(str::to_owned),
            pieces,
            metadata: message
                .0
                .get("metadata")
                .cloned()
                .and_then(into_object)
                .unwrap_or_default(),
            at_once,
            history,
        })
    }

    /// Returns the input for the agent: its text, with data as JSON, and its files.
    pub(super) fn input(&self) -> (String, Vec<Attachment>) {
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                TaskPart::Text(text) => texts.push(text.clone()),
                TaskPart::Data(data) => texts.push(data.to_string()),
                TaskPart::File(file) => files.push(file.clone()),
            }
        }
        (texts.join("\n\n"), files)
    }
}

/// Push notifications are not supported.
pub(super) fn no_push() -> RpcError {
    let message = "Push notifications are not supported. Subscribe to the task, or poll it.";
    RpcError::new(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", message)
}

/// Returns the fields of an object; `None` for another value or null.
fn into_object(value: Value) -> Option<JsonObject> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Parses the part with this index.
fn parse_part(part: &Value, dialect: ProtocolVersion, index: usize) -> Result<TaskPart, RpcError> {
    let name = format!("message.parts[{index}]");
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let kind = text(part, "kind");
    let (file, data, media_type, file_name) = match (dialect, kind.as_deref()) {
        (ProtocolVersion::V03, Some("file")) => (
            part.get("file").unwrap_or(part),
            "bytes",
            "mimeType",
            "name",
        ),
        (ProtocolVersion::V03, Some("text" | "data")) | (ProtocolVersion::V10, _) => {
            (part, "raw", "mediaType", "filename")
        }
        (ProtocolVersion::V03, _) => {
            return Err(RpcError::invalid_param(
                &name,
                format!("`{name}.kind` must be text, file or data."),
            ));
        }
    };
    if let Some(text) = text(part, "text") {
        return Ok(TaskPart::Text(text));
    }
    if let Some(data) = part.get("data") {
        return Ok(TaskPart::Data(data.clone()));
    }
    if let Some(data) = text(file, data) {
        let bytes = STANDARD.decode(&data).or_else(|_| URL_SAFE.decode(&data));
        let bytes = bytes.map_err(|_| {
            RpcError::invalid_param(
                &name,
                format!("`{name}` contains bytes that are not Base64."),
            )
        })?;
        let media_type = text(file, media_type).filter(|media_type| !media_type.is_empty());
        let media_type = media_type
            .ok_or_else(|| RpcError::content(&name, format!("`{name}` has no media type.")))?;
        let name = text(file, file_name).filter(|name| !name.is_empty());
        return Ok(TaskPart::File(Attachment {
            media_type,
            data: STANDARD.encode(bytes),
            name,
        }));
    }
    if ["url", "uri"]
        .iter()
        .any(|address| file.get(*address).is_some())
    {
        let message =
            format!("`{name}` is the URL of a file. The server fetches no files: send the bytes.");
        return Err(RpcError::content(&name, message));
    }
    Err(RpcError::invalid_param(
        &name,
        format!("`{name}` contains neither text nor data nor a file."),
    ))
}
