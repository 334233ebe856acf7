//! Providers of the chat format that require reasoning or signatures.

use serde_json::{Value, json};

use super::server::{Family, Given};
use crate::common::events;
use crate::mock::Canned;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "deepseek",
        provider: "deepseek",
        model: "deepseek-v4",
        owner: "deepseek",
        mark: "WHALE",
        refusal: "The reasoning_content in the thinking mode must be passed back to the API",
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
        mark: "ROUTE",
        refusal: "Provider returned error",
        data: |_, step, _| {
            let text = thought("ROUTE", step);
            json!([
                {"type": "reasoning.text", "text": text, "format": "google-gemini-v1", "index": 0},
                {"type": "reasoning.encrypted", "data": format!("ROUTE+{step}=="),
                 "id": format!("openrouter-{step}-0"), "format": "google-gemini-v1", "index": 1},
            ])
        },
        answer: details,
        sent: |body| of_messages(body, |message| message["reasoning_details"].clone()),
        accepts: Value::is_null,
        ..REASONING_CONTENT
    },
    Family {
        name: "vllm",
        provider: "vllm",
        model: "qwen3",
        owner: "vllm",
        mark: "LOCAL",
        refusal: "reasoning is missing",
        data: |_, step, _| thought("LOCAL", step),
        answer: |calls| answer(calls, "reasoning"),
        sent: |body| of_messages(body, |message| message["reasoning"].clone()),
        accepts: Value::is_null,
        ..REASONING_CONTENT
    },
    // Google's OpenAI-compatible address.
    Family {
        name: "compat",
        provider: "openai-compatible",
        model: "gemini-3-flash-preview",
        path: "/v1beta/openai",
        owner: "openai-compatible",
        mark: "SIGNED",
        refusal: "Function call is missing a thought_signature in functionCall parts",
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
    mark: "MOON",
    refusal: "thinking is enabled but reasoning_content is missing in assistant tool call message",
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
    mark: "",
    refusal: "",
    data: |_, _, _| Value::Null,
    answer: |calls| answer(calls, "reasoning_content"),
    end,
    sent: |body| of_messages(body, |message| message["reasoning_content"].clone()),
    accepts: |data| data.as_str().is_some_and(|text| !text.is_empty()),
    fault: |_| None,
};

/// Returns reasoning with characters that are easily damaged.
fn thought(mark: &str, step: usize) -> Value {
    format!(" {mark} {step}: \"grüß\" \\ 🐝\n\n").into()
}

fn id_of(call: &Value) -> String {
    call["id"].as_str().unwrap_or_default().to_owned()
}

/// Returns the calls of all messages. `data_of` finds the data of a message.
fn of_messages(body: &Value, data_of: fn(&Value) -> Value) -> Vec<(String, Value)> {
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

fn stream(deltas: Vec<Value>, reason: &str) -> Canned {
    let mut all: Vec<Value> = deltas.into_iter().map(delta).collect();
    all.push(finish(reason));
    Canned::events(events(&all) + "data: [DONE]\n\n")
}

fn call(index: usize, given: &Given) -> Value {
    json!({"index": index, "id": given.id, "type": "function",
        "function": {"name": "weather__now", "arguments": "{\"city\":\"Ulm\"}"}})
}

/// Returns an answer whose reasoning arrives one character a time in `field`.
fn answer(calls: &[Given], field: &str) -> Canned {
    let reasoning = calls[0].data.as_str().unwrap_or_default();
    let mut deltas: Vec<Value> = reasoning
        .chars()
        .map(|c| json!({ field: c.to_string() }))
        .collect();
    deltas.push(json!({"content": "I look."}));
    deltas.extend(with_index(calls, call));
    stream(deltas, "tool_calls")
}

/// Returns an answer whose readable detail arrives in two pieces, before the encrypted one.
fn details(calls: &[Given]) -> Canned {
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

fn signed_calls(calls: &[Given]) -> Canned {
    let signed = |index, given: &Given| {
        let mut call = call(index, given);
        if !given.data.is_null() {
            call["extra_content"] = given.data.clone();
        }
        call
    };
    stream(with_index(calls, signed), "tool_calls")
}

fn with_index(calls: &[Given], make: impl Fn(usize, &Given) -> Value) -> Vec<Value> {
    let deltas = calls.iter().enumerate();
    deltas
        .map(|(index, given)| json!({"tool_calls": [make(index, given)]}))
        .collect()
}

fn end(text: &str) -> Canned {
    stream(vec![json!({ "content": text })], "stop")
}
