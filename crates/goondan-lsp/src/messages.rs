//! JSON-RPC messages and shared request parameters.

use gen_lsp_types::{Position, Uri};
use goondan_core::json_rpc::{INVALID_REQUEST, PARSE_ERROR, request_id};
use goondan_core::{json_text, received_text};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) enum LspMessage {
    /// Needs a response.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Needs no response.
    Notification { method: String, params: Value },
    /// Response of the client. Ignored, because no request of this server depends on one.
    Answer,
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LspRequestError {
    code: i32,
    message: String,
}

impl LspRequestError {
    /// Creates the JSON-RPC error for a body that is not JSON.
    pub(crate) fn parse(error: impl std::fmt::Display) -> Self {
        LspRequestError {
            code: PARSE_ERROR,
            message: format!("The message is not JSON: {error}."),
        }
    }

    /// Creates the JSON-RPC error for a request that is not valid in the current state.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        LspRequestError {
            code: INVALID_REQUEST,
            message: message.into(),
        }
    }

    /// Creates the JSON-RPC error for an unknown method.
    pub(crate) fn no_method(method: &str) -> Self {
        LspRequestError {
            code: -32_601,
            message: format!("This server has no method `{method}`."),
        }
    }

    /// Creates the JSON-RPC error for parameters that cannot be decoded.
    pub(crate) fn invalid_params(error: impl std::fmt::Display) -> Self {
        LspRequestError {
            code: -32_602,
            message: format!("The parameters are not valid: {error}."),
        }
    }

    /// Creates the LSP error for a request before `initialize`.
    pub(crate) fn not_initialized() -> Self {
        LspRequestError {
            code: -32_002,
            message: "The first request must be `initialize`.".to_owned(),
        }
    }

    /// Creates the LSP error `RequestFailed`: the request is valid, but cannot be fulfilled.
    pub(crate) fn request_failed(message: impl Into<String>) -> Self {
        LspRequestError {
            code: -32_803,
            message: message.into(),
        }
    }
}

/// Parses a message. On an error, also returns the id of the request, or null.
pub(crate) fn read(body: &[u8]) -> Result<LspMessage, (Value, LspRequestError)> {
    // Bytes that are not text become U+FFFD, so that the id of the request can still be read.
    let text = received_text::decode(body, "").unwrap_or_else(|_| String::from_utf8_lossy(body));
    // Editors that cut a text inside a character write half of a surrogate pair.
    let value: Value = json_text::parse(&text)
        .map_err(|error| (request_id(&text), LspRequestError::parse(error)))?;
    let Value::Object(mut fields) = value else {
        return Err((
            Value::Null,
            LspRequestError::invalid_request("A message must be an object."),
        ));
    };
    let id = fields.remove("id");
    if id
        .as_ref()
        .is_some_and(|id| !id.is_string() && !id.is_number())
    {
        let error = LspRequestError::invalid_request("`id` must be a string or a number.");
        return Err((Value::Null, error));
    }
    let params = fields.remove("params").unwrap_or_default();
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(LspMessage::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(LspMessage::Notification { method, params }),
        (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => {
            Ok(LspMessage::Answer)
        }
        (_, id) => Err((
            id.unwrap_or_default(),
            LspRequestError::invalid_request("A message must have a `method`."),
        )),
    }
}

/// Creates the JSON-RPC response to the request `id`.
pub(crate) fn answer(id: &Value, result: Result<Value, LspRequestError>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => {
            let error = json!({ "code": failure.code, "message": failure.message });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

/// Creates a JSON-RPC notification.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Decodes the parameters of a message.
pub(crate) fn decode_params<T: DeserializeOwned>(params: Value) -> Result<T, LspRequestError> {
    serde_json::from_value(params).map_err(LspRequestError::invalid_params)
}

/// Parameters with a text document.
#[derive(Debug, Deserialize)]
pub(crate) struct DocumentParams<T> {
    #[serde(rename = "textDocument")]
    pub(crate) document: TextDocumentItem,
    #[serde(flatten)]
    pub(crate) more: T,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TextDocumentItem {
    pub(crate) uri: Uri,
    pub(crate) version: Option<i32>,
    pub(crate) text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PositionParams {
    pub(crate) position: Position,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EmptyParams {}

/// Parameters of `textDocument/didChange`.
#[derive(Debug, Deserialize)]
pub(crate) struct DidChangeParams {
    #[serde(rename = "contentChanges")]
    pub(crate) changes: Vec<ContentChange>,
}

/// Change of a range, or of the whole text if there is no range.
#[derive(Debug, Deserialize)]
pub(crate) struct ContentChange {
    pub(crate) range: Option<gen_lsp_types::Range>,
    pub(crate) text: String,
}

/// Parameters of `textDocument/rename`.
#[derive(Debug, Deserialize)]
pub(crate) struct RenameRequest {
    pub(crate) position: Position,
    #[serde(rename = "newName")]
    pub(crate) new_name: String,
}

/// Parameters of `textDocument/references`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReferencesParams {
    pub(crate) position: Position,
    #[serde(default)]
    pub(crate) context: ReferenceContext,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReferenceContext {
    #[serde(rename = "includeDeclaration", default)]
    pub(crate) include_declaration: bool,
}

/// Parameters of `textDocument/codeAction`.
#[derive(Debug, Deserialize)]
pub(crate) struct RangeParams {
    pub(crate) range: gen_lsp_types::Range,
}

/// Parameters of `workspace/symbol`.
#[derive(Debug, Deserialize)]
pub(crate) struct SymbolQuery {
    #[serde(default)]
    pub(crate) query: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        let body = br#"{"method": "m", "params": {"text": "cut \ud83d"}}"#;
        let Ok(LspMessage::Notification { params, .. }) = read(body) else {
            panic!("a notification")
        };
        assert_eq!(params["text"], "cut \u{fffd}");
    }

    #[test]
    fn an_invalid_request_is_answered_with_its_id() {
        let refusal = |body: &[u8]| read(body).err().map(|(id, error)| (id, error.code));
        for (body, expected) in [
            (
                &br#"{"id": 7, "method": "m", "params": "\x"}"#[..],
                (json!(7), PARSE_ERROR),
            ),
            (
                br#"{"id": "a", "method": "cut \ud83d"#,
                (json!("a"), PARSE_ERROR),
            ),
            (
                b"\xEF\xBB\xBF{\"id\": 8, \"a\": \xFF}",
                (json!(8), PARSE_ERROR),
            ),
            (br#"{"id": 9, "method": 1}"#, (json!(9), INVALID_REQUEST)),
            (
                br#"{"id": {}, "method": "m"}"#,
                (Value::Null, INVALID_REQUEST),
            ),
            (
                br#"{"id": null, "method": "m"}"#,
                (Value::Null, INVALID_REQUEST),
            ),
            (b"[]", (Value::Null, INVALID_REQUEST)),
        ] {
            let text = String::from_utf8_lossy(body);
            assert_eq!(refusal(body), Some(expected), "{text}");
        }
        let wide: Vec<u8> = "\u{feff}{\"id\": 1, \"method\": \"m\"}"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(refusal(&wide), None);
    }
}
