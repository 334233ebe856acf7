//! OpenAI's encrypted reasoning.

use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::common::events;
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[Family {
    name: "gpt",
    provider: "openai",
    model: "gpt-5",
    options: r#"{"api": "responses"}"#,
    path: "/v1",
    owner: "openai",
    marker: "CRYPT",
    error_message: "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
    data: reasoning,
    answer,
    end: |text| stream(vec![message(text)]),
    sent,
    accepts: Value::is_null,
    fault: store_fault,
}];

/// Returns the reasoning item before the first call of a step.
fn reasoning(body: &Value, step: usize, at: usize) -> Value {
    let include = body["include"].as_array();
    let is_included =
        include.is_some_and(|list| list.contains(&"reasoning.encrypted_content".into()));
    if !is_included || at > 0 {
        return Value::Null;
    }
    json!({
        "type": "reasoning",
        "id": format!("rs_CRYPT{step}"),
        "summary": [{"type": "summary_text", "text": format!("**CRYPT {step}**\n\n\"grüß\" 🐝")}],
        "encrypted_content": format!("CRYPT+{step}=="),
    })
}

/// Without a store, requests cannot refer to items of earlier answers.
fn store_fault(body: &Value) -> Option<String> {
    let items = body["input"].as_array().into_iter().flatten();
    let is_reference = |item: &&Value| item["type"] == "item_reference";
    let reference = items.into_iter().find(is_reference);
    let is_stored = body["store"] != false;
    (is_stored || reference.is_some()).then(|| format!("store: {}", body["store"]))
}

/// Returns each call with the reasoning item between the previous call and this call.
fn sent(body: &Value) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    let mut before = Value::Null;
    for item in body["input"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("reasoning") => before = item.clone(),
            Some("function_call") => {
                let id = item["call_id"].as_str().unwrap_or_default().to_owned();
                calls.push((id, before.take()));
            }
            _ => {}
        }
    }
    calls
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn answer(calls: &[IssuedCall]) -> MockResponse {
    let mut items: Vec<Value> = Vec::new();
    if let Value::Object(reasoning) = &calls[0].data {
        let mut item = reasoning.clone();
        item.insert("status".to_owned(), "completed".into());
        items.push(Value::Object(item));
    }
    items.push(message("I look."));
    items.extend(calls.iter().map(|call| {
        json!({"type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
            "status": "completed", "name": "weather__now", "arguments": "{\"city\":\"Ulm\"}"})
    }));
    stream(items)
}

fn stream(items: Vec<Value>) -> MockResponse {
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        all.push(json!({"type": "response.output_item.added", "output_index": index, "item": started_item(item)}));
        all.extend(delta(index, item));
        all.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let response = json!({"id": "r1", "object": "response", "status": "completed", "output": items,
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}});
    all.push(json!({"type": "response.completed", "response": response}));
    MockResponse::events(events(&all))
}

/// Returns the item of an `added` event, which has no content yet.
fn started_item(item: &Value) -> Value {
    let mut started = item.clone();
    started["status"] = "in_progress".into();
    match item["type"].as_str() {
        Some("reasoning") => {
            started["summary"] = json!([]);
            started["encrypted_content"] = "".into();
        }
        Some("message") => started["content"] = json!([]),
        _ => started["arguments"] = "".into(),
    }
    started
}

fn delta(index: usize, item: &Value) -> Option<Value> {
    let (kind, text) = match item["type"].as_str()? {
        "reasoning" => ("reasoning_summary_text", &item["summary"][0]["text"]),
        "message" => ("output_text", &item["content"][0]["text"]),
        _ => ("function_call_arguments", &item["arguments"]),
    };
    Some(
        json!({"type": format!("response.{kind}.delta"), "output_index": index,
        "item_id": item["id"], "summary_index": 0, "content_index": 0, "delta": text}),
    )
}
