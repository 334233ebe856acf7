//! Anthropic's signed and encrypted thinking blocks.

use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "claude4",
        model: "claude-sonnet-4-5",
        ..CLAUDE
    },
    Family {
        name: "claude5",
        model: "claude-opus-4-7",
        ..CLAUDE
    },
];

const CLAUDE: Family = Family {
    name: "",
    provider: "anthropic",
    model: "",
    options: r#"{"reasoningEffort": "medium"}"#,
    path: "/v1",
    owner: "anthropic",
    marker: "CLAUDE",
    error_message: "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    data: thinking,
    answer,
    end: |text| stream(&[text_block(text)], "end_turn"),
    sent,
    accepts: |data| data.as_array().is_none_or(Vec::is_empty),
    fault: thinking_fault,
};

/// Returns the blocks before the first call of a step. A model thinks if the request asks for it.
fn thinking(body: &Value, step: usize, at: usize) -> Value {
    if !thinks(body) || at > 0 {
        return json!([]);
    }
    json!([
        {"type": "thinking", "thinking": format!(" CLAUDE {step}: \"grüß\" 🐝\n"),
         "signature": format!("CLAUDE+{step}==")},
        {"type": "redacted_thinking", "data": format!("CLAUDE/{step}==")},
    ])
}

fn thinks(body: &Value) -> bool {
    matches!(
        body["thinking"]["type"].as_str(),
        Some("enabled" | "adaptive")
    )
}

fn sent(body: &Value) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let mut before = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("thinking" | "redacted_thinking") => before.push(block.clone()),
                Some("tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    calls.push((id, Value::Array(std::mem::take(&mut before))));
                }
                _ => {}
            }
        }
    }
    calls
}

/// With a thinking budget, a turn must begin with a thinking block. If thinking is off, a turn must
/// not contain a thinking block.
fn thinking_fault(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let is_input = |message: &Value| {
        let is_result = |block: &Value| block["type"] == "tool_result";
        message["role"] == "user" && !blocks(message).iter().any(is_result)
    };
    let start = messages.iter().rposition(is_input)? + 1;
    let turn: Vec<Value> = messages[start..]
        .iter()
        .filter(|message| message["role"] == "assistant")
        .flat_map(blocks)
        .collect();
    let is_thinking = |block: &Value| {
        matches!(
            block["type"].as_str(),
            Some("thinking" | "redacted_thinking")
        )
    };
    match body["thinking"]["type"].as_str() {
        Some("enabled") => {
            let first = turn.first().filter(|block| !is_thinking(block))?;
            Some(format!("the turn begins with {first}"))
        }
        Some("adaptive") => None,
        _ => {
            let block = turn.iter().find(|block| is_thinking(block))?;
            Some(format!("thinking is off, but the turn contains {block}"))
        }
    }
}

/// Returns a content block and its deltas.
type Block = (Value, Vec<Value>);

fn text_block(text: &str) -> Block {
    let delta = json!({"type": "text_delta", "text": text});
    (json!({"type": "text", "text": ""}), vec![delta])
}

fn answer(calls: &[IssuedCall]) -> MockResponse {
    let mut blocks: Vec<Block> = Vec::new();
    for block in calls[0].data.as_array().into_iter().flatten() {
        blocks.push(match block["type"] == "thinking" {
            true => thinking_block(block),
            false => (block.clone(), Vec::new()),
        });
    }
    blocks.push(text_block("I look."));
    for call in calls {
        let start = json!({"type": "tool_use", "id": call.id, "name": "weather__now", "input": {}});
        let pieces = ["{\"city\":", "\"Ulm\"}"];
        let delta = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
        blocks.push((start, pieces.map(delta).to_vec()));
    }
    stream(&blocks, "tool_use")
}

fn thinking_block(block: &Value) -> Block {
    let text = block["thinking"].as_str().unwrap_or_default();
    let letters = text.chars().map(String::from);
    let mut deltas: Vec<Value> = letters
        .map(|letter| json!({"type": "thinking_delta", "thinking": letter}))
        .collect();
    deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
    let start = json!({"type": "thinking", "thinking": "", "signature": ""});
    (start, deltas)
}

fn stream(blocks: &[Block], reason: &str) -> MockResponse {
    let message = json!({"id": "m", "role": "assistant", "content": [],
        "usage": {"input_tokens": 20, "output_tokens": 1}});
    let mut all = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "ping"}),
    ];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        all.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        all.extend(deltas.iter().map(delta));
        all.push(json!({"type": "content_block_stop", "index": index}));
    }
    all.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 9}}),
    );
    all.push(json!({"type": "message_stop"}));
    let named = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    MockResponse::events(all.iter().map(named).collect::<String>())
}
