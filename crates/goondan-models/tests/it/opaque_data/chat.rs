//! Providers of the chat format that require reasoning or signatures.

use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::common::events;
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "deepseek",
        provider: "deepseek",
        model: "deepseek-v4",
        owner: "deepseek",
        marker: "WHALE",
        error_message: "The reasoning_content in the thinking mode must be passed back to the API",
        data: |_, step, _| thought("WHALE", step),
        ..REASONING_CONTENT
    },
    Family {
        name: "kimi",
        provider: "kimi",
        ..MOONSHOT
    },
    Family {
        name: "openrouter",
        provider: "openrouter",
        model: "google/gemini-3-pro-preview",
        path: "/api/v1",
        owner: "openrouter",
        marker: "ROUTE",
        error_message: "Provider returned error",
        data: |_, step, _| {
            let text = thought("ROUTE", step);
            json!([
                {"type": "reasoning.text", "text": text, "format": "google-gemini-v1", "index": 0},
                {"type": "reasoning.encrypted", "data": format!("ROUTE+{step}=="),
                 "id": format!("openrouter-{step}-0"), "format": "google-gemini-v1", "index": 1},
            ])
        },
        answer: details,
        sent: |body| calls_of_messages(body, |message| message["reasoning_details"].clone()),
        accepts: Value::is_null,
        ..REASONING_CONTENT
    },
    Family {
        name: "vllm",
        provider: "vllm",
        model: "qwen3",
        owner: "vllm",
        marker: "LOCAL",
        error_message: "reasoning is missing",
        data: |_, step, _| thought("LOCAL", step),
        answer: |calls| answer(calls, "reasoning"),
        sent: |body| calls_of_messages(body, |message| message["reasoning"].clone()),
        accepts: Value::is_null,
        ..REASONING_CONTENT
    },
    // Google's OpenAI-compatible endpoint.
    Family {
        name: "compat",
        provider: "openai-compatible",
        model: "gemini-3-flash-preview",
        path: "/v1beta/openai",
        owner: "openai-compatible",
        marker: "SIGNED",
        error_message: "Function call is missing a thought_signature in functionCall parts",
        // Google signs only the first call of a step.
        data: |_, step, at| match at {
            0 => json!({"google": {"thought_signature": format!("SIGNED+{step}==")}}),
            _ => Value::Null,
        },
        answer: signed_calls,
        sent: |body| {
            let messages = body["messages"].as_array().into_iter().flatten();
            let calls = messages.flat_map(|message| message["tool_calls"].as_array());
            calls
                .flatten()
                .map(|call| (id_of(call), call["extra_content"].clone()))
                .collect()
        },
        accepts: |data| {
            data.is_null()
                || data["google"]["thought_signature"] == "skip_thought_signature_validator"
        },
        ..REASONING_CONTENT
    },
];

pub(super) const MOONSHOT: Family = Family {
    name: "moonshot",
    provider: "moonshot",
    model: "kimi-k2-thinking",
    owner: "moonshot",
    marker: "MOON",
    error_message: "thinking is enabled but reasoning_content is missing in assistant tool call message",
    data: |_, step, _| thought("MOON", step),
    ..REASONING_CONTENT
};

/// A provider that requires `reasoning_content` in every message with calls.
const REASONING_CONTENT: Family = Family {
    name: "",
    provider: "",
    model: "",
    options: "{}",
    path: "/v1",
    owner: "",
    marker: "",
    error_message: "",
    data: |_, _, _| Value::Null,
    answer: |calls| answer(calls, "reasoning_content"),
    end,
    sent: |body| calls_of_messages(body, |message| message["reasoning_content"].clone()),
    accepts: |data| data.as_str().is_some_and(|text| !text.is_empty()),
    fault: |_| None,
};

/// Returns reasoning with characters that require escaping.
fn thought(marker: &str, step: usize) -> Value {
    format!(" {marker} {step}: \"grüß\" \\ 🐝\n\n").into()
}

fn id_of(call: &Value) -> String {
    call["id"].as_str().unwrap_or_default().to_owned()
}

/// Returns the calls of all messages, with the data that `data_of` returns for their message.
fn calls_of_messages(body: &Value, data_of: fn(&Value) -> Value) -> Vec<(String, Value)> {
    let messages = body["messages"].as_array().into_iter().flatten();
    let calls = messages.flat_map(|message| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        calls.map(|call| (id_of(call), data_of(message)))
    });
    calls.collect()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn stream(deltas: Vec<Value>, reason: &str) -> MockResponse {
    let mut all: Vec<Value> = deltas.into_iter().map(delta).collect();
    all.push(finish(reason));
    MockResponse::events(events(&all) + "data: [DONE]\n\n")
}

fn call(index: usize, issued: &IssuedCall) -> Value {
    json!({"index": index, "id": issued.id, "type": "function",
        "function": {"name": "weather__now", "arguments": "{\"city\":\"Ulm\"}"}})
}

/// Returns an answer with reasoning in `field`, one character at a time.
fn answer(calls: &[IssuedCall], field: &str) -> MockResponse {
    let reasoning = calls[0].data.as_str().unwrap_or_default();
    let mut deltas: Vec<Value> = reasoning
        .chars()
        .map(|c| json!({ field: c.to_string() }))
        .collect();
    deltas.push(json!({"content": "I look."}));
    deltas.extend(with_index(calls, call));
    stream(deltas, "tool_calls")
}

/// Returns an answer with a readable detail in two pieces, followed by an encrypted detail.
fn details(calls: &[IssuedCall]) -> MockResponse {
    let (readable, encrypted) = (&calls[0].data[0], &calls[0].data[1]);
    let text = readable["text"].as_str().unwrap_or_default();
    let (start, end) = text.split_at(4);
    let piece = |text: &str| {
        let mut detail = readable.clone();
        detail["text"] = text.into();
        json!({"reasoning": text, "reasoning_details": [detail]})
    };
    let mut deltas = vec![piece(start), piece(end)];
    deltas.extend(with_index(calls, call));
    deltas.push(json!({"reasoning_details": [encrypted]}));
    stream(deltas, "tool_calls")
}

fn signed_calls(calls: &[IssuedCall]) -> MockResponse {
    let signed = |index, issued: &IssuedCall| {
        let mut call = call(index, issued);
        if !issued.data.is_null() {
            call["extra_content"] = issued.data.clone();
        }
        call
    };
    stream(with_index(calls, signed), "tool_calls")
}

fn with_index(calls: &[IssuedCall], make: impl Fn(usize, &IssuedCall) -> Value) -> Vec<Value> {
    let deltas = calls.iter().enumerate();
    deltas
        .map(|(index, issued)| json!({"tool_calls": [make(index, issued)]}))
        .collect()
}

fn end(text: &str) -> MockResponse {
    stream(vec![json!({ "content": text })], "stop")
}
