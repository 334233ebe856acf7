//! The shapes in which providers report errors, in an HTTP error or in the middle of an answer.

use std::time::Duration;

use serde_json::Value;

use super::retry_after::retry_delay_in;

/// An error in the provider's words.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReportedError {
    /// HTTP status, or the status that corresponds to the error's code.
    pub(crate) status: Option<u16>,
    /// Code or type of the error, such as `rate_limit_exceeded`.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

/// HTTP statuses for the codes and types that providers use inside of streams.
const STATUS_OF_CODE: &[(&str, u16)] = &[
    ("DEADLINE_EXCEEDED", 504),
    ("INTERNAL", 500),
    ("INVALID_ARGUMENT", 400),
    ("NOT_FOUND", 404),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("UNAUTHENTICATED", 401),
    ("UNAVAILABLE", 503),
    ("accessdeniedexception", 403),
    ("api_error", 500),
    ("authentication_error", 401),
    ("badrequesterror", 400),
    ("billing_error", 402),
    ("context_length_exceeded", 400),
    ("insufficient_quota", 429),
    ("internalservererror", 500),
    ("internalserverexception", 500),
    ("invalid_api_key", 401),
    ("invalid_prompt", 400),
    ("invalid_request_error", 400),
    ("model_not_found", 404),
    ("modelstreamerrorexception", 500),
    ("modeltimeoutexception", 504),
    ("not_found_error", 404),
    ("overloaded_error", 529),
    ("permission_error", 403),
    ("rate_limit_error", 429),
    ("rate_limit_exceeded", 429),
    ("request_too_large", 413),
    ("resourcenotfoundexception", 404),
    ("server_error", 500),
    ("server_is_overloaded", 503),
    ("service_unavailable_error", 503),
    ("serviceunavailableexception", 503),
    ("slow_down", 503),
    ("throttlingexception", 429),
    ("timeout_error", 504),
    ("too_many_requests", 429),
    ("unavailable_error", 503),
    ("validationexception", 400),
];

/// HTTP statuses for the numbers in MiniMax's `base_resp`.
const STATUS_OF_MINIMAX: &[(u64, u16)] = &[
    (1000, 500),
    (1001, 504),
    (1002, 429),
    (1004, 401),
    (1008, 402),
    (1013, 500),
    (1024, 500),
    (1026, 400),
    (1027, 400),
    (1033, 500),
    (1039, 429),
    (2013, 400),
    (2049, 401),
];

/// Returns the error that `body` reports, or `None` if it is not an error. `body` is an HTTP body or an event.
pub(crate) fn find_error(body: &Value) -> Option<ReportedError> {
    let body = body
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(body);
    let mut error = nested_error(body)
        .or_else(|| minimax_error(body))
        .or_else(|| flat_error(body))?;
    error.retry_after = error.retry_after.or_else(|| retry_delay_in(body));
    Some(error)
}

/// Returns the error in a body that certainly reports one: an event with the name `error`, or an
/// HTTP error body. If its shape is unknown, the message is the whole body.
pub(crate) fn read_error_body(body: &Value) -> ReportedError {
    find_error(body).unwrap_or_else(|| {
        let error = read_error_object(body);
        if error.message.is_empty() {
            return ReportedError {
                message: body.to_string(),
                ..error
            };
        }
        error
    })
}

/// `{"error": …}`, `{"response": {"error": …}}` and `{"errors": […]}`.
fn nested_error(body: &Value) -> Option<ReportedError> {
    let error = [
        body.get("error"),
        body.pointer("/response/error"),
        body.pointer("/errors/0"),
    ]
    .into_iter()
    .flatten()
    .find(|error| !error.is_null() && *error != &Value::Bool(false))?;
    let mut described = match error {
        Value::Object(_) => read_error_object(error),
        Value::String(text) => ReportedError {
            message: text.clone(),
            ..ReportedError::default()
        },
        other => ReportedError {
            message: other.to_string(),
            ..ReportedError::default()
        },
    };
    if described.message.is_empty() {
        described.message =
            first_text(body, &["message", "detail"]).unwrap_or_else(|| error.to_string());
    }
    Some(described)
}

/// MiniMax: `{"base_resp": {"status_code": 1008, "status_msg": "…"}}`. A status of 0 is not an error.
fn minimax_error(body: &Value) -> Option<ReportedError> {
    let response = body.get("base_resp")?;
    let code = response
        .get("status_code")?
        .as_u64()
        .filter(|code| *code != 0)?;
    let status = STATUS_OF_MINIMAX
        .iter()
        .find(|row| row.0 == code)
        .map(|row| row.1);
    let message = first_text(response, &["status_msg"]).unwrap_or_else(|| "no message".to_owned());
    Some(ReportedError {
        status,
        code: Some(code.to_string()),
        message,
        retry_after: None,
    })
}

/// vLLM: `{"object": "error", "message": …}`. Anthropic: `{"type": "error", …}`.
fn flat_error(body: &Value) -> Option<ReportedError> {
    let is_error = ["object", "type"]
        .iter()
        .any(|key| body.get(key).and_then(Value::as_str) == Some("error"));
    is_error.then(|| read_error_object(body))
}

/// Reads message, code and status of an error object.
fn read_error_object(error: &Value) -> ReportedError {
    let message = first_text(error, &["message", "detail", "msg", "error_msg", "Message"])
        .or_else(|| first_text(error, &["error"]))
        .or_else(|| {
            error
                .pointer("/detail/0/msg")
                .and_then(Value::as_str)
                .map(str::to_owned)
        })
        .unwrap_or_default();
    let code = ["code", "type", "status", "__type"]
        .iter()
        .filter_map(|key| error.get(key).and_then(Value::as_str))
        .find(|code| !matches!(*code, "error" | ""))
        .map(str::to_owned);
    ReportedError {
        status: find_http_status(error),
        code,
        message: append_upstream_message(message, error),
        retry_after: retry_delay_in(error),
    }
}

/// Appends the message of the upstream provider, which OpenRouter puts into `metadata.raw`.
fn append_upstream_message(message: String, error: &Value) -> String {
    let Some(raw) = error.pointer("/metadata/raw") else {
        return message;
    };
    let upstream_error = match raw {
        Value::String(text) => serde_json::from_str(text)
            .ok()
            .and_then(|parsed: Value| find_error(&parsed)),
        other => find_error(other),
    };
    let upstream_message = match (upstream_error, raw) {
        (Some(error), _) => error.message,
        (None, Value::String(text)) => text.clone(),
        (None, _) => return message,
    };
    if upstream_message.is_empty() || upstream_message == message {
        message
    } else if message.is_empty() {
        upstream_message
    } else {
        format!("{message}: {upstream_message}")
    }
}

/// Fields of error objects that may contain an HTTP status or an error code.
const STATUS_FIELDS: [&str; 6] = [
    "code",
    "status",
    "status_code",
    "http_code",
    "type",
    "__type",
];

/// Returns the HTTP status of an error object: the first number that is one, or else the status for
/// the first known error code.
fn find_http_status(error: &Value) -> Option<u16> {
    let values: Vec<&Value> = STATUS_FIELDS
        .iter()
        .filter_map(|field| error.get(field))
        .collect();
    let number = values.iter().find_map(|value| http_error_status(value));
    number.or_else(|| {
        let mut codes = values.iter().filter_map(|value| value.as_str());
        codes.find_map(status_of_code)
    })
}

/// Returns the HTTP status in a JSON number or string, if it is the status of an error.
fn http_error_status(value: &Value) -> Option<u16> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        _ => value.as_u64()?,
    };
    let status = u16::try_from(number).ok()?;
    (400..600).contains(&status).then_some(status)
}

/// Returns the HTTP status for an error code such as `rate_limit_exceeded`.
pub(crate) fn status_of_code(code: &str) -> Option<u16> {
    let (_, status) = STATUS_OF_CODE
        .iter()
        .find(|(known_code, _)| known_code.eq_ignore_ascii_case(code))?;
    Some(*status)
}

/// Returns the first string in the fields `keys` that is not empty.
fn first_text(value: &Value, keys: &[&str]) -> Option<String> {
    for key in keys {
        if let Some(text) = value.get(key).and_then(Value::as_str)
            && !text.is_empty()
        {
            return Some(text.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_bodies_of_every_shape_give_a_status_and_a_message() {
        for (body, status, words) in [
            (
                json!({"error": {"message": "a", "code": 429}}),
                Some(429),
                "a",
            ),
            (
                json!({"error": {"message": "a", "type": "overloaded_error"}}),
                Some(529),
                "a",
            ),
            (json!({"error": "a"}), None, "a"),
            (json!({"error": {"detail": "a"}}), None, "a"),
            (json!({"error": {"code": "x"}, "message": "a"}), None, "a"),
            (
                json!({"object": "error", "message": "a", "code": 400}),
                Some(400),
                "a",
            ),
            (
                json!({"type": "error", "error": {"type": "api_error", "message": "a"}}),
                Some(500),
                "a",
            ),
            (
                json!({"base_resp": {"status_code": 1008, "status_msg": "a"}}),
                Some(402),
                "a",
            ),
            (
                json!([{"error": {"code": 400, "message": "a", "status": "INVALID_ARGUMENT"}}]),
                Some(400),
                "a",
            ),
            (
                json!({"response": {"error": {"code": "server_error", "message": "a"}}}),
                Some(500),
                "a",
            ),
            (json!({"errors": [{"message": "a"}]}), None, "a"),
            (
                json!({"error": {"message": "Provider returned error", "code": 502,
                    "metadata": {"raw": "{\"error\":{\"message\":\"a\"}}"}}}),
                Some(502),
                "Provider returned error: a",
            ),
        ] {
            let error = find_error(&body).unwrap_or_else(|| panic!("{body} is an error"));
            assert_eq!(
                (error.status, error.message.as_str()),
                (status, words),
                "{body}"
            );
        }
    }

    #[test]
    fn other_events_are_not_errors() {
        for body in [
            json!({"choices": [], "error": null}),
            json!({"base_resp": {"status_code": 0, "status_msg": ""}}),
            json!({"type": "message_stop"}),
            json!({"message": {"content": "x"}, "done": false}),
            json!([]),
            json!(3),
        ] {
            assert_eq!(find_error(&body), None, "{body}");
        }
    }

    #[test]
    fn bodies_of_unknown_shape_keep_their_text() {
        assert_eq!(
            read_error_body(&json!({"code": 500, "message": "a"})).message,
            "a"
        );
        assert_eq!(
            read_error_body(&json!({"detail": [{"msg": "a"}]})).message,
            "a"
        );
        assert_eq!(read_error_body(&json!({"x": 1})).message, r#"{"x":1}"#);
    }
}
