//! Gemini's thought signatures.

use serde_json::{Value, json};

use super::server::{Family, IssuedCall};
use crate::common::events;
use crate::mock::MockResponse;

pub(super) const FAMILIES: &[Family] = &[Family {
    name: "gemini",
    provider: "google",
    model: "gemini-3-pro-preview",
    options: "{}",
    path: "/v1beta",
    owner: "google",
    marker: "THOUGHT",
    error_message: "Function call is missing a thought_signature in functionCall parts",
    // Google signs only the first call of a step.
    data: |_, step, at| match at {
        0 => format!("THOUGHT+{step}==").into(),
        _ => Value::Null,
    },
    answer,
    end: |text| MockResponse::events(events(&[candidate(json!([{"text": text}]), Some("STOP"))])),
    sent,
    accepts: |data| data.is_null() || data == "skip_thought_signature_validator",
    fault: unsigned_calls,
}];

fn calls_in(message: &Value) -> Vec<&Value> {
    let parts = message["parts"].as_array().into_iter().flatten();
    parts
        .filter(|part| part["functionCall"].is_object())
        .collect()
}

fn sent(body: &Value) -> Vec<(String, Value)> {
    let messages = body["contents"].as_array().into_iter().flatten();
    let calls = messages.flat_map(calls_in).map(|part| {
        let id = part["functionCall"]["id"].as_str().unwrap_or_default();
        (id.to_owned(), part["thoughtSignature"].clone())
    });
    calls.collect()
}

/// The first call of each message needs a signature, including calls of other models.
fn unsigned_calls(body: &Value) -> Option<String> {
    let messages = body["contents"].as_array().into_iter().flatten();
    let mut first_calls = messages.filter_map(|message| calls_in(message).first().copied());
    let unsigned = first_calls.find(|part| part["thoughtSignature"].is_null())?;
    Some(format!("no signature: {unsigned}"))
}

fn answer(calls: &[IssuedCall]) -> MockResponse {
    let thought = json!([{"text": "I have a THOUGHT.", "thought": true}]);
    let mut all = vec![
        candidate(thought, None),
        candidate(json!([{"text": "I look."}]), None),
    ];
    for call in calls {
        let function = json!({"id": call.id, "name": "weather__now", "args": {"city": "Ulm"}});
        let mut part = json!({ "functionCall": function });
        if !call.data.is_null() {
            part["thoughtSignature"] = call.data.clone();
        }
        all.push(candidate(json!([part]), None));
    }
    all.push(candidate(json!([{"text": ""}]), Some("STOP")));
    MockResponse::events(events(&all))
}

fn candidate(parts: Value, reason: Option<&str>) -> Value {
    let mut chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10},
    });
    if let Some(reason) = reason {
        chunk["candidates"][0]["finishReason"] = reason.into();
    }
    chunk
}
