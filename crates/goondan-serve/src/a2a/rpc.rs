//! Requests and errors, as JSON-RPC has them.

use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use goondan::SendError;
use goondan::spec::Code;
use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use crate::problem::Problem;

/// The header that says which version a client speaks.
pub(super) const VERSION: &str = "a2a-version";

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    Card,
    /// Everything about push notifications.
    Push,
}

const OPERATIONS: [(Operation, &str, &str); 11] = [
    (Operation::Send, "message/send", "SendMessage"),
    (Operation::Stream, "message/stream", "SendStreamingMessage"),
    (Operation::Get, "tasks/get", "GetTask"),
    (Operation::List, "tasks/list", "ListTasks"),
    (Operation::Cancel, "tasks/cancel", "CancelTask"),
    (Operation::Subscribe, "tasks/resubscribe", "SubscribeToTask"),
    (
        Operation::Card,
        "agent/getAuthenticatedExtendedCard",
        "GetExtendedAgentCard",
    ),
    (
        Operation::Push,
        "tasks/pushNotificationConfig/set",
        "CreateTaskPushNotificationConfig",
    ),
    (
        Operation::Push,
        "tasks/pushNotificationConfig/get",
        "GetTaskPushNotificationConfig",
    ),
    (
        Operation::Push,
        "tasks/pushNotificationConfig/list",
        "ListTaskPushNotificationConfigs",
    ),
    (
        Operation::Push,
        "tasks/pushNotificationConfig/delete",
        "DeleteTaskPushNotificationConfig",
    ),
];

/// A request that was read.
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) operation: Operation,
    pub(super) dialect: Dialect,
    pub(super) params: Params,
}

/// The parameters of a request.
pub(super) struct Params(pub(super) Map<String, Value>);

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) struct RpcError {
    code: i32,
    reason: &'static str,
    message: String,
    /// A field of the parameters that is to blame.
    field: Option<String>,
    /// What stands beside: our own code, what to do about it.
    metadata: Map<String, Value>,
}

impl RpcError {
    pub(super) fn new(code: i32, reason: &'static str, message: impl Into<String>) -> Self {
        RpcError {
            code,
            reason,
            message: message.into(),
            field: None,
            metadata: Map::new(),
        }
    }

    /// Parameters that make no sense.
    pub(super) fn field(field: &str, message: impl Into<String>) -> Self {
        RpcError {
            field: Some(field.to_owned()),
            ..RpcError::new(-32602, "INVALID_PARAMS", message)
        }
    }

    pub(super) fn task_not_found(id: &str) -> Self {
        RpcError::new(
            -32001,
            "TASK_NOT_FOUND",
            "There is no task of that id, or it was over long ago.",
        )
        .with("taskId", id)
    }

    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        RpcError::new(-32004, "UNSUPPORTED_OPERATION", message)
    }

    pub(super) fn content(field: &str, message: impl Into<String>) -> Self {
        RpcError::new(-32005, "CONTENT_TYPE_NOT_SUPPORTED", message).with("field", field)
    }

    /// The swarm ended before the turn did.
    pub(super) fn stopped() -> Self {
        let message = "The swarm ended before the turn did. The turn resumes at the next start; ask for the task then.";
        RpcError::new(-32603, "INTERNAL", message).with("code", Code::SWARM_STOPPED.to_string())
    }

    /// Says more.
    #[must_use]
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

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

    /// As the response to the request of that id.
    pub(super) fn response(&self, id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": self.body()})
    }

    /// As the answer to a request.
    pub(super) fn answer(&self, id: &Value) -> Response {
        Json(self.response(id)).into_response()
    }
}

/// A result, as the response to the request of that id.
pub(super) fn response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

impl From<SendError> for RpcError {
    fn from(error: SendError) -> Self {
        let refused = match error.code {
            Code::AGENT_NOT_FOUND
            | Code::AGENT_QUEUE_FULL
            | Code::AGENT_INSTANCE_LIMIT
            | Code::SWARM_STOPPING
            | Code::SWARM_STOPPED
            | Code::STORE => RpcError::new(-32603, "INTERNAL", error.message),
            _ => RpcError::new(-32602, "INVALID_PARAMS", error.message),
        };
        let refused = refused.with("code", error.code.to_string());
        match error.suggestion {
            Some(suggestion) => refused.with("suggestion", suggestion),
            None => refused,
        }
    }
}

impl From<Problem> for RpcError {
    fn from(problem: Problem) -> Self {
        let Problem {
            code,
            message,
            suggestion,
            ..
        } = problem;
        SendError {
            code,
            message,
            suggestion,
        }
        .into()
    }
}

/// An error, and the id of the request that it answers.
pub(super) type Failed = (Value, RpcError);

impl Request {
    /// Reads a request. `asked` is the version that stands behind the question mark of the address.
    pub(super) fn read(
        headers: &HeaderMap,
        asked: Option<&str>,
        body: &[u8],
    ) -> Result<Request, Failed> {
        if !is_json(headers) {
            let error = RpcError::content(
                "Content-Type",
                "The request must be sent as application/json.",
            );
            return Err((Value::Null, error));
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            (
                Value::Null,
                RpcError::new(
                    -32700,
                    "PARSE_ERROR",
                    format!("The body of the request is not JSON: {error}."),
                ),
            )
        })?;
        let invalid = |id: &Value, message: &str| {
            (
                id.clone(),
                RpcError::new(-32600, "INVALID_REQUEST", message),
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
        let (operation, dialect) = operation(method, stated(headers).or(asked).unwrap_or_default())
            .map_err(|error| (id.clone(), error))?;
        let params = match fields.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) if dialect == Dialect::V10 => named(params),
            Some(Value::Object(params)) => params,
            Some(_) => return Err((id, RpcError::field("params", "`params` must be an object."))),
        };
        Ok(Request {
            id,
            operation,
            dialect,
            params: Params(params),
        })
    }
}

/// Fields under the names that JSON has for them. Who reads what protocol buffers write has to take those of the definition, too:
/// `context_id` for `contextId`. What clients have put into `metadata` and `data` is theirs.
fn named(fields: Map<String, Value>) -> Map<String, Value> {
    let all: Vec<String> = fields.keys().cloned().collect();
    let named = fields.into_iter().map(|(name, value)| {
        let own = camel(&name);
        // Where both are there, the name of JSON counts.
        let name = if all.contains(&own) { name } else { own };
        let value = match name.as_str() {
            "metadata" | "data" => value,
            _ => named_within(value),
        };
        (name, value)
    });
    named.collect()
}

fn named_within(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(named(fields)),
        Value::Array(items) => Value::Array(items.into_iter().map(named_within).collect()),
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name + letters.as_str()
    })
}

/// Whether a body may be JSON. One of which nothing is said is taken for it.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(stated) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let media_type = stated
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Whether a client says in a header that it speaks that version.
pub(super) fn is_stated(headers: &HeaderMap, dialect: Dialect) -> bool {
    let stated = stated(headers).and_then(spoken);
    stated.is_some_and(|stated| stated == Some(dialect))
}

/// The version that a client states in a header.
fn stated(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(VERSION)
        .map(|value| value.to_str().unwrap_or("?").trim())
}

/// The version of that number, whatever the third part of it: `Some(None)` where none is stated, `None` for one that is not
/// spoken here.
fn spoken(version: &str) -> Option<Option<Dialect>> {
    let mut numbers = version.split('.');
    match (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    ) {
        ("", _) => Some(None),
        ("0", "3") => Some(Some(Dialect::V03)),
        ("1", "0") => Some(Some(Dialect::V10)),
        _ => None,
    }
}

/// Which operation a method is, and in which version.
fn operation(method: &str, version: &str) -> Result<(Operation, Dialect), RpcError> {
    let Some(spoken) = spoken(version) else {
        let message =
            format!("Version {version} of A2A is not spoken here. The versions are 1.0 and 0.3.");
        return Err(RpcError::new(-32009, "VERSION_NOT_SUPPORTED", message));
    };
    let old = OPERATIONS
        .iter()
        .find(|(_, old, _)| *old == method)
        .map(|row| (row.0, Dialect::V03));
    let new = OPERATIONS
        .iter()
        .find(|(.., new)| *new == method)
        .map(|row| (row.0, Dialect::V10));
    let known = match spoken {
        // Clients of 0.3 do not say so. The methods of 1.0 have other names: who calls one speaks it.
        None => old.or(new),
        Some(Dialect::V03) => old,
        Some(Dialect::V10) => new,
    };
    known.ok_or_else(|| {
        RpcError::new(
            -32601,
            "METHOD_NOT_FOUND",
            format!("There is no method `{method}`."),
        )
    })
}

impl Params {
    /// A string; `None` where it is absent or empty.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, RpcError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text).filter(|text| !text.is_empty())),
            Some(_) => Err(RpcError::field(name, format!("`{name}` must be a string."))),
        }
    }

    /// The id of the task that is meant.
    pub(super) fn task(&self) -> Result<&str, RpcError> {
        self.text("id")?
            .ok_or_else(|| RpcError::field("id", "`id` must be the id of a task."))
    }

    /// A number that is not negative.
    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, RpcError> {
        number(self.0.get(name), name)
    }
}

/// A number that is not negative.
pub(super) fn number(value: Option<&Value>, name: &str) -> Result<Option<usize>, RpcError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.map(Some).ok_or_else(|| {
                RpcError::field(name, format!("`{name}` must be a number of at least 0."))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_have_the_names_of_the_definition() {
        let given = json!({
            "context_id": "c", "page_size": 1, "pageSize": 2, "x": [{"return_immediately": true}],
            "metadata": {"my_key": 1}, "parts": [{"media_type": "a/b", "data": {"my_key": 1}}],
        });
        let Value::Object(given) = given else {
            unreachable!()
        };
        let wanted = json!({
            "contextId": "c", "page_size": 1, "pageSize": 2, "x": [{"returnImmediately": true}],
            "metadata": {"my_key": 1}, "parts": [{"mediaType": "a/b", "data": {"my_key": 1}}],
        });
        assert_eq!(Value::Object(named(given)), wanted);
    }
}
