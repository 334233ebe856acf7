//! Ollama's thinking.

use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[Family {
    name: "ollama",
    provider: "ollama",
    model: "qwen3",
    options: "{}",
    path: "",
    owner: "ollama",
    marker: "LLAMA",
    error_message: "thinking is missing",
    data: |_, step, _| format!(" LLAMA {step}: \"grüß\" 🐝\n").into(),
    answer,
    end: |text| lines(&[piece(json!({ "content": text }))]),
    sent,
    accepts: Value::is_null,
    fault: |_| None,
}];

fn sent(body: &Value) -> Vec<(String, Value)> {
    let messages = body["messages"].as_array().into_iter().flatten();
    let calls = messages.flat_map(|message| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        calls.map(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            (id.to_owned(), message["thinking"].clone())
        })
    });
    calls.collect()
}

fn answer(calls: &[IssuedCall]) -> MockResponse {
    let thinking = calls[0].data.as_str().unwrap_or_default();
    let letters = thinking.chars().map(String::from);
    let mut all: Vec<Value> = letters
        .map(|letter| piece(json!({"content": "", "thinking": letter})))
        .collect();
    all.push(piece(json!({"content": "I look."})));
    all.extend(calls.iter().map(|call| {
        let function = json!({"name": "weather__now", "arguments": {"city": "Ulm"}});
        piece(json!({"content": "", "tool_calls": [{"id": call.id, "function": function}]}))
    }));
    lines(&all)
}

fn piece(mut message: Value) -> Value {
    message["role"] = "assistant".into();
    json!({"model": "qwen3", "message": message, "done": false})
}

fn lines(pieces: &[Value]) -> MockResponse {
    let end = json!({"model": "qwen3", "message": {"role": "assistant", "content": ""},
        "done": true, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 6});
    let all = pieces.iter().chain([&end]);
    let body: String = all.map(|line| format!("{line}\n")).collect();
    MockResponse::new("200 OK", "application/x-ndjson", body)
}
