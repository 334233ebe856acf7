//! Decodes streamed answers of Amazon's Converse API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goondan_core::json_text;
use goondan_core::ports::model::TokenUsage;
use serde_json::{Value, json};

use crate::answer::{AnswerBuilder, BlockKey};
use crate::errors::{ProviderError, ReportedError, find_error, read_error_body, status_of_code};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

/// Keys of opaque data.
pub(super) const PUBLISHER: &str = "publisher";
pub(super) const SIGNATURE: &str = "signature";
pub(super) const REDACTED: &str = "redactedContent";
pub(super) const BLOCK: &str = "block";

/// End of the names of events that report an error.
const EXCEPTION: &str = "exception";

/// Decoder of one answer.
pub(crate) struct ConverseDecoder {
    publisher: String,
    /// A block of a tool that runs at Amazon, and the JSON text of its input.
    server_block: Option<(BlockKey, Value, String)>,
    last_text: BlockKey,
}

impl ConverseDecoder {
    pub(crate) fn new(publisher: &str) -> Self {
        ConverseDecoder {
            publisher: publisher.to_owned(),
            server_block: None,
            last_text: 0,
        }
    }

    /// Decodes an event. Returns `Done` at the event with the token usage, which is the last one.
    fn event(&mut self, name: &str, data: &Value, answer: &mut AnswerBuilder) -> AnswerProgress {
        let key = data["contentBlockIndex"].as_u64().unwrap_or(0);
        match name {
            "contentBlockStart" => self.begin(key, &data["start"], answer),
            "contentBlockDelta" => self.add_delta(key, &data["delta"], answer),
            "contentBlockStop" => self.end_server_block(answer),
            "messageStop" => self.stop(data, answer),
            "metadata" => {
                answer.set_usage(token_usage(&data["usage"]));
                return AnswerProgress::Done;
            }
            _ => {}
        }
        AnswerProgress::More
    }

    /// Begins a content block: a tool call, or a block of the server such as a search.
    fn begin(&mut self, key: BlockKey, start: &Value, answer: &mut AnswerBuilder) {
        let call = &start["toolUse"];
        if call.is_object() && call["type"] != "server_tool_use" {
            answer.add_call_piece(CallPiece {
                index: Some(key),
                id: call["toolUseId"].as_str(),
                name: call["name"].as_str(),
                arguments: None,
            });
        } else if start
            .as_object()
            .is_some_and(|start| start.values().any(Value::is_object))
        {
            self.end_server_block(answer);
            self.server_block = Some((key, start.clone(), String::new()));
        }
    }

    /// Adds a piece of text, arguments or reasoning to its block.
    fn add_delta(&mut self, key: BlockKey, delta: &Value, answer: &mut AnswerBuilder) {
        if let Some((server_key, block, input)) = &mut self.server_block
            && *server_key == key
        {
            extend_server_block(block, input, delta);
            return;
        }
        if let Some(text) = delta["text"].as_str() {
            self.last_text = key;
            answer.add_text(key, text);
        }
        if let Some(arguments) = delta.pointer("/toolUse/input").and_then(Value::as_str) {
            answer.add_call_piece(CallPiece {
                index: Some(key),
                arguments: Some(arguments),
                ..CallPiece::default()
            });
        }
        if delta["reasoningContent"].is_object() {
            self.add_reasoning(key, &delta["reasoningContent"], answer);
        }
    }

    /// Adds a piece of reasoning, and joins the pieces of its signature.
    fn add_reasoning(&self, key: BlockKey, delta: &Value, answer: &mut AnswerBuilder) {
        answer.add_reasoning(key, delta["text"].as_str().unwrap_or_default());
        for field in [SIGNATURE, REDACTED] {
            let Some(piece) = delta[field].as_str().filter(|piece| !piece.is_empty()) else {
                continue;
            };
            answer.change_metadata(key, |metadata| {
                let known_text = metadata[field].as_str().unwrap_or_default();
                let joined = match field {
                    REDACTED => joined_base64(known_text, piece),
                    _ => format!("{known_text}{piece}"),
                };
                *metadata = json!({PUBLISHER: self.publisher, field: joined});
            });
        }
    }

    fn end_server_block(&mut self, answer: &mut AnswerBuilder) {
        let Some((key, mut block, input)) = self.server_block.take() else {
            return;
        };
        let tool_use = block.get_mut("toolUse").and_then(Value::as_object_mut);
        if let (Some(tool_use), Ok(input @ Value::Object(_))) = (tool_use, json_text::parse(&input))
        {
            tool_use.insert("input".to_owned(), input);
        }
        answer.add_opaque(key, json!({PUBLISHER: self.publisher, BLOCK: block}));
    }

    /// A guardrail's words replace the answer.
    fn stop(&mut self, data: &Value, answer: &mut AnswerBuilder) {
        self.end_server_block(answer);
        let reason = data["stopReason"].as_str().unwrap_or_default();
        let explanation = answer.text_of(self.last_text).to_owned();
        let explanation = if reason == "guardrail_intervened" {
            explanation
        } else {
            String::new()
        };
        if let Some(ending) = ending_of(reason, &explanation) {
            answer.end(ending);
        }
    }
}

impl StreamDecoder for ConverseDecoder {
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        let name = event.name.unwrap_or_default();
        let parsed = json_text::parse(event.data);
        if name.to_ascii_lowercase().ends_with(EXCEPTION) {
            return Err(ProviderError::Reported(exception_error(
                name,
                parsed.ok(),
                event.data,
            )));
        }
        let data: Value = parsed?;
        if let Some(error) = find_error(&data) {
            return Err(ProviderError::Reported(error));
        }
        Ok(self.event(name, &data, answer))
    }
}

/// Returns the error of an exception event, whose kind is its name.
fn exception_error(name: &str, data: Option<Value>, text: &str) -> ReportedError {
    let mut error = match &data {
        Some(data) => read_error_body(data),
        None => ReportedError {
            message: text.to_owned(),
            ..ReportedError::default()
        },
    };
    let original = data
        .as_ref()
        .and_then(|data| data["originalMessage"].as_str());
    if let Some(original) = original.filter(|original| !error.message.contains(original)) {
        error.message = format!("{}: {original}", error.message);
    }
    error.status = status_of_code(name).or(error.status);
    error.code = Some(name.to_owned());
    error
}

/// Adds the pieces of a block whose parts are lists and texts, such as the result of a server-side
/// tool.
fn extend_server_block(block: &mut Value, input: &mut String, delta: &Value) {
    if let Some(piece) = delta.pointer("/toolUse/input").and_then(Value::as_str) {
        input.push_str(piece);
        return;
    }
    let result = block
        .pointer_mut("/toolResult")
        .and_then(Value::as_object_mut);
    if let (Some(result), Some(Value::Array(pieces))) = (result, delta.get("toolResult")) {
        let content = result.entry("content").or_insert_with(|| json!([]));
        if let Some(content) = content.as_array_mut() {
            content.extend(pieces.iter().cloned());
        }
    }
}

/// Joins two separately encoded pieces of data.
fn joined_base64(first: &str, second: &str) -> String {
    match (STANDARD.decode(first), STANDARD.decode(second)) {
        (Ok(first), Ok(second)) => STANDARD.encode([first, second].concat()),
        _ => format!("{first}{second}"),
    }
}

/// Returns the token counts. The input tokens of this API do not include cached ones.
fn token_usage(usage: &Value) -> TokenUsage {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let (cached_tokens, cache_write_tokens) = (
        count("cacheReadInputTokens"),
        count("cacheWriteInputTokens"),
    );
    let prompt_tokens = count("inputTokens")
        .saturating_add(cached_tokens)
        .saturating_add(cache_write_tokens);
    let completion_tokens = count("outputTokens");
    TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        cached_tokens,
        cache_write_tokens,
    }
}
