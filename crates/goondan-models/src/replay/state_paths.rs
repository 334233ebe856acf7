//! Paths of a workspace in recorded requests. Tool results contain them, and they differ under
//! another state root.

use serde_json::Value;

use super::entry::RecordedRequest;

/// Text before the workspace id in the path of a conversation's files.
const BEFORE_ID: &str = "/workspaces/";
/// Text after the workspace id.
const AFTER_ID: &str = "/instances/";
/// Replaces the path of a workspace.
const PATH_PLACEHOLDER: &str = "[workspace]";

/// Returns the request with neutral workspace paths in its prompt and messages.
pub(super) fn without_workspace_paths(request: &RecordedRequest) -> RecordedRequest {
    let messages = serde_json::to_value(&request.messages)
        .map(replace_workspace_paths)
        .and_then(serde_json::from_value);
    RecordedRequest {
        system: request.system.as_deref().map(replace_paths_in_text),
        // Other text in the same form is always valid.
        messages: messages.unwrap_or_else(|_| request.messages.clone()),
        ..request.clone()
    }
}

/// Replaces the workspace paths in all strings of a value. The recursion is bounded, because the
/// values in messages come from parsed JSON with limited nesting.
fn replace_workspace_paths(value: Value) -> Value {
    match value {
        Value::String(text) => replace_paths_in_text(&text).into(),
        Value::Array(items) => items.into_iter().map(replace_workspace_paths).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, replace_workspace_paths(value)))
            .collect(),
        other => other,
    }
}

/// Replaces each absolute path up to and including a workspace id by a fixed text.
fn replace_paths_in_text(text: &str) -> String {
    let mut neutral = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEFORE_ID) {
        let id = at + BEFORE_ID.len();
        let begins_path =
            |c: char| c.is_whitespace() || c.is_control() || "\"'`()[]{}<>,;=|".contains(c);
        let start = rest[..at]
            .char_indices()
            .rfind(|(_, c)| begins_path(*c))
            .map_or(0, |(found, c)| found + c.len_utf8());
        let end = rest[id..].find('/').map_or(rest.len(), |end| id + end);
        if rest[start..].starts_with('/') && rest[end..].starts_with(AFTER_ID) {
            neutral.push_str(&rest[..start]);
            neutral.push_str(PATH_PLACEHOLDER);
        } else {
            neutral.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    neutral + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_workspace_is_replaced() {
        for (text, expected) in [
            (
                "wrote `/a/state/workspaces/p-1/instances/x/notes.md`, and /w/workspaces/q/instances/y",
                "wrote `[workspace]/instances/x/notes.md`, and [workspace]/instances/y",
            ),
            (
                "{\"path\":\"/s/workspaces/p/instances/i/f\"}",
                "{\"path\":\"[workspace]/instances/i/f\"}",
            ),
            (
                "/home/me/workspaces/shop/src",
                "/home/me/workspaces/shop/src",
            ),
            ("a/workspaces/p/instances/x", "a/workspaces/p/instances/x"),
            ("/workspaces/", "/workspaces/"),
        ] {
            assert_eq!(replace_paths_in_text(text), expected);
        }
    }
}
