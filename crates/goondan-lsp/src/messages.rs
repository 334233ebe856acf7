//! The frames of JSON-RPC, and what the requests have in common.

use gen_lsp_types::{Position, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A message that came.
#[derive(Debug)]
pub(crate) enum Message {
    /// The client wants an answer.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// It wants none.
    Notification { method: String, params: Value },
    /// It answers, which nothing here waits for.
    Answer,
}

/// What a request fails with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    pub(crate) fn parse(error: impl std::fmt::Display) -> Self {
        Failure {
            code: -32_700,
            message: format!("The message is not JSON: {error}."),
        }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Failure {
            code: -32_600,
            message: message.into(),
        }
    }

    pub(crate) fn no_method(method: &str) -> Self {
        Failure {
            code: -32_601,
            message: format!("This server has no method `{method}`."),
        }
    }

    pub(crate) fn params(error: impl std::fmt::Display) -> Self {
        Failure {
            code: -32_602,
            message: format!("The parameters do not fit: {error}."),
        }
    }

    pub(crate) fn not_initialized() -> Self {
        Failure {
            code: -32_002,
            message: "The first request must be `initialize`.".to_owned(),
        }
    }

    /// The request was right, and the answer is that it can't be done.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Failure {
            code: -32_803,
            message: message.into(),
        }
    }
}

/// Takes a message apart.
pub(crate) fn read(body: &[u8]) -> Result<Message, (Value, Failure)> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| (Value::Null, Failure::parse(error)))?;
    let Value::Object(mut fields) = value else {
        return Err((
            Value::Null,
            Failure::invalid_request("A message must be an object."),
        ));
    };
    let id = fields
        .remove("id")
        .filter(|id| id.is_string() || id.is_number());
    let params = fields.remove("params").unwrap_or_default();
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Message::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Message::Notification { method, params }),
        (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => {
            Ok(Message::Answer)
        }
        (_, id) => Err((
            id.unwrap_or_default(),
            Failure::invalid_request("A message must have a `method`."),
        )),
    }
}

pub(crate) fn answer(id: &Value, result: Result<Value, Failure>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => {
            let error = json!({ "code": failure.code, "message": failure.message });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The parameters of a request, as far as it is read.
pub(crate) fn params<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_json::from_value(params).map_err(Failure::params)
}

/// A document, as most requests name it.
#[derive(Debug, Deserialize)]
pub(crate) struct InDocument<T> {
    #[serde(rename = "textDocument")]
    pub(crate) document: Named,
    #[serde(flatten)]
    pub(crate) more: T,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) uri: Uri,
    pub(crate) version: Option<i32>,
    pub(crate) text: Option<String>,
}

/// A request about a place.
#[derive(Debug, Deserialize)]
pub(crate) struct AtPlace {
    pub(crate) position: Position,
}

/// A request about a document as a whole.
#[derive(Debug, Deserialize)]
pub(crate) struct Whole {}

/// The pieces of `textDocument/didChange`.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes {
    #[serde(rename = "contentChanges")]
    pub(crate) changes: Vec<Change>,
}

/// A changed range, or without one the whole text.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    pub(crate) range: Option<gen_lsp_types::Range>,
    pub(crate) text: String,
}

/// `textDocument/rename`.
#[derive(Debug, Deserialize)]
pub(crate) struct Renaming {
    pub(crate) position: Position,
    #[serde(rename = "newName")]
    pub(crate) new_name: String,
}

/// `textDocument/references`.
#[derive(Debug, Deserialize)]
pub(crate) struct WithDeclaration {
    pub(crate) position: Position,
    #[serde(default)]
    pub(crate) context: ReferenceContext,
}

/// What references are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReferenceContext {
    #[serde(rename = "includeDeclaration", default)]
    pub(crate) include_declaration: bool,
}

/// `textDocument/codeAction`.
#[derive(Debug, Deserialize)]
pub(crate) struct InRange {
    pub(crate) range: gen_lsp_types::Range,
}

/// `workspace/symbol`.
#[derive(Debug, Deserialize)]
pub(crate) struct Query {
    #[serde(default)]
    pub(crate) query: String,
}
