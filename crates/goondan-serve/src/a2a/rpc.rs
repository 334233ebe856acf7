//! JSON-RPC requests and errors.

use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use goondan::gateway::SubmissionError;
use goondan::json_rpc::{INVALID_REQUEST, PARSE_ERROR, request_id};
use goondan::received_text;
use goondan::spec::Code;
use serde_json::{Map, Value, json};

use super::encoding::ProtocolVersion;
use crate::error_table::{self, SWARM_STOPPED};
use crate::problem::ApiProblem;
use crate::received_body::content_type;

/// Header with the client's protocol version.
pub(super) const VERSION_HEADER: &str = "a2a-version";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RpcOperation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    Card,
    /// All methods for push notifications.
    Push,
}

/// Operations with their method names in A2A 0.3 and 1.0.
const OPERATIONS: [(RpcOperation, &str, &str); 11] = [
    (RpcOperation::Send, "message/send", "SendMessage"),
    (
        RpcOperation::Stream,
        "message/stream",
        "SendStreamingMessage",
    ),
    (RpcOperation::Get, "tasks/get", "GetTask"),
    (RpcOperation::List, "tasks/list", "ListTasks"),
    (RpcOperation::Cancel, "tasks/cancel", "CancelTask"),
    (
        RpcOperation::Subscribe,
        "tasks/resubscribe",
        "SubscribeToTask",
    ),
    (
        RpcOperation::Card,
        "agent/getAuthenticatedExtendedCard",
        "GetExtendedAgentCard",
    ),
    (
        RpcOperation::Push,
        "tasks/pushNotificationConfig/set",
        "CreateTaskPushNotificationConfig",
    ),
    (
        RpcOperation::Push,
        "tasks/pushNotificationConfig/get",
        "GetTaskPushNotificationConfig",
    ),
    (
        RpcOperation::Push,
        "tasks/pushNotificationConfig/list",
        "ListTaskPushNotificationConfigs",
    ),
    (
        RpcOperation::Push,
        "tasks/pushNotificationConfig/delete",
        "DeleteTaskPushNotificationConfig",
    ),
];

pub(super) struct RpcRequest {
    pub(super) id: Value,
    pub(super) operation: RpcOperation,
    pub(super) dialect: ProtocolVersion,
    pub(super) params: RpcParams,
}

pub(super) struct RpcParams(pub(super) Map<String, Value>);

#[derive(Debug, Clone)]
pub(super) struct RpcError {
    code: i32,
    reason: &'static str,
    message: String,
    /// The invalid parameter.
    field: Option<String>,
    /// Additional data, such as an error code of gdn or a suggestion.
    metadata: Map<String, Value>,
}

impl RpcError {
    /// Creates an error with a JSON-RPC code and an A2A reason.
    pub(super) fn new(code: i32, reason: &'static str, message: impl Into<String>) -> Self {
        RpcError {
            code,
            reason,
            message: message.into(),
            field: None,
            metadata: Map::new(),
        }
    }

    /// Error for an invalid parameter.
    pub(super) fn invalid_param(field: &str, message: impl Into<String>) -> Self {
        RpcError {
            field: Some(field.to_owned()),
            ..RpcError::new(-32602, "INVALID_PARAMS", message)
        }
    }

    /// Error for an unknown task id.
    pub(super) fn task_not_found(id: &str) -> Self {
        RpcError::new(
            -32001,
            "TASK_NOT_FOUND",
            "There is no task with this id, or its result is no longer kept.",
        )
        .with("taskId", id)
    }

    /// Error for an operation that this server does not support.
    pub(super) fn unsupported_operation(message: impl Into<String>) -> Self {
        RpcError::new(-32004, "UNSUPPORTED_OPERATION", message)
    }

    /// Error for content that this server does not support.
    pub(super) fn content(field: &str, message: impl Into<String>) -> Self {
        RpcError::new(-32005, "CONTENT_TYPE_NOT_SUPPORTED", message).with("field", field)
    }

    /// Error for a swarm that stopped during the turn.
    pub(super) fn swarm_stopped() -> Self {
        ApiProblem::new(
            Code::SWARM_STOPPED,
            format!("{SWARM_STOPPED} Get the task then."),
        )
        .into()
    }

    /// Adds a value to the error data.
    #[must_use]
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Encodes the error.
    fn body(&self) -> Value {
        let mut data = vec![json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason,
            "domain": "a2a-protocol.org",
            "metadata": self.metadata,
        })];
        if let Some(field) = &self.field {
            data.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": field, "description": self.message}],
            }));
        }
        json!({"code": self.code, "message": self.message, "data": data})
    }

    /// Encodes the error as a JSON-RPC response.
    pub(super) fn response(&self, id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": self.body()})
    }

    /// Returns the error as an HTTP response.
    pub(super) fn answer(&self, id: &Value) -> Response {
        Json(self.response(id)).into_response()
    }
}

/// Encodes a result as a JSON-RPC response.
pub(super) fn response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

impl From<SubmissionError> for RpcError {
    fn from(error: SubmissionError) -> Self {
        ApiProblem::from(error).into()
    }
}

impl From<ApiProblem> for RpcError {
    fn from(problem: ApiProblem) -> Self {
        let form = error_table::rpc_form(problem.code);
        let refused = RpcError::new(form.code, form.reason, problem.message)
            .with("code", problem.code.to_string());
        match problem.suggestion {
            Some(suggestion) => refused.with("suggestion", suggestion),
            None => refused,
        }
    }
}

/// An error and the id of its request.
pub(super) type Failed = (Value, RpcError);

impl RpcRequest {
    /// Parses a request. `asked` is the version in the query string.
    pub(super) fn read(
        headers: &HeaderMap,
        asked: Option<&str>,
        body: &[u8],
    ) -> Result<RpcRequest, Failed> {
        let content_type = content_type(headers);
        // A body without a media type counts as JSON.
        if headers.contains_key(CONTENT_TYPE) && !received_text::is_json(content_type) {
            let error = RpcError::content(
                "Content-Type",
                "The request must be sent as application/json.",
            );
            return Err((Value::Null, error));
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            let message = format!("The body of the request is not JSON: {error}.");
            let error = RpcError::new(PARSE_ERROR, "PARSE_ERROR", message);
            (request_id(&String::from_utf8_lossy(body)), error)
        })?;
        let invalid = |id: &Value, message: &str| {
            (
                id.clone(),
                RpcError::new(INVALID_REQUEST, "INVALID_REQUEST", message),
            )
        };
        let Value::Object(mut fields) = body else {
            return Err(invalid(
                &Value::Null,
                "The body must be one request, as a JSON object.",
            ));
        };
        let id = match fields.remove("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => id,
            None | Some(Value::Null) => {
                return Err(invalid(&Value::Null, "The request must have an `id`."));
            }
            Some(_) => return Err(invalid(&Value::Null, "`id` must be a string or a number.")),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(&id, "`jsonrpc` must be \"2.0\"."));
        }
        let Some(method) = fields.get("method").and_then(Value::as_str) else {
            return Err(invalid(&id, "`method` must be a string."));
        };
        let (operation, dialect) = parse_operation(
            method,
            header_version(headers).or(asked).unwrap_or_default(),
        )
        .map_err(|error| (id.clone(), error))?;
        let params = match fields.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) if dialect == ProtocolVersion::V10 => rename_fields(params),
            Some(Value::Object(params)) => params,
            Some(_) => {
                return Err((
                    id,
                    RpcError::invalid_param("params", "`params` must be an object."),
                ));
            }
        };
        Ok(RpcRequest {
            id,
            operation,
            dialect,
            params: RpcParams(params),
        })
    }
}

/// Renames the fields to their JSON names at every depth, for example `context_id` to `contextId`.
/// Parsers of protocol buffers must accept both names. The contents of `metadata` and `data` belong
/// to the client and keep their names.
fn rename_fields(fields: Map<String, Value>) -> Map<String, Value> {
    let all: Vec<String> = fields.keys().cloned().collect();
    let renamed = fields.into_iter().map(|(name, value)| {
        let json_name = to_camel_case(&name);
        // If both names exist, the JSON name has priority.
        let name = if all.contains(&json_name) {
            name
        } else {
            json_name
        };
        let value = match name.as_str() {
            "metadata" | "data" => value,
            _ => rename_fields_within(value),
        };
        (name, value)
    });
    renamed.collect()
}

/// Renames the fields of all objects in `value`.
fn rename_fields_within(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(rename_fields(fields)),
        Value::Array(items) => Value::Array(items.into_iter().map(rename_fields_within).collect()),
        other => other,
    }
}

/// Converts `snake_case` to `camelCase`.
fn to_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name + letters.as_str()
    })
}

/// Returns true if the client states this version in a header.
pub(super) fn is_stated(headers: &HeaderMap, dialect: ProtocolVersion) -> bool {
    let stated = header_version(headers).and_then(parse_version);
    stated.is_some_and(|stated| stated == Some(dialect))
}

/// Returns the protocol version from the header, if any.
fn header_version(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(VERSION_HEADER)
        .map(|value| value.to_str().unwrap_or("?").trim())
}

/// Parses a version and ignores its third number. `Some(None)` if the string is empty, `None` for
/// an unsupported version.
fn parse_version(version: &str) -> Option<Option<ProtocolVersion>> {
    let mut numbers = version.split('.');
    match (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    ) {
        ("", _) => Some(None),
        ("0", "3") => Some(Some(ProtocolVersion::V03)),
        ("1", "0") => Some(Some(ProtocolVersion::V10)),
        _ => None,
    }
}

/// Returns the operation of a method and its protocol version.
fn parse_operation(
    method: &str,
    version: &str,
) -> Result<(RpcOperation, ProtocolVersion), RpcError> {
    let Some(stated_version) = parse_version(version) else {
        let message = format!("A2A version {version} is not supported. Use 1.0 or 0.3.");
        return Err(RpcError::new(-32009, "VERSION_NOT_SUPPORTED", message));
    };
    let in_v03 = OPERATIONS
        .iter()
        .find(|(_, v03_name, _)| *v03_name == method)
        .map(|row| (row.0, ProtocolVersion::V03));
    let in_v10 = OPERATIONS
        .iter()
        .find(|(.., v10_name)| *v10_name == method)
        .map(|row| (row.0, ProtocolVersion::V10));
    let known = match stated_version {
        // Clients of 0.3 state no version. The method names of 1.0 differ, so the name determines
        // the version.
        None => in_v03.or(in_v10),
        Some(ProtocolVersion::V03) => in_v03,
        Some(ProtocolVersion::V10) => in_v10,
    };
    known.ok_or_else(|| {
        RpcError::new(
            -32601,
            "METHOD_NOT_FOUND",
            format!("There is no method `{method}`."),
        )
    })
}

impl RpcParams {
    /// Returns a string; `None` if it is absent or empty.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, RpcError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text).filter(|text| !text.is_empty())),
            Some(_) => Err(RpcError::invalid_param(
                name,
                format!("`{name}` must be a string."),
            )),
        }
    }

    /// Returns the task id of the request.
    pub(super) fn task_id(&self) -> Result<&str, RpcError> {
        self.text("id")?
            .ok_or_else(|| RpcError::invalid_param("id", "`id` must be the id of a task."))
    }

    /// Returns a non-negative integer.
    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, RpcError> {
        parse_number(self.0.get(name), name)
    }
}

/// Parses a non-negative integer.
pub(super) fn parse_number(value: Option<&Value>, name: &str) -> Result<Option<usize>, RpcError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.map(Some).ok_or_else(|| {
                RpcError::invalid_param(name, format!("`{name}` must be a number of at least 0."))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_field_names_are_renamed_outside_user_data() {
        let fields = json!({
            "context_id": "c", "page_size": 1, "pageSize": 2, "x": [{"return_immediately": true}],
            "metadata": {"my_key": 1}, "parts": [{"media_type": "a/b", "data": {"my_key": 1}}],
        });
        let Value::Object(fields) = fields else {
            unreachable!()
        };
        let expected = json!({
            "contextId": "c", "page_size": 1, "pageSize": 2, "x": [{"returnImmediately": true}],
            "metadata": {"my_key": 1}, "parts": [{"mediaType": "a/b", "data": {"my_key": 1}}],
        });
        assert_eq!(Value::Object(rename_fields(fields)), expected);
    }
}
