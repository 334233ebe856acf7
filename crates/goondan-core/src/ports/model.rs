//! What a model is to the engine: a stream of chunks for a request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use goondan_spec::diagnostic::Position;
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::caller::Caller;
use crate::history::History;
use crate::ids::InstanceId;
use crate::message::Part;

/// Talks to one model.
#[async_trait]
pub trait ModelClient: Send + Sync {
    /// Asks once; retries are the engine's work. Dropping the stream abandons the call.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;

    /// Whether the provider is asked to answer as [`ModelRequest::output`] says. Where it is not, the model has to be told.
    fn is_schema_sent(&self) -> bool {
        false
    }

    /// A vector for each text, in order. A model without embeddings says so.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let _ = texts;
        Err(ModelError::new(
            ModelErrorKind::Configuration,
            "this model can't make embeddings",
        ))
    }
}

/// Makes clients from Model resources.
pub trait ModelFactory: Send + Sync {
    /// A client for `model`. It must not connect to anything yet. Paths in `options` are relative to `bundle_root`.
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &std::path::Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError>;
}

/// An answer as it arrives.
pub type ModelStream = BoxStream<'static, Result<ModelChunk, ModelError>>;

/// One question to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Who asks.
    pub instance: InstanceId,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation so far. Shared with the turn, so that a step does not cost what the conversation has grown to.
    pub messages: History,
    /// What it may call.
    pub tools: Arc<[ToolDefinition]>,
    /// Sampling settings.
    pub params: Arc<ModelParams>,
    /// The JSON Schema that a text answer shall fit. Clients that can't send one ignore it.
    pub output: Option<Arc<Value>>,
    /// As whom the provider sees who asks; `None` where it is told nothing.
    pub caller: Option<Caller>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// `resource__export`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
}

/// Characters of a schema that make a token, roughly.
const PER_TOKEN: usize = 4;

impl ToolDefinition {
    /// The name of the Tool that it belongs to.
    pub fn resource(&self) -> &str {
        self.name.split("__").next().unwrap_or_default()
    }

    /// What it takes up of every request that offers it, in tokens, roughly.
    pub fn tokens(&self) -> usize {
        (self.name.len() + self.description.len() + self.parameters.to_string().len()) / PER_TOKEN
    }
}

/// A piece of an answer. `Finish` comes last; a stream that ends without it broke off.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChunk {
    /// More text of the answer, as it arrives.
    Text(String),
    /// More readable reasoning, as it arrives.
    Reasoning(String),
    /// The complete answer, including all text and reasoning that was streamed.
    Finish(Box<CompletedAnswer>),
}

/// A complete answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletedAnswer {
    /// Reasoning, text and tool calls in the order in which the provider sent them. Arguments that are not valid JSON
    /// are a JSON string.
    pub parts: Vec<Part>,
    /// The reason why the answer ended.
    #[serde(default)]
    pub finish_reason: ModelFinishReason,
    /// Token counts, if the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<TokenUsage>,
}

/// The reason why a model ended its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum ModelFinishReason {
    /// The model was done.
    #[default]
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The answer reached the limit of output tokens.
    Length,
    /// The conversation and the answer together reached the context window.
    ContextWindow,
    /// The provider paused a long answer; the next model call continues it.
    Pause,
    /// A reason that only the provider's documentation explains.
    Other(String),
}

impl ModelFinishReason {
    /// Returns whether the answer is incomplete, so that its tool calls must not run.
    pub fn is_cut(&self) -> bool {
        matches!(
            self,
            ModelFinishReason::Length | ModelFinishReason::ContextWindow | ModelFinishReason::Pause
        )
    }

    /// Returns the reason as events and results name it.
    pub fn as_str(&self) -> &str {
        match self {
            ModelFinishReason::Stop => "stop",
            ModelFinishReason::ToolCalls => "toolCalls",
            ModelFinishReason::Length => "length",
            ModelFinishReason::ContextWindow => "contextWindow",
            ModelFinishReason::Pause => "pause",
            ModelFinishReason::Other(reason) => reason,
        }
    }
}

impl From<ModelFinishReason> for String {
    fn from(reason: ModelFinishReason) -> Self {
        reason.as_str().to_owned()
    }
}

impl From<String> for ModelFinishReason {
    fn from(reason: String) -> Self {
        use ModelFinishReason as Reason;
        let named = [
            Reason::Stop,
            Reason::ToolCalls,
            Reason::Length,
            Reason::ContextWindow,
            Reason::Pause,
        ];
        named
            .into_iter()
            .find(|named| named.as_str() == reason)
            .unwrap_or(Reason::Other(reason))
    }
}

impl CompletedAnswer {
    /// Returns an answer of `parts` that ended with tool calls if it contains any, and normally otherwise.
    pub fn of_parts(parts: Vec<Part>, usage: Option<TokenUsage>) -> Self {
        let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish_reason = if has_calls {
            ModelFinishReason::ToolCalls
        } else {
            ModelFinishReason::Stop
        };
        CompletedAnswer {
            parts,
            finish_reason,
            usage,
        }
    }
}

impl ModelChunk {
    /// Returns the end of an answer that consists of `parts`.
    pub fn finish(parts: Vec<Part>, usage: Option<TokenUsage>) -> Self {
        ModelChunk::Finish(Box::new(CompletedAnswer::of_parts(parts, usage)))
    }
}

/// Token counts of a step or turn (rule M7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub prompt_tokens: u64,
    /// Output tokens, including reasoning.
    pub completion_tokens: u64,
    /// Input and output tokens.
    pub total_tokens: u64,
    /// Input tokens that the provider read from its cache.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub cached_tokens: u64,
    /// Input tokens that the provider wrote to its cache.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub cache_write_tokens: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.total_tokens += other.total_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
    }
}

/// Why a model call failed. The message never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ModelErrorKind,
    /// For people: the provider's status and words.
    pub message: String,
    /// What to do about it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// How long the provider wants us to wait.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<Duration>,
    /// What of the Model resource is at fault, where that is known.
    #[serde(skip)]
    pub place: Option<Box<ModelErrorPlace>>,
}

/// What of a Model resource is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelErrorPlace {
    /// The field.
    pub field: &'static str,
    /// The place in a file that the field names: the file, the line and the column.
    pub file: Option<(String, usize, usize)>,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModelErrorKind {
    /// The provider answered with that HTTP status.
    Status(u16),
    /// Nobody answers, or the connection or the stream broke.
    Connection,
    /// The server refuses connections or is still loading its model.
    Starting,
    /// The answer makes no sense (HTML instead of JSON, say).
    Protocol,
    /// The account has no credit or quota left. A retry cannot help.
    Quota(u16),
    /// The server does not accept the schema of a structured answer. A request without it may succeed.
    SchemaRefused(u16),
    /// The model or the provider's filter refused to answer. A retry cannot help.
    Declined,
    /// The Model resource can't be used as it is (unknown provider, broken script).
    Configuration,
    /// Its key is not set on this machine.
    NoKey,
}

impl ModelErrorKind {
    /// Returns the HTTP status of the provider's refusal, if there was one.
    pub fn status(self) -> Option<u16> {
        match self {
            ModelErrorKind::Status(status)
            | ModelErrorKind::Quota(status)
            | ModelErrorKind::SchemaRefused(status) => Some(status),
            _ => None,
        }
    }

    /// The code of a turn that it ends.
    pub fn code(self) -> Code {
        match self {
            ModelErrorKind::Status(_)
            | ModelErrorKind::Quota(_)
            | ModelErrorKind::SchemaRefused(_) => Code::MODEL_STATUS,
            ModelErrorKind::Declined => Code::MODEL_DECLINED,
            ModelErrorKind::Connection | ModelErrorKind::Starting => Code::MODEL_CONNECTION,
            ModelErrorKind::Protocol => Code::MODEL_PROTOCOL,
            ModelErrorKind::Configuration | ModelErrorKind::NoKey => Code::MODEL_CONFIGURATION,
        }
    }
}

impl ModelError {
    /// A failure without more to say.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError {
            kind,
            message: message.into(),
            suggestion: None,
            retry_after: None,
            place: None,
        }
    }

    /// With what of the resource is at fault.
    #[must_use]
    pub fn within(mut self, field: &'static str, file: Option<(String, usize, usize)>) -> Self {
        self.place
            .get_or_insert_with(|| Box::new(ModelErrorPlace { field, file }));
        self
    }

    /// `diagnostic` about the Model `id`, with the place that is at fault, where that is known.
    pub fn locate(
        &self,
        mut diagnostic: Diagnostic,
        bundle: &Bundle,
        id: &ResourceId,
    ) -> Diagnostic {
        let Some(place) = &self.place else {
            return diagnostic;
        };
        diagnostic.field = Some(place.field.to_owned());
        match &place.file {
            Some((file, line, column)) => {
                let position = Position {
                    line: *line,
                    column: *column,
                    start: 0,
                    end: 0,
                };
                diagnostic.in_file(file.clone()).at(position)
            }
            None => {
                diagnostic.position = bundle.place(id, place.field).or(diagnostic.position);
                diagnostic
            }
        }
    }

    /// Returns whether the server refuses connections or is still loading its model.
    pub fn is_starting(&self) -> bool {
        self.kind == ModelErrorKind::Starting
    }

    /// Whether asking again may help (rule M4).
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ModelErrorKind::Status(status) => matches!(status, 408 | 409 | 429) || status >= 500,
            ModelErrorKind::Connection | ModelErrorKind::Starting => true,
            ModelErrorKind::Quota(_)
            | ModelErrorKind::SchemaRefused(_)
            | ModelErrorKind::Declined
            | ModelErrorKind::Protocol
            | ModelErrorKind::Configuration
            | ModelErrorKind::NoKey => false,
        }
    }
}
