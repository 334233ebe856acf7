//! Reasoning of Claude models on Bedrock.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[Family {
    name: "bedrock",
    provider: "bedrock",
    model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    options: r#"{"reasoningEffort": "low"}"#,
    path: "",
    owner: "bedrock",
    marker: "ROCK",
    error_message: "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    data: reasoning,
    answer,
    end: |text| stream(&[vec![delta(json!({ "text": text }))]], "end_turn"),
    sent,
    accepts: |data| data.as_array().is_none_or(Vec::is_empty),
    fault: |_| None,
}];

/// Returns the blocks before the first call of a step. A model thinks if the request asks for it.
fn reasoning(body: &Value, step: usize, at: usize) -> Value {
    let thinking = &body["additionalModelRequestFields"]["thinking"];
    if thinking["type"] != "enabled" || at > 0 {
        return json!([]);
    }
    json!([
        {"reasoningText": {"text": format!("ROCK {step}: \"grüß\" 🐝\n"),
         "signature": format!("ROCK+{step}==")}},
        {"redactedContent": "Uk9DSw=="},
    ])
}

fn sent(body: &Value) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let mut before = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            if let Some(reasoning) = block.get("reasoningContent") {
                before.push(reasoning.clone());
            } else if let Some(id) = block["toolUse"]["toolUseId"].as_str() {
                let before = std::mem::take(&mut before);
                calls.push((id.to_owned(), Value::Array(before)));
            }
        }
    }
    calls
}

/// An event without its block index.
type Event = (&'static str, Value);

fn delta(delta: Value) -> Event {
    ("contentBlockDelta", json!({ "delta": delta }))
}

fn answer(calls: &[IssuedCall]) -> MockResponse {
    let mut blocks: Vec<Vec<Event>> = Vec::new();
    for block in calls[0].data.as_array().into_iter().flatten() {
        let text = &block["reasoningText"];
        let parts = match text.is_object() {
            true => vec![
                json!({"text": text["text"]}),
                json!({"signature": text["signature"]}),
            ],
            false => vec![block.clone()],
        };
        let deltas = parts.into_iter();
        blocks.push(
            deltas
                .map(|part| delta(json!({ "reasoningContent": part })))
                .collect(),
        );
    }
    blocks.push(vec![delta(json!({"text": "I look."}))]);
    for call in calls {
        let start = json!({"toolUse": {"toolUseId": call.id, "name": "weather__now"}});
        let input = json!({"toolUse": {"input": "{\"city\":\"Ulm\"}"}});
        blocks.push(vec![
            ("contentBlockStart", json!({ "start": start })),
            delta(input),
        ]);
    }
    stream(&blocks, "tool_use")
}

fn stream(blocks: &[Vec<Event>], reason: &str) -> MockResponse {
    let mut body = Vec::new();
    write_event("messageStart", &json!({"role": "assistant"}), &mut body);
    for (index, events) in blocks.iter().enumerate() {
        let end = [("contentBlockStop", json!({}))];
        for (name, data) in events.iter().chain(&end) {
            let mut data = data.clone();
            data["contentBlockIndex"] = index.into();
            write_event(name, &data, &mut body);
        }
    }
    write_event("messageStop", &json!({ "stopReason": reason }), &mut body);
    let usage = json!({"inputTokens": 3, "outputTokens": 2, "totalTokens": 5});
    write_event("metadata", &json!({ "usage": usage }), &mut body);
    MockResponse::new("200 OK", "application/vnd.amazon.eventstream", body)
}

fn write_event(name: &'static str, data: &Value, body: &mut Vec<u8>) {
    let header = |key: &'static str, value: &'static str| {
        Header::new(key, HeaderValue::String(value.to_owned().into()))
    };
    let message = Message::new(data.to_string().into_bytes())
        .add_header(header(":message-type", "event"))
        .add_header(header(":event-type", name));
    write_message_to(&message, body).expect("a message in memory");
}
