//! JSON-RPC errors, also for requests that are not valid JSON.

use serde_json::{Value, json};

use crate::json_text;

/// JSON-RPC error code for a message that is not JSON.
pub const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC error code for JSON that is not a request.
pub const INVALID_REQUEST: i32 = -32_600;

/// Returns a JSON-RPC error.
pub fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Returns the `id` of a JSON-RPC request that is not valid JSON; null if it is not found.
pub fn request_id(text: &str) -> Value {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, at);
                let value = text.get(end..).unwrap_or_default().trim_start();
                if depth == 1
                    && text.get(at..end) == Some("\"id\"")
                    && let Some(value) = value.strip_prefix(':')
                {
                    return read_id(value.trim_start());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Value::Null
}

/// Returns the position after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut index = start + 1;
    while index < bytes.len() {
        match bytes[index] {
            b'\\' => index += 2,
            b'"' => return index + 1,
            _ => index += 1,
        }
    }
    bytes.len()
}

/// Returns the string or number at the beginning of `text`.
fn read_id(text: &str) -> Value {
    let end = if text.starts_with('"') {
        string_end(text.as_bytes(), 0)
    } else {
        text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.'))
            .unwrap_or(text.len())
    };
    let id: Value = text
        .get(..end)
        .and_then(|id| json_text::parse(id).ok())
        .unwrap_or_default();
    match id {
        Value::String(_) | Value::Number(_) => id,
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_invalid_request_is_found() {
        for (text, expected) in [
            (
                r#"{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": "\x"}}"#,
                json!(7),
            ),
            (
                r#"{"params": {"id": 1, "a": "\"id\": 2"}, "id" : "a-b", x"#,
                json!("a-b"),
            ),
            (r#"{"id": 12"#, json!(12)),
            (r#"{"id": "cut \ud83d", x"#, json!("cut \u{fffd}")),
            (r#"{"params": {"id": 1}"#, Value::Null),
            (r#"{"id": null, x"#, Value::Null),
            (r#"{"id": {"a": 1}, x"#, Value::Null),
            (r#"{"id"#, Value::Null),
            (r#""id": 1"#, Value::Null),
            ("{\"a\": \"\\", Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(request_id(text), expected, "{text}");
        }
    }
}
