mod answers;
mod requests;

use goondan_core::ports::model::CompletedAnswer;
use serde_json::{Value, json};

use super::OllamaFormat;
use crate::errors::ProviderError;
use crate::formats::ModelTarget;
use crate::provider::provider;
use crate::testing::decode_stream;

fn format_for(model: &str) -> OllamaFormat {
    OllamaFormat::new(ModelTarget {
        provider: provider("ollama").expect("a provider"),
        model: model.to_owned(),
        prompt_caching: true,
    })
}

fn body(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn decoded(lines: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&format_for("qwen3"), "ollama", body(lines).as_bytes())
}

fn piece(message: Value) -> Value {
    json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})
}

fn end(reason: &str) -> Value {
    json!({"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "total_duration": 5, "prompt_eval_count": 9, "prompt_eval_cached_count": 3, "eval_count": 4})
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"function": {"name": name, "arguments": arguments}})
}

/// A whole answer: reasoning, text, a call as an object and one as text, usage.
fn whole_answer() -> Vec<Value> {
    vec![
        piece(json!({"role": "assistant", "content": "", "thinking": "I "})),
        piece(json!({"role": "assistant", "content": "", "thinking": "look."})),
        piece(json!({"role": "assistant", "content": "Grüße 🐝"})),
        piece(json!({"content": "", "tool_calls": [call("t__x", json!({"n": 1}))]})),
        piece(json!({"content": ".", "tool_calls": [
            {"id": "call_x", "function": {"index": 0, "name": "t__y", "arguments": "{\"m\": 2}"}}]})),
        end("stop"),
    ]
}
