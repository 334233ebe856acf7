//! Decodes streamed answers of Ollama's chat API.

use goondan_core::json_text;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use serde_json::{Value, json};

use crate::answer::{AnswerBuilder, AnswerEnding, BlockKey};
use crate::errors::{ProviderError, find_error};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

const REASONING: BlockKey = 0;
const TEXT: BlockKey = 1;

/// Words for an answer without content, after which Ollama can answer.
const ONLY_LOADED: &str = "Ollama loaded or unloaded the model and generated nothing.";

/// Decoder of one answer.
#[derive(Default)]
pub(crate) struct OllamaDecoder {
    /// Number of calls that began.
    call_count: u64,
}

impl StreamDecoder for OllamaDecoder {
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        let line: Value = json_text::parse(event.data)?;
        if let Some(error) = find_error(&line) {
            return Err(ProviderError::Reported(error));
        }
        if let Some(message) = line.get("message") {
            self.decode_message(message, answer);
        }
        if let Some(usage) = usage(&line) {
            answer.set_usage(usage);
        }
        if line["done"].as_bool() != Some(true) {
            return Ok(AnswerProgress::More);
        }
        answer.end(answer_ending(&line, answer));
        Ok(AnswerProgress::Done)
    }
}

impl OllamaDecoder {
    /// Adds the pieces in a message to the answer.
    fn decode_message(&mut self, message: &Value, answer: &mut AnswerBuilder) {
        let thinking = message["thinking"].as_str().unwrap_or_default();
        if !thinking.is_empty() {
            answer.add_reasoning(REASONING, thinking);
            answer.change_metadata(REASONING, |metadata| {
                *metadata = json!({"field": "thinking"})
            });
        }
        answer.add_text(TEXT, message["content"].as_str().unwrap_or_default());
        let calls = message["tool_calls"].as_array();
        for call in calls.into_iter().flatten() {
            self.decode_call(call, answer);
        }
    }

    /// Decodes a call. Every entry with a name is a complete call. The entry's own index is
    /// ignored, because several calls may have an equal index.
    fn decode_call(&mut self, call: &Value, answer: &mut AnswerBuilder) {
        let function = &call["function"];
        let name = function["name"].as_str().filter(|name| !name.is_empty());
        self.call_count += u64::from(name.is_some());
        let arguments = &function["arguments"];
        // Ollama sends an object, servers that copy it send its text.
        let object = arguments.is_object().then(|| arguments.to_string());
        answer.add_call_piece(CallPiece {
            index: Some(self.call_count),
            id: call["id"].as_str(),
            name,
            arguments: arguments.as_str().or(object.as_deref()),
        });
    }
}

/// Returns the token counts of the last line; `None` if there are none.
fn usage(line: &Value) -> Option<TokenUsage> {
    let count = |key: &str| line[key].as_u64();
    // Ollama leaves out counts that are 0.
    let (prompt, completion) = (count("prompt_eval_count"), count("eval_count"));
    prompt.or(completion)?;
    let (prompt_tokens, completion_tokens) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        cached_tokens: count("prompt_eval_cached_count").unwrap_or(0),
        cache_write_tokens: 0,
    })
}

/// Returns the ending that `done_reason` names. Older servers name none.
fn answer_ending(line: &Value, answer: &AnswerBuilder) -> AnswerEnding {
    let reason = line["done_reason"].as_str().unwrap_or_default();
    let finished = AnswerEnding::Finished(ModelFinishReason::Stop);
    match is_load(reason) {
        true if !answer.is_empty() => finished,
        true => ending_of(reason, ONLY_LOADED).unwrap_or(finished),
        false => ending_of(reason, "").unwrap_or(finished),
    }
}

/// Returns true if `reason` means that the server only loaded or unloaded the model.
fn is_load(reason: &str) -> bool {
    matches!(reason, "load" | "unload")
}
