//! Checks for requests that Bedrock rejects for a Claude model.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the error that Bedrock reports with status 400 for `body`.
pub(super) fn validation_error(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    bad_budget(body)
        .or_else(|| bad_cache_points(body))
        .or_else(|| bad_roles(&messages))
        .or_else(|| messages.iter().find_map(bad_content))
        .or_else(|| bad_documents(&messages))
        .or_else(|| bad_calls(body, &messages))
        .or_else(|| bad_reasoning(body, &messages))
}

fn bad_budget(body: &Value) -> Option<String> {
    let budget = body["additionalModelRequestFields"]["thinking"]["budget_tokens"].as_u64()?;
    let config = &body["inferenceConfig"];
    let is_refused = budget >= config["maxTokens"].as_u64()? || config.get("temperature").is_some();
    is_refused.then(|| "`max_tokens` must be greater than `thinking.budget_tokens`".to_owned())
}

fn bad_cache_points(body: &Value) -> Option<String> {
    let points = body.to_string().matches(r#""cachePoint":"#).count();
    (points > 4).then(|| format!("Found {points} cache points"))
}

fn bad_roles(messages: &[Value]) -> Option<String> {
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Some("A conversation must start with a user message.".to_owned());
    }
    let alternate = messages
        .windows(2)
        .all(|pair| pair[0]["role"] != pair[1]["role"]);
    (!alternate).then(|| "Roles must alternate.".to_owned())
}

fn bad_content(message: &Value) -> Option<String> {
    let content = blocks(message);
    let is_blank = |block: &Value| {
        block["text"]
            .as_str()
            .is_some_and(|text| text.trim().is_empty())
    };
    let results = content
        .iter()
        .filter_map(|block| block["toolResult"]["content"].as_array());
    if content.is_empty() || content.iter().chain(results.flatten()).any(is_blank) {
        return Some("The text field in the ContentBlock object is blank.".to_owned());
    }
    if content.last().is_some_and(is_reasoning) {
        return Some("The final block in an assistant message cannot be `thinking`.".to_owned());
    }
    let follows_document = |pair: &[Value]| is(&pair[0], "document") && is(&pair[1], "cachePoint");
    if content.windows(2).any(follows_document) {
        return Some("A cache point cannot follow a document.".to_owned());
    }
    let has_document = content.iter().any(|block| is(block, "document"));
    let has_text = content.iter().any(|block| is(block, "text"));
    (has_document && !has_text).then(|| "A document needs a text block.".to_owned())
}

fn bad_documents(messages: &[Value]) -> Option<String> {
    let all = messages
        .iter()
        .flat_map(blocks)
        .filter(|block| is(block, "document"));
    let names: Vec<&str> = all
        .map(|block| block["document"]["name"].as_str().unwrap_or(""))
        .collect();
    let is_valid = |name: &&str| {
        let is_accepted =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '(' | ')' | '[' | ']');
        !name.is_empty() && name.chars().all(is_accepted)
    };
    if let Some(name) = names.iter().find(|name| !is_valid(name)) {
        return Some(format!("The document name {name:?} is not valid."));
    }
    let unique: BTreeSet<_> = names.iter().collect();
    (unique.len() < names.len())
        .then(|| "The request contains duplicate document names.".to_owned())
}

fn bad_calls(body: &Value, messages: &[Value]) -> Option<String> {
    let ids = |message: &Value, kind: &str| -> BTreeSet<String> {
        let own = blocks(message).iter().filter(|block| is(block, kind));
        own.map(|block| block[kind]["toolUseId"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let mut open = BTreeSet::new();
    for message in messages {
        let results = ids(message, "toolResult");
        if results != open {
            return Some(format!(
                "Expected toolResult blocks for {open:?}, found {results:?}"
            ));
        }
        open = ids(message, "toolUse");
        let is_plain = |id: &String| {
            !id.is_empty()
                && id
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        if let Some(bad) = open.iter().find(|id| !is_plain(id)) {
            return Some(format!("{bad} does not match the pattern [a-zA-Z0-9_-]+"));
        }
        let has_calls = !open.is_empty() || !results.is_empty();
        if has_calls && body.get("toolConfig").is_none() {
            return Some("The toolConfig field must be defined when using toolUse.".to_owned());
        }
    }
    (!open.is_empty()).then(|| format!("toolUse {open:?} without toolResult"))
}

fn bad_reasoning(body: &Value, messages: &[Value]) -> Option<String> {
    let ends_turn = |message: &Value| {
        message["role"] == "user" && !blocks(message).iter().any(|block| is(block, "toolResult"))
    };
    let begin = messages.iter().rposition(ends_turn).map_or(0, |at| at + 1);
    let mut turn = messages[begin..]
        .iter()
        .filter(|message| message["role"] == "assistant");
    let thinking = &body["additionalModelRequestFields"]["thinking"]["type"];
    if thinking == "enabled" {
        let first = turn.next().and_then(|message| blocks(message).first())?;
        return (!is_reasoning(first)).then(|| "Expected `thinking`".to_owned());
    }
    let has_reasoning = turn.flat_map(blocks).any(is_reasoning);
    has_reasoning.then(|| "When thinking is disabled, the last turn cannot contain it".to_owned())
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn is(block: &Value, kind: &str) -> bool {
    block.get(kind).is_some()
}

fn is_reasoning(block: &Value) -> bool {
    is(block, "reasoningContent")
}
