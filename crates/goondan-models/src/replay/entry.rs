//! One line of a cassette: a recorded request and its answer.

use goondan_core::ids::hex;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelError, ModelRequest, TokenUsage,
};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use goondan_spec::kinds::ModelParams;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CassetteEntry {
    /// The calling agent.
    pub agent: String,
    /// Digest of the request, including the tools' descriptions and schemas.
    pub digest: String,
    /// The request, for readers and for messages about differences.
    pub request: RecordedRequest,
    /// The answer, piece by piece.
    pub answer: Vec<RecordedPiece>,
}

/// The compared content of a request, without message ids and times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedRequest {
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    /// The conversation.
    pub messages: Vec<AskedMessage>,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// Sampling settings.
    pub params: Value,
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskedMessage {
    /// The role of the author.
    pub role: MessageRole,
    /// All text.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub text: String,
    /// The calls.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub calls: Vec<ToolCall>,
    /// The results.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub results: Vec<AskedResult>,
    /// Media type, name and digest of the attachments.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub files: Vec<String>,
}

/// A tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskedResult {
    /// Id of the call.
    pub tool_call_id: String,
    /// The status of the call.
    pub status: ToolCallStatus,
    /// Present on `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Present on `error`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ToolCallError>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedPiece {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A whole call.
    Call(ToolCall),
    /// The end of an answer that consists of the recorded text and calls.
    Finish(Option<TokenUsage>),
    /// The end of an answer that contains more than the recorded text and calls.
    Answer(Box<CompletedAnswer>),
    /// The call failed, or the answer broke off.
    Error(ModelError),
}

impl RecordedPiece {
    /// Appends `chunk` to the recorded pieces.
    pub(crate) fn push(recorded: &mut Vec<RecordedPiece>, chunk: &ModelChunk) {
        match chunk {
            ModelChunk::Text(text) => recorded.push(RecordedPiece::Text(text.clone())),
            ModelChunk::Reasoning(text) => recorded.push(RecordedPiece::Reasoning(text.clone())),
            ModelChunk::Finish(answer) => RecordedPiece::push_end(recorded, answer),
        }
    }

    /// Appends the end of `answer`: only its usage if the recorded text and the calls are complete,
    /// else the whole answer.
    fn push_end(recorded: &mut Vec<RecordedPiece>, answer: &CompletedAnswer) {
        let before = recorded.len();
        recorded.extend(answer.parts.iter().filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(RecordedPiece::Call(call.clone())),
            _ => None,
        }));
        if RecordedPiece::assemble_answer(recorded, answer.usage) == *answer {
            return recorded.push(RecordedPiece::Finish(answer.usage));
        }
        recorded.truncate(before);
        recorded.push(RecordedPiece::Answer(Box::new(answer.clone())));
    }

    /// Returns the answer that consists of the recorded text and calls.
    fn assemble_answer(recorded: &[RecordedPiece], usage: Option<TokenUsage>) -> CompletedAnswer {
        let mut text = String::new();
        let mut calls = Vec::new();
        for piece in recorded {
            match piece {
                RecordedPiece::Text(delta) => text.push_str(delta),
                RecordedPiece::Call(call) => calls.push(MessagePart::ToolCall(call.clone())),
                _ => {}
            }
        }
        let text = (!text.is_empty()).then(|| MessagePart::text(text));
        CompletedAnswer::of_parts(text.into_iter().chain(calls).collect(), usage)
    }

    pub(crate) fn answer_chunks(recorded: &[RecordedPiece]) -> Vec<Result<ModelChunk, ModelError>> {
        let chunk = |piece: &RecordedPiece| match piece {
            RecordedPiece::Text(text) => Some(Ok(ModelChunk::Text(text.clone()))),
            RecordedPiece::Reasoning(text) => Some(Ok(ModelChunk::Reasoning(text.clone()))),
            RecordedPiece::Call(_) => None,
            RecordedPiece::Finish(usage) => Some(Ok(ModelChunk::Finish(Box::new(
                RecordedPiece::assemble_answer(recorded, *usage),
            )))),
            RecordedPiece::Answer(answer) => Some(Ok(ModelChunk::Finish(answer.clone()))),
            RecordedPiece::Error(error) => Some(Err(error.clone())),
        };
        recorded.iter().filter_map(chunk).collect()
    }
}

impl RecordedRequest {
    /// Returns the compared content of `request`.
    pub fn of(request: &ModelRequest) -> Self {
        let params = &request.params;
        RecordedRequest {
            system: request.system.clone(),
            messages: request
                .messages
                .iter()
                .map(|message| AskedMessage::from_message(message))
                .collect(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            params: recorded_params(params),
        }
    }
}

/// Returns the params in the layout of existing cassettes: three fields that are always present,
/// and the others under `other`.
fn recorded_params(params: &ModelParams) -> Value {
    let mut params_json = params.to_json();
    let mut take = |name: &str| params_json.shift_remove(name).unwrap_or_default();
    let temperature = take("temperature");
    let max_tokens = take("maxTokens");
    let top_p = take("topP");
    json!({"temperature": temperature, "maxTokens": max_tokens, "topP": top_p, "other": params_json})
}

impl AskedMessage {
    /// Returns the parts of a message by which recorded requests are compared.
    fn from_message(message: &Message) -> Self {
        let results = message.tool_results().map(|result| AskedResult {
            tool_call_id: result.tool_call_id.clone(),
            status: result.status,
            output: result.output.clone(),
            error: result.error.clone(),
        });
        let files = message.data.content.iter().filter_map(|part| match part {
            MessagePart::File(file) => {
                let name = file.name.as_deref().unwrap_or("-");
                Some(format!(
                    "{} {name} {}",
                    file.media_type,
                    short_digest(&file.data)
                ))
            }
            _ => None,
        });
        AskedMessage {
            role: message.data.role,
            text: message.text(),
            calls: message.tool_calls().cloned().collect(),
            results: results.collect(),
            files: files.collect(),
        }
    }
}

/// Returns the digest of a request, including the descriptions and schemas of its tools.
pub(crate) fn digest(asked: &RecordedRequest, request: &ModelRequest) -> String {
    let content = json!({"asked": asked, "tools": &*request.tools});
    short_digest(&canonical_json(&content))
}

/// Returns the first 8 bytes of the SHA-256 of `text` in hexadecimal.
fn short_digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..8])
}

/// Returns `value` as JSON with sorted keys.
fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| {
                    format!("{}:{}", Value::from(name.as_str()), canonical_json(value))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items
                .iter()
                .map(canonical_json)
                .collect::<Vec<_>>()
                .join(",")
        ),
        other => other.to_string(),
    }
}
