//! Decodes streamed answers of Anthropic's messages API.

use goondan_core::JsonObject;
use goondan_core::json_text;
use goondan_core::ports::model::ModelFinishReason;
use serde_json::{Map, Value};

use super::usage::UsageCounts;
use crate::answer::{AnswerBuilder, AnswerEnding, BlockKey};
use crate::errors::{ProviderError, find_error, read_error_body};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

/// Data of the last event of some servers that copy the format.
const DONE: &str = "[DONE]";

/// Key of a thinking block's signature in its metadata.
pub(super) const SIGNATURE: &str = "signature";

/// Key of encrypted thinking in its metadata.
pub(super) const REDACTED: &str = "redacted";

/// Fields of a tool call that messages keep themselves.
const CALL_FIELDS: [&str; 4] = ["type", "id", "name", "input"];

/// Decoder of one answer.
pub(crate) struct AnthropicDecoder {
    /// Thinking without a signature is kept for the next request.
    keeps_unsigned: bool,
    /// Blocks that the server has begun and not ended.
    open: Vec<OpenBlock>,
    /// Number of blocks that have begun, used as the key of the next block. The server's `index` is
    /// not unique: some servers use one index for two blocks.
    count: BlockKey,
    usage: UsageCounts,
}

/// A content block that the server has begun and not ended.
struct OpenBlock {
    index: Option<u64>,
    key: BlockKey,
    content: OpenContent,
}

enum OpenContent {
    Text,
    Thinking,
    /// A tool call, and the input at its start, which is used if no deltas with input follow.
    Call {
        input: String,
        has_deltas: bool,
    },
    /// A block that only the provider understands, and the JSON text of its input.
    Opaque {
        block: Value,
        input: String,
    },
}

impl AnthropicDecoder {
    pub(crate) fn new(keeps_unsigned: bool) -> Self {
        AnthropicDecoder {
            keeps_unsigned,
            open: Vec::new(),
            count: 0,
            usage: UsageCounts::default(),
        }
    }

    /// Decodes an event. Returns `Done` at the end of the message.
    fn event(&mut self, kind: &str, data: &Value, answer: &mut AnswerBuilder) -> AnswerProgress {
        match kind {
            "message_start" => self.message(&data["message"], answer),
            "content_block_start" => {
                self.begin(data["index"].as_u64(), &data["content_block"], answer);
            }
            "content_block_delta" => {
                self.add_delta(data["index"].as_u64(), &data["delta"], answer);
            }
            "content_block_stop" => self.end_block(data["index"].as_u64(), answer),
            "message_delta" => {
                self.count_tokens(&data["usage"], answer);
                self.stop(&data["delta"], answer);
            }
            "message_stop" => {
                self.end_blocks(answer);
                answer.end(AnswerEnding::Finished(ModelFinishReason::Stop));
                return AnswerProgress::Done;
            }
            // A server that ignores `stream` sends the whole message.
            "message" => {
                self.message(data, answer);
                return AnswerProgress::Done;
            }
            _ => {}
        }
        AnswerProgress::More
    }

    /// Decodes the start of a message, which usually has no content yet, or a whole message.
    fn message(&mut self, message: &Value, answer: &mut AnswerBuilder) {
        self.count_tokens(&message["usage"], answer);
        for block in message["content"].as_array().into_iter().flatten() {
            self.begin(None, block, answer);
            self.end_block(None, answer);
        }
        self.stop(message, answer);
    }

    /// Opens a content block. Ignores a block without a type.
    fn begin(&mut self, index: Option<u64>, block: &Value, answer: &mut AnswerBuilder) {
        if text(block, "type").is_empty() {
            return;
        }
        let key = self.count;
        self.count += 1;
        let content = match text(block, "type") {
            "text" => {
                answer.add_text(key, text(block, "text"));
                OpenContent::Text
            }
            "thinking" => {
                answer.add_reasoning(key, text(block, "thinking"));
                if self.keeps_unsigned {
                    set_metadata(answer, key, SIGNATURE, "");
                }
                set_signature(answer, key, text(block, "signature"));
                OpenContent::Thinking
            }
            "redacted_thinking" => {
                answer.add_reasoning(key, "");
                set_metadata(answer, key, REDACTED, text(block, "data"));
                OpenContent::Thinking
            }
            "tool_use" => begin_call(key, block, answer),
            _ => OpenContent::Opaque {
                block: block.clone(),
                input: String::new(),
            },
        };
        self.open.push(OpenBlock {
            index,
            key,
            content,
        });
    }

    /// Adds a piece of content to the open block with this index.
    fn add_delta(&mut self, index: Option<u64>, delta: &Value, answer: &mut AnswerBuilder) {
        let open_block = self.find(index).and_then(|at| self.open.get_mut(at));
        let Some(OpenBlock { key, content, .. }) = open_block else {
            // Some servers send text without `content_block_start`.
            if let Some(text) = delta["text"].as_str() {
                self.begin(
                    index,
                    &serde_json::json!({"type": "text", "text": text}),
                    answer,
                );
            }
            return;
        };
        match (content, text(delta, "type")) {
            (OpenContent::Text, "text_delta") => answer.add_text(*key, text(delta, "text")),
            (OpenContent::Thinking, "thinking_delta") => {
                answer.add_reasoning(*key, text(delta, "thinking"));
            }
            (OpenContent::Thinking, "signature_delta") => {
                set_signature(answer, *key, text(delta, "signature"));
            }
            (OpenContent::Call { has_deltas, .. }, "input_json_delta") => {
                let arguments = text(delta, "partial_json");
                *has_deltas |= !matches!(arguments.trim(), "" | "{}");
                answer.add_call_piece(CallPiece {
                    index: Some(*key),
                    arguments: Some(arguments),
                    ..CallPiece::default()
                });
            }
            (OpenContent::Opaque { input, .. }, "input_json_delta") => {
                input.push_str(text(delta, "partial_json"));
            }
            (OpenContent::Opaque { block, .. }, _) => extend_opaque(block, delta),
            _ => {}
        }
    }

    /// Returns the position of the open block with this index in `open`. Without an index, returns the
    /// position of the last open block.
    fn find(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().rposition(|block| block.index == index),
            None => self.open.len().checked_sub(1),
        }
    }

    /// Closes the open block with this index, or the last one if `index` is `None`.
    fn end_block(&mut self, index: Option<u64>, answer: &mut AnswerBuilder) {
        if let Some(at) = self.find(index) {
            self.open.remove(at).end(answer);
        }
    }

    /// Closes all open blocks.
    fn end_blocks(&mut self, answer: &mut AnswerBuilder) {
        self.open.drain(..).for_each(|block| block.end(answer));
    }

    /// Ends the answer if `message` contains a `stop_reason`.
    fn stop(&mut self, message: &Value, answer: &mut AnswerBuilder) {
        let details = &message["stop_details"];
        let texts = ["explanation", "category"].map(|key| text(details, key));
        let explanation = texts
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default();
        if let Some(ending) = ending_of(text(message, "stop_reason"), explanation) {
            self.end_blocks(answer);
            answer.end(ending);
        }
    }

    /// Updates the token counts.
    fn count_tokens(&mut self, usage: &Value, answer: &mut AnswerBuilder) {
        if usage.is_object() {
            self.usage.add(usage);
            answer.set_usage(self.usage.to_token_usage());
        }
    }
}

impl StreamDecoder for AnthropicDecoder {
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        if event.data == DONE {
            self.end_blocks(answer);
            return Ok(AnswerProgress::Done);
        }
        let data: Value = json_text::parse(event.data)?;
        if event.name == Some("error") {
            return Err(ProviderError::Reported(read_error_body(&data)));
        }
        if let Some(error) = find_error(&data) {
            return Err(ProviderError::Reported(error));
        }
        let kind = data["type"].as_str().or(event.name).unwrap_or_default();
        Ok(self.event(kind, &data, answer))
    }
}

impl OpenBlock {
    /// Adds the content that is complete only at the end of the block.
    fn end(self, answer: &mut AnswerBuilder) {
        match self.content {
            OpenContent::Call {
                input,
                has_deltas: false,
            } if !input.is_empty() => {
                answer.add_call_piece(CallPiece {
                    index: Some(self.key),
                    arguments: Some(&input),
                    ..CallPiece::default()
                });
            }
            OpenContent::Opaque { mut block, input } => {
                let parsed = json_text::parse(&input).ok();
                let parsed = parsed.filter(|input: &JsonObject| !input.is_empty());
                if let (Some(block), Some(input)) = (block.as_object_mut(), parsed) {
                    block.insert("input".to_owned(), input.into());
                }
                answer.add_opaque(self.key, block);
            }
            _ => {}
        }
    }
}

/// Adds a tool call to the answer, and returns the content of its open block.
fn begin_call(key: BlockKey, block: &Value, answer: &mut AnswerBuilder) -> OpenContent {
    let position = answer.add_call_piece(CallPiece {
        index: Some(key),
        id: block["id"].as_str(),
        name: block["name"].as_str(),
        arguments: None,
    });
    let own_fields = own_call_fields(block);
    if let Some(position) = position.filter(|_| !own_fields.is_empty()) {
        answer.change_call_metadata(position, |metadata| *metadata = Value::Object(own_fields));
    }
    let input = match &block["input"] {
        Value::Object(input) if input.is_empty() => String::new(),
        Value::Null => String::new(),
        Value::String(input) => input.clone(),
        input => input.to_string(),
    };
    OpenContent::Call {
        input,
        has_deltas: false,
    }
}

/// Returns the fields of a call that the provider expects back, such as the code that made it. A
/// direct call needs none.
fn own_call_fields(block: &Value) -> Map<String, Value> {
    let fields = block.as_object().into_iter().flatten();
    let is_own = |key: &str, value: &Value| {
        !CALL_FIELDS.contains(&key) && !value.is_null() && value["type"] != "direct"
    };
    fields
        .filter(|(key, value)| is_own(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Appends the texts of `delta` to the fields of a block of unknown type.
fn extend_opaque(block: &mut Value, delta: &Value) {
    let Some(block) = block.as_object_mut() else {
        return;
    };
    for (key, value) in delta
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "type")
    {
        match (block.get_mut(key), value) {
            (Some(Value::String(known)), Value::String(more)) => known.push_str(more),
            _ => {
                block.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Sets the signature of the reasoning block `key`.
fn set_signature(answer: &mut AnswerBuilder, key: BlockKey, signature: &str) {
    if !signature.is_empty() {
        set_metadata(answer, key, SIGNATURE, signature);
    }
}

/// Replaces the opaque data of the block `key` by `field` with `value`.
fn set_metadata(answer: &mut AnswerBuilder, key: BlockKey, field: &str, value: &str) {
    answer.change_metadata(key, |metadata| {
        *metadata = serde_json::json!({field: value})
    });
}

/// Returns the string in the field `key`; empty if there is none.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
