//! One line of a cassette.

use goondan_core::ids::hex;
use goondan_core::message::{Message, Part, Role, ToolCall};
use goondan_core::ports::model::{ModelChunk, ModelError, ModelRequest, TokenUsage};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use goondan_spec::kinds::ModelParams;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Who asked.
    pub agent: String,
    /// Changes with anything in the request that matters, descriptions and schemas of tools included.
    pub digest: String,
    /// The request, for people and for telling what differs.
    pub request: Asked,
    /// The answer, piece by piece.
    pub answer: Vec<Recorded>,
}

/// What matters of a request: no message ids, no times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asked {
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
    /// Who speaks.
    pub role: Role,
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
    /// The call that it answers.
    pub tool_call_id: String,
    /// How it ended.
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
pub enum Recorded {
    /// Text.
    Text(String),
    /// A whole call.
    Call(ToolCall),
    /// The answer was complete.
    Finish(Option<TokenUsage>),
    /// The call failed, or the answer broke off.
    Error(ModelError),
}

impl Asked {
    /// What matters of `request`.
    pub fn of(request: &ModelRequest) -> Self {
        let params = &request.params;
        Asked {
            system: request.system.clone(),
            messages: request
                .messages
                .iter()
                .map(|message| AskedMessage::of(message))
                .collect(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            params: recorded_params(params),
        }
    }
}

/// The params in the layout of existing cassettes: three fields that are always there, and the others apart.
fn recorded_params(params: &ModelParams) -> Value {
    let mut other = params.to_json();
    let mut taken = |name: &str| other.shift_remove(name).unwrap_or_default();
    let (temperature, max_tokens, top_p) =
        (taken("temperature"), taken("maxTokens"), taken("topP"));
    json!({"temperature": temperature, "maxTokens": max_tokens, "topP": top_p, "other": other})
}

impl AskedMessage {
    fn of(message: &Message) -> Self {
        let results = message.tool_results().map(|result| AskedResult {
            tool_call_id: result.tool_call_id.clone(),
            status: result.status,
            output: result.output.clone(),
            error: result.error.clone(),
        });
        let files = message.data.content.iter().filter_map(|part| match part {
            Part::File(file) => {
                let name = file.name.as_deref().unwrap_or("-");
                Some(format!(
                    "{} {name} {}",
                    file.media_type,
                    digest_of(&file.data)
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

impl From<ModelChunk> for Recorded {
    fn from(chunk: ModelChunk) -> Self {
        match chunk {
            ModelChunk::Text(text) => Recorded::Text(text),
            ModelChunk::ToolCall {
                id,
                name,
                arguments,
            } => Recorded::Call(ToolCall {
                tool_call_id: id,
                tool_name: name,
                input: arguments,
            }),
            ModelChunk::Finish { usage } => Recorded::Finish(usage),
        }
    }
}

impl From<Recorded> for Result<ModelChunk, ModelError> {
    fn from(recorded: Recorded) -> Self {
        match recorded {
            Recorded::Text(text) => Ok(ModelChunk::Text(text)),
            Recorded::Call(ToolCall {
                tool_call_id,
                tool_name,
                input,
            }) => Ok(ModelChunk::ToolCall {
                id: tool_call_id,
                name: tool_name,
                arguments: input,
            }),
            Recorded::Finish(usage) => Ok(ModelChunk::Finish { usage }),
            Recorded::Error(error) => Err(error),
        }
    }
}

/// A digest of a request with everything that matters.
pub(crate) fn digest(asked: &Asked, request: &ModelRequest) -> String {
    let whole = json!({"asked": asked, "tools": &*request.tools});
    digest_of(&canonical(&whole))
}

fn digest_of(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..8])
}

/// JSON with sorted keys.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(canonical).collect::<Vec<_>>().join(",")
        ),
        other => other.to_string(),
    }
}
