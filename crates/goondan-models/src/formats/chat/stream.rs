//! Decodes streamed answers in OpenAI's chat completions format.

use goondan_core::json_text;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use serde_json::Value;

use crate::answer::{AnswerBuilder, AnswerEnding, BlockKey};
use crate::errors::{ProviderError, find_error, read_error_body};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

/// Data of the last event.
const DONE: &str = "[DONE]";

const REASONING: BlockKey = 0;
const TEXT: BlockKey = 1;

/// Fields that contain readable reasoning. A server uses one of them.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Decoder of one answer.
pub(crate) struct ChatDecoder {
    /// The provider does not count reasoning among the output tokens.
    reasoning_uncounted: bool,
}

impl ChatDecoder {
    pub(crate) fn new(reasoning_uncounted: bool) -> Self {
        ChatDecoder {
            reasoning_uncounted,
        }
    }

    /// Reads the token counts of an event; `None` if it has none.
    fn read_usage(&self, event: &Value) -> Option<TokenUsage> {
        let usage = [event.get("usage"), event.pointer("/x_groq/usage")]
            .into_iter()
            .flatten()
            .find(|usage| usage.is_object())?;
        let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        let prompt = count("/prompt_tokens");
        let mut completion = count("/completion_tokens");
        if self.reasoning_uncounted
            && let Some(reasoning) = count("/completion_tokens_details/reasoning_tokens")
        {
            completion = Some(completion.unwrap_or(0).saturating_add(reasoning));
        }
        let total = count("/total_tokens");
        prompt.or(completion).or(total)?;
        let (prompt_tokens, completion_tokens) = (prompt.unwrap_or(0), completion.unwrap_or(0));
        let cached = count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens"));
        let written = count("/prompt_tokens_details/cache_write_tokens")
            .or_else(|| count("/cache_creation_input_tokens"));
        Some(TokenUsage {
            prompt_tokens,
            completion_tokens,
            total_tokens: total.unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
            cached_tokens: cached.unwrap_or(0),
            cache_write_tokens: written.unwrap_or(0),
        })
    }
}

impl StreamDecoder for ChatDecoder {
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        if event.data == DONE {
            return Ok(AnswerProgress::Done);
        }
        let data: Value = json_text::parse(event.data)?;
        if event.name == Some("error") {
            return Err(ProviderError::Reported(read_error_body(&data)));
        }
        if let Some(error) = find_error(&data) {
            return Err(ProviderError::Reported(error));
        }
        let usage = self.read_usage(&data);
        if let Some(usage) = usage {
            answer.set_usage(usage);
        }
        if let Some(choice) = data.pointer("/choices/0") {
            decode_choice(choice, answer);
        } else if usage.is_some() && !answer.is_empty() {
            // Some servers send no finish reason. Their last event contains only the usage.
            answer.end(AnswerEnding::Finished(ModelFinishReason::Stop));
        }
        Ok(AnswerProgress::More)
    }
}

/// Adds a choice of an event to the answer.
fn decode_choice(choice: &Value, answer: &mut AnswerBuilder) {
    // A server that ignores `stream` sends `message` instead of `delta`.
    let delta = ["delta", "message"]
        .iter()
        .filter_map(|key| choice.get(key))
        .find(|delta| delta.is_object());
    if let Some(delta) = delta {
        decode_delta(delta, answer);
    }
    let reason = choice
        .get("finish_reason")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let native = choice
        .get("native_finish_reason")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some(ending) = ending_of(reason, native) {
        answer.end(ending);
    }
}

/// Adds the pieces in a delta to the answer.
fn decode_delta(delta: &Value, answer: &mut AnswerBuilder) {
    decode_reasoning(delta, answer);
    match delta.get("content") {
        Some(Value::String(text)) => answer.add_text(TEXT, text),
        Some(Value::Array(parts)) => parts
            .iter()
            .for_each(|part| decode_content_part(part, answer)),
        _ => {}
    }
    if let Some(refusal) = delta.get("refusal").and_then(Value::as_str) {
        answer.add_refusal(refusal);
    }
    let calls = delta.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        decode_call(call, answer);
    }
    // Google's OpenAI-compatible address puts the signature of a text here.
    if let Some(extra) = delta.get("extra_content").filter(|extra| extra.is_object()) {
        answer.change_metadata(TEXT, |metadata| {
            set_field(metadata, "extra_content", extra.clone())
        });
    }
}

/// Adds the reasoning in a delta to the answer.
fn decode_reasoning(delta: &Value, answer: &mut AnswerBuilder) {
    let details = delta
        .get("reasoning_details")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty());
    let readable = REASONING_FIELDS.iter().find_map(|field| {
        Some((
            *field,
            delta.get(field)?.as_str().filter(|text| !text.is_empty())?,
        ))
    });
    if let Some((field, text)) = readable {
        answer.add_reasoning(REASONING, text);
        answer.change_metadata(REASONING, |metadata| {
            set_default(metadata, "field", field.into())
        });
    }
    if let Some(details) = details {
        let text = if readable.is_none() {
            detail_text(details)
        } else {
            String::new()
        };
        answer.add_reasoning(REASONING, &text);
        answer.change_metadata(REASONING, |metadata| add_details(metadata, details));
    }
}

/// Returns the readable text of reasoning details.
fn detail_text(details: &[Value]) -> String {
    let text = |detail: &Value| {
        let text = detail.get("text").or_else(|| detail.get("summary"));
        text.and_then(Value::as_str).map(str::to_owned)
    };
    details.iter().filter_map(text).collect()
}

/// Appends details. Pieces of one readable detail become one, as OpenRouter expects them back.
fn add_details(metadata: &mut Value, details: &[Value]) {
    set_default(metadata, "reasoning_details", Value::Array(Vec::new()));
    let Some(list) = metadata["reasoning_details"].as_array_mut() else {
        return;
    };
    for detail in details {
        match list
            .last_mut()
            .filter(|last| continues_detail(last, detail))
        {
            Some(last) => extend_detail(last, detail),
            None => list.push(detail.clone()),
        }
    }
}

/// Returns true if `detail` continues the detail `last`.
fn continues_detail(last: &Value, detail: &Value) -> bool {
    let has_same_field = |key: &str| last.get(key) == detail.get(key);
    let is_readable = matches!(
        detail["type"].as_str(),
        Some("reasoning.text" | "reasoning.summary")
    );
    let same_id = detail["id"].is_null() || has_same_field("id");
    is_readable
        && has_same_field("type")
        && has_same_field("index")
        && same_id
        && !detail["index"].is_null()
}

/// Appends the piece `detail` to the detail `last`.
fn extend_detail(last: &mut Value, detail: &Value) {
    for (key, value) in detail.as_object().into_iter().flatten() {
        match (last.get(key).and_then(Value::as_str), value) {
            (Some(text), Value::String(more)) if key == "text" || key == "summary" => {
                last[key.as_str()] = format!("{text}{more}").into();
            }
            (_, Value::Null) => {}
            _ => last[key.as_str()] = value.clone(),
        }
    }
}

/// Mistral sends content as a list of texts and thinking blocks.
fn decode_content_part(part: &Value, answer: &mut AnswerBuilder) {
    match part["type"].as_str() {
        Some("thinking") => {
            let inner = part["thinking"].as_array().into_iter().flatten();
            let text: String = inner
                .filter_map(|part| part["text"].as_str())
                .chain(part["thinking"].as_str())
                .collect();
            answer.add_reasoning(REASONING, &text);
            answer.change_metadata(REASONING, |metadata| {
                set_default(metadata, "content", "thinking".into())
            });
        }
        _ => answer.add_text(TEXT, part["text"].as_str().unwrap_or_default()),
    }
}

/// Adds a piece of a tool call to the answer.
fn decode_call(call: &Value, answer: &mut AnswerBuilder) {
    let function = call.get("function").filter(|function| function.is_object());
    let arguments = function.and_then(|function| function.get("arguments"));
    // Some servers send the object itself instead of its text.
    let object = arguments
        .filter(|arguments| arguments.is_object())
        .map(Value::to_string);
    let position = answer.add_call_piece(CallPiece {
        index: call["index"].as_u64(),
        id: call["id"].as_str(),
        name: function.and_then(|function| function["name"].as_str()),
        arguments: arguments.and_then(Value::as_str).or(object.as_deref()),
    });
    let extra = call.get("extra_content").filter(|extra| extra.is_object());
    if let (Some(position), Some(extra)) = (position, extra) {
        answer.change_call_metadata(position, |metadata| {
            set_field(metadata, "extra_content", extra.clone())
        });
    }
}

/// Sets `key` in `metadata`, which becomes an object.
fn set_field(metadata: &mut Value, key: &str, value: Value) {
    if !metadata.is_object() {
        *metadata = Value::Object(serde_json::Map::new());
    }
    metadata[key] = value;
}

/// Sets `key` in `metadata`, unless it is present.
fn set_default(metadata: &mut Value, key: &str, value: Value) {
    if metadata.get(key).is_none() {
        set_field(metadata, key, value);
    }
}
