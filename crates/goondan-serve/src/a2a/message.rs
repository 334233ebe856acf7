//! What a client sends: a message, and how it wants to be answered.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use goondan::ports::tool::Attachment;
use goondan::spec::JsonObject;
use serde_json::Value;

use super::dialect::{Dialect, Piece};
use super::rpc::{self, Params, RpcError};

/// A message of a client.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) id: String,
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    pub(super) pieces: Vec<Piece>,
    pub(super) metadata: JsonObject,
    /// The answer is to come when the task is on disk.
    pub(super) at_once: bool,
    /// At most so many messages of the history are wanted.
    pub(super) history: Option<usize>,
}

impl Incoming {
    /// Reads the parameters of a message that is sent.
    pub(super) fn read(params: Params, dialect: Dialect) -> Result<Incoming, RpcError> {
        let Params(mut params) = params;
        let Some(Value::Object(message)) = params.remove("message") else {
            return Err(RpcError::field("message", "`message` must be an object."));
        };
        let message = Params(message);
        let id = message.text("messageId")?.ok_or_else(|| {
            RpcError::field(
                "message.messageId",
                "`message.messageId` must be a string: a message sent again has the same.",
            )
        })?;
        let role = message.text("role")?;
        if !matches!(
            (role, dialect),
            (Some("user"), Dialect::V03) | (Some("ROLE_USER"), Dialect::V10)
        ) {
            return Err(RpcError::field(
                "message.role",
                "`message.role` must be that of the user.",
            ));
        }
        let parts = message
            .0
            .get("parts")
            .and_then(Value::as_array)
            .filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| {
            RpcError::field(
                "message.parts",
                "`message.parts` must have at least one part.",
            )
        })?;
        let pieces = parts
            .iter()
            .enumerate()
            .map(|(index, part)| piece(part, dialect, index))
            .collect::<Result<_, _>>()?;
        let configuration = Params(
            params
                .remove("configuration")
                .and_then(object)
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
            Dialect::V10 => configuration.0.get("returnImmediately") == Some(&Value::Bool(true)),
            Dialect::V03 => configuration.0.get("blocking") == Some(&Value::Bool(false)),
        };
        let history = rpc::number(
            configuration.0.get("historyLength"),
            "configuration.historyLength",
        )?;
        Ok(Incoming {
            id: id.to_owned(),
            context: message.text("contextId")?.map(str::to_owned),
            task: message.text("taskId")?.map(str::to_owned),
            pieces,
            metadata: message
                .0
                .get("metadata")
                .cloned()
                .and_then(object)
                .unwrap_or_default(),
            at_once,
            history,
        })
    }

    /// What the agent gets: its text, with data as JSON, and its files.
    pub(super) fn input(&self) -> (String, Vec<Attachment>) {
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => texts.push(text.clone()),
                Piece::Data(data) => texts.push(data.to_string()),
                Piece::File(file) => files.push(file.clone()),
            }
        }
        (texts.join("\n\n"), files)
    }
}

/// Push notifications are not sent.
pub(super) fn no_push() -> RpcError {
    let message = "Push notifications are not sent. Subscribe to the task, or ask for it.";
    RpcError::new(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", message)
}

fn object(value: Value) -> Option<JsonObject> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn piece(part: &Value, dialect: Dialect, index: usize) -> Result<Piece, RpcError> {
    let name = format!("message.parts[{index}]");
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let kind = text(part, "kind");
    let (file, data, media_type, file_name) = match (dialect, kind.as_deref()) {
        (Dialect::V03, Some("file")) => (
            part.get("file").unwrap_or(part),
            "bytes",
            "mimeType",
            "name",
        ),
        (Dialect::V03, Some("text" | "data")) | (Dialect::V10, _) => {
            (part, "raw", "mediaType", "filename")
        }
        (Dialect::V03, _) => {
            return Err(RpcError::field(
                &name,
                format!("`{name}.kind` must be text, file or data."),
            ));
        }
    };
    if let Some(text) = text(part, "text") {
        return Ok(Piece::Text(text));
    }
    if let Some(data) = part.get("data") {
        return Ok(Piece::Data(data.clone()));
    }
    if let Some(data) = text(file, data) {
        let bytes = STANDARD.decode(&data).or_else(|_| URL_SAFE.decode(&data));
        let bytes = bytes.map_err(|_| {
            RpcError::field(&name, format!("`{name}` holds bytes that are not Base64."))
        })?;
        let media_type = text(file, media_type).filter(|media_type| !media_type.is_empty());
        let media_type = media_type
            .ok_or_else(|| RpcError::content(&name, format!("`{name}` names no media type.")))?;
        let name = text(file, file_name).filter(|name| !name.is_empty());
        return Ok(Piece::File(Attachment {
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
            format!("`{name}` is the address of a file. Nothing is fetched here: send the bytes.");
        return Err(RpcError::content(&name, message));
    }
    Err(RpcError::field(
        &name,
        format!("`{name}` holds neither text nor data nor a file."),
    ))
}
