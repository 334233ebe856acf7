//! Decodes streamed answers in Gemini's format.

use goondan_core::json_text;
use goondan_core::ports::model::TokenUsage;
use serde_json::{Value, json};

use super::SIGNATURE;
use crate::answer::{AnswerBuilder, AnswerEnding, BlockKey};
use crate::errors::{ProviderError, find_error, read_error_body};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

/// Data of the last event of some proxies.
const DONE: &str = "[DONE]";

/// Suffix of finish reasons that state no reason. Some servers write them into every event.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// Decoder of one answer.
#[derive(Default)]
pub(super) struct GeminiDecoder {
    /// Key of the last block of text or reasoning.
    key: BlockKey,
    /// Kind of the block that the next part may continue.
    open: Option<TextKind>,
    call_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Answer,
    Thought,
}

impl StreamDecoder for GeminiDecoder {
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
        // A proxy that ignores `alt=sse` sends all events as one list.
        let events = match &data {
            Value::Array(events) => events.as_slice(),
            event => std::slice::from_ref(event),
        };
        for event in events {
            self.decode_response(event, answer);
        }
        // Usage may follow the finish reason, and Gemini itself does not mark its last event.
        Ok(AnswerProgress::More)
    }
}

impl GeminiDecoder {
    /// Adds an event to the answer.
    fn decode_response(&mut self, event: &Value, answer: &mut AnswerBuilder) {
        if let Some(usage) = usage(&event["usageMetadata"]) {
            answer.set_usage(usage);
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.decode_part(part, answer);
        }
        let reason = text(&candidate["finishReason"]);
        if !reason.ends_with(UNSPECIFIED)
            && let Some(ending) = ending_of(reason, text(&candidate["finishMessage"]))
        {
            answer.end(ending);
        }
        if let Some(ending) = blocked_ending(event) {
            answer.end(ending);
        }
    }

    /// Adds a part to the answer.
    fn decode_part(&mut self, part: &Value, answer: &mut AnswerBuilder) {
        let signature = part
            .get(SIGNATURE)
            .filter(|signature| signature.is_string());
        if part["functionCall"].is_object() {
            self.decode_call(&part["functionCall"], signature, answer);
        } else if let Some(text) = part["text"].as_str() {
            let kind = match part["thought"].as_bool() {
                Some(true) => TextKind::Thought,
                _ => TextKind::Answer,
            };
            self.decode_text(kind, text, signature, answer);
        } else if has_data(part) {
            self.begin_block(None);
            answer.add_opaque(self.key, part.clone());
        } else if signature.is_some() {
            self.decode_text(TextKind::Answer, "", signature, answer);
        }
    }

    /// Adds text to the open block. A part with a signature becomes a block of its own, because the
    /// signature is valid for exactly the text of its part.
    fn decode_text(
        &mut self,
        kind: TextKind,
        text: &str,
        signature: Option<&Value>,
        answer: &mut AnswerBuilder,
    ) {
        if text.is_empty() && signature.is_none() {
            return;
        }
        if signature.is_some() || self.open != Some(kind) {
            self.begin_block(Some(kind));
        }
        match (kind, signature) {
            (TextKind::Thought, _) => answer.add_reasoning(self.key, text),
            // Kept only to return the signature to Gemini. Other providers reject an empty text, so
            // it is not stored as text.
            (TextKind::Answer, Some(signature)) if text.is_empty() => {
                answer.add_opaque(self.key, json!({"text": "", SIGNATURE: signature}));
            }
            (TextKind::Answer, _) => answer.add_text(self.key, text),
        }
        if let Some(signature) = signature {
            answer.change_metadata(self.key, |metadata| {
                *metadata = json!({SIGNATURE: signature})
            });
            self.open = None;
        }
    }

    /// Adds a tool call to the answer.
    fn decode_call(&mut self, call: &Value, signature: Option<&Value>, answer: &mut AnswerBuilder) {
        self.open = None;
        let arguments = match &call["args"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let position = answer.add_call_piece(CallPiece {
            index: Some(self.call_count),
            id: call["id"].as_str(),
            name: call["name"].as_str(),
            arguments: Some(&arguments),
        });
        self.call_count += 1;
        if let (Some(position), Some(signature)) = (position, signature) {
            answer.change_call_metadata(position, |metadata| {
                *metadata = json!({SIGNATURE: signature})
            });
        }
    }

    /// Begins a block with a new key. Later text of the same `kind` joins the block; with `None`,
    /// no text joins it.
    fn begin_block(&mut self, kind: Option<TextKind>) {
        self.key += 1;
        self.open = kind;
    }
}

/// Returns true if a part contains more than marks, such as generated code or an image.
fn has_data(part: &Value) -> bool {
    let fields = part.as_object().into_iter().flatten();
    fields.into_iter().any(|(key, value)| {
        !matches!(
            key.as_str(),
            SIGNATURE | "thought" | "text" | "functionCall"
        ) && !value.is_null()
    })
}

/// Returns the ending of an answer to a prompt that Google refuses.
fn blocked_ending(event: &Value) -> Option<AnswerEnding> {
    let feedback = &event["promptFeedback"];
    let reason = feedback["blockReason"]
        .as_str()
        .filter(|reason| !reason.is_empty())?;
    let has_answer = event["candidates"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if reason.ends_with(UNSPECIFIED) && has_answer {
        return None;
    }
    Some(AnswerEnding::Declined {
        reason: reason.to_owned(),
        explanation: text(&feedback["blockReasonMessage"]).to_owned(),
    })
}

/// Returns the token counts. Google counts thoughts and the results of its own tools separately.
fn usage(usage: &Value) -> Option<TokenUsage> {
    let count = |key: &str| usage[key].as_u64();
    let sum = |first: &str, second: &str| match (count(first), count(second)) {
        (None, None) => None,
        (first, second) => Some(first.unwrap_or(0).saturating_add(second.unwrap_or(0))),
    };
    let prompt = sum("promptTokenCount", "toolUsePromptTokenCount");
    let completion = sum("candidatesTokenCount", "thoughtsTokenCount");
    let total = count("totalTokenCount");
    prompt.or(completion).or(total)?;
    let (prompt_tokens, completion_tokens) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: total.unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        cached_tokens: count("cachedContentTokenCount").unwrap_or(0),
        cache_write_tokens: 0,
    })
}

/// Returns the string of a JSON value; an empty string for any other type.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
