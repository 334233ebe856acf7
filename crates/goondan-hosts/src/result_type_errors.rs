//! Messages that are valid JSON with unexpected types, because a handler returned such a value.
//! They affect only their own call.

use goondan_core::ports::tool::{Attachment, HandlerError};
use goondan_spec::Code;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The fields that identify a message. They are always valid, because the shim writes them.
#[derive(Deserialize)]
struct ShimMessageHead {
    kind: String,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    ask: Option<u64>,
}

/// The handling of an invalid message.
pub(crate) enum InvalidMessageAction {
    /// Ends the call with the error.
    End(u64, HandlerError),
    /// Answers the request with the error.
    Answer(u64, HandlerError),
    /// No caller waits for the message.
    Drop,
}

impl InvalidMessageAction {
    /// Returns the handling of `line`; `None` if it is not a message of a call.
    pub(crate) fn of(line: &[u8]) -> Option<InvalidMessageAction> {
        let ShimMessageHead { kind, id, ask } = serde_json::from_slice(line).ok()?;
        match (kind.as_str(), id, ask) {
            ("done" | "fail", Some(id), _) => Some(InvalidMessageAction::End(
                id,
                result_error("the result", line),
            )),
            ("ask", Some(_), Some(ask)) => Some(InvalidMessageAction::Answer(
                ask,
                result_error("the request", line),
            )),
            ("log" | "progress", _, _) => Some(InvalidMessageAction::Drop),
            _ => None,
        }
    }
}

/// Returns the error of an invalid message. `what` is the subject of its sentence.
fn result_error(what: &str, line: &[u8]) -> HandlerError {
    HandlerError::new(describe_error(what, line))
        .code(Code::HOST_RESULT)
        .suggest("Use plain values of the documented types.")
}

/// Describes the error in the message `line`. `what` is the subject of the sentence.
fn describe_error(what: &str, line: &[u8]) -> String {
    // The head parses with ignored values; parsing as a value can exceed limits.
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return format!("{what} is nested too deeply, or contains a number that is too large");
    };
    let result_fields = message.get("more").and_then(Value::as_object);
    result_fields
        .and_then(wrong_field)
        .unwrap_or_else(|| format!("the additional fields of {what} are invalid"))
}

/// Describes the first invalid field next to a result; `None` if the error is elsewhere.
fn wrong_field(more: &Map<String, Value>) -> Option<String> {
    let field_fits = |name: &str, fits: fn(&Value) -> bool| more.get(name).is_none_or(fits);
    if !field_fits("title", |title| title.is_string() || title.is_null()) {
        return Some("`title` of the result is not a string".to_owned());
    }
    if !field_fits("metadata", Value::is_object) {
        return Some("`metadata` of the result is not an object".to_owned());
    }
    if !field_fits("attachments", Value::is_array) {
        return Some("`attachments` of the result is not a list".to_owned());
    }
    let attachments = more.get("attachments").and_then(Value::as_array)?;
    let wrong = attachments
        .iter()
        .position(|attachment| Attachment::deserialize(attachment).is_err())?;
    Some(format!(
        "`attachments[{wrong}]` of the result is not `{{mediaType, data}}` with string values"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action_text(line: &str) -> String {
        match InvalidMessageAction::of(line.as_bytes()) {
            Some(InvalidMessageAction::End(id, error)) => format!("end {id}: {error}"),
            Some(InvalidMessageAction::Answer(ask, error)) => format!("answer {ask}: {error}"),
            Some(InvalidMessageAction::Drop) => "drop".to_owned(),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_message_with_wrong_types_fails_only_its_call() {
        let deep = format!(
            r#"{{"kind":"done","id":3,"output":{}{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        let lines = [
            (
                r#"{"kind":"done","id":3,"output":1,"more":{"title":5}}"#,
                "end 3: `title` of the result is not a string",
            ),
            (
                r#"{"kind":"done","id":3,"output":1,"more":{"attachments":"no"}}"#,
                "end 3: `attachments` of the result is not a list",
            ),
            (
                r#"{"kind":"done","id":3,"output":1,"more":{"attachments":[{"mediaType":"a/b","data":1}]}}"#,
                "end 3: `attachments[0]` of the result is not `{mediaType, data}` with string \
                values",
            ),
            (
                r#"{"kind":"done","id":3,"output":1,"more":{"state":7}}"#,
                "end 3: the additional fields of the result are invalid",
            ),
            (
                &deep,
                "end 3: the result is nested too deeply, or contains a number that is too large",
            ),
            (
                r#"{"kind":"done","id":3,"output":1e999}"#,
                "end 3: the result is nested too deeply, or contains a number that is too large",
            ),
            (
                r#"{"kind":"ask","id":3,"ask":4,"name":"send","payload":1e999}"#,
                "answer 4: the request is nested too deeply, or contains a number that is too \
                large",
            ),
            (
                r#"{"kind":"log","id":3,"level":"info","message":"x","fields":{"a":1e999}}"#,
                "drop",
            ),
            (r#"{"kind":"done","output":1}"#, "none"),
            ("not a message", "none"),
        ];
        for (line, expected) in lines {
            assert_eq!(action_text(line), expected, "{line}");
        }
    }
}
