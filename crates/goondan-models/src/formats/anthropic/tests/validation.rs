//! Checks for requests that Anthropic's API rejects.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the error that the API reports with status 400 for `body`.
pub(super) fn validation_error(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    bad_fields(body)
        .or_else(|| bad_cache_control(body))
        .or_else(|| bad_roles(&messages))
        .or_else(|| messages.iter().find_map(bad_content))
        .or_else(|| bad_calls(body, &messages))
        .or_else(|| bad_thinking(body, &messages))
}

fn bad_fields(body: &Value) -> Option<String> {
    let limit = body["max_tokens"].as_u64().unwrap_or(0);
    let budget = body["thinking"]["budget_tokens"].as_u64();
    if limit == 0 {
        return Some("max_tokens: Field required".to_owned());
    }
    if budget.is_some_and(|budget| budget < 1024) {
        return Some("thinking.enabled.budget_tokens: Input should be at least 1024".to_owned());
    }
    if budget.is_some_and(|budget| budget >= limit) {
        return Some("`max_tokens` must be greater than `thinking.budget_tokens`".to_owned());
    }
    let samples = ["temperature", "top_k"]
        .iter()
        .any(|key| body.get(key).is_some());
    (thinks(body) && samples).then(|| "`temperature` may only be 1 with thinking".to_owned())
}

fn bad_cache_control(body: &Value) -> Option<String> {
    let count = body.to_string().matches(r#""cache_control":"#).count();
    (count > 4).then(|| format!("A maximum of 4 blocks with cache_control. Found {count}."))
}

fn bad_roles(messages: &[Value]) -> Option<String> {
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Some("messages: first message must use the user role".to_owned());
    }
    let alternate = messages
        .windows(2)
        .all(|pair| pair[0]["role"] != pair[1]["role"]);
    (!alternate).then(|| "messages: roles must alternate".to_owned())
}

fn bad_content(message: &Value) -> Option<String> {
    let content = blocks(message);
    if content.is_empty() {
        return Some("messages: content must be non-empty".to_owned());
    }
    let is_blank =
        |block: &Value| block["type"] == "text" && text(&block["text"]).trim().is_empty();
    if content.iter().any(is_blank) {
        return Some("messages: text content blocks must be non-empty".to_owned());
    }
    let is_unsigned =
        |block: &Value| block["type"] == "thinking" && text(&block["signature"]).is_empty();
    if content.iter().any(is_unsigned) {
        return Some("Invalid `signature` in `thinking` block".to_owned());
    }
    let ends_with_thinking = content.last().is_some_and(is_thinking);
    ends_with_thinking.then(|| "The final block cannot be `thinking`".to_owned())
}

fn bad_calls(body: &Value, messages: &[Value]) -> Option<String> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        let content = blocks(message);
        let results: BTreeSet<&str> = content
            .iter()
            .take_while(|block| is_result(block))
            .map(result_id)
            .collect();
        let all: BTreeSet<&str> = content
            .iter()
            .filter(|block| is_result(block))
            .map(result_id)
            .collect();
        if results != all || results != open {
            return Some(format!(
                "`tool_use` ids {open:?} but `tool_result` blocks {all:?}"
            ));
        }
        open = content
            .iter()
            .filter(|block| is_call(block))
            .map(|block| text(&block["id"]))
            .collect();
        let names = content
            .iter()
            .filter(|block| is_call(block))
            .map(|block| text(&block["name"]));
        if let Some(bad) = open.iter().copied().chain(names).find(|id| !is_plain(id)) {
            return Some(format!("{bad:?} should match pattern '^[a-zA-Z0-9_-]+$'"));
        }
        let has_calls = content
            .iter()
            .any(|block| is_call(block) || is_result(block));
        if has_calls && body.get("tools").is_none() {
            return Some("Requests with `tool_use` blocks must define tools".to_owned());
        }
    }
    (!open.is_empty()).then(|| format!("`tool_use` ids {open:?} without `tool_result`"))
}

/// The last turn begins after the last message of the user that contains no tool result.
fn bad_thinking(body: &Value, messages: &[Value]) -> Option<String> {
    let ends_turn =
        |message: &Value| message["role"] == "user" && !blocks(message).iter().any(is_result);
    let begin = messages.iter().rposition(ends_turn).map_or(0, |at| at + 1);
    let mut turn = messages[begin..]
        .iter()
        .filter(|message| message["role"] == "assistant");
    if thinks(body) {
        let first = turn.next().and_then(|message| blocks(message).first())?;
        let is_manual = body["thinking"]["type"] == "enabled";
        return (is_manual && !is_thinking(first))
            .then(|| format!("Expected `thinking`, but found `{}`", first["type"]));
    }
    let has_thinking = turn.flat_map(blocks).any(is_thinking);
    has_thinking.then(|| "When thinking is disabled, the last turn cannot contain it".to_owned())
}

/// Newer models think unless a request turns thinking off.
fn thinks(body: &Value) -> bool {
    match body["thinking"]["type"].as_str() {
        Some(kind) => kind != "disabled",
        None => body["model"] == "claude-sonnet-5",
    }
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn is_thinking(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking")
    )
}

fn is_result(block: &Value) -> bool {
    block["type"] == "tool_result"
}

fn is_call(block: &Value) -> bool {
    block["type"] == "tool_use"
}

fn result_id(block: &Value) -> &str {
    text(&block["tool_use_id"])
}

fn is_plain(id: &str) -> bool {
    !id.is_empty()
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
