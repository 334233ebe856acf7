//! Port for models: a stream of chunks for each request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use goondan_spec::diagnostic::SourcePosition;
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::caller::CallerTrace;
use crate::history::MessageHistory;
use crate::ids::InstanceId;
use crate::message::MessagePart;
use crate::model_calls::ExchangeRecorder;

/// Client of one model.
#[async_trait]
pub trait ModelClient: Send + Sync {
    /// Makes one attempt; the engine is responsible for retries. Dropping the stream aborts the
    /// call.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;

    /// Returns true if [`ModelRequest::output`] is sent to the provider. Otherwise the schema must
    /// be part of the prompt.
    fn is_schema_sent(&self) -> bool {
        false
    }

    /// Returns the context window in tokens; `None` if it is not known.
    fn context_window(&self) -> Option<u64> {
        None
    }

    /// Returns a vector for each text, in order.
    ///
    /// # Errors
    /// The model has no embeddings, or the call failed.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let _ = texts;
        Err(ModelError::new(
            ModelErrorKind::Configuration,
            "this model can't make embeddings",
        ))
    }
}

/// Creates clients from Model resources.
pub trait ModelFactory: Send + Sync {
    /// Creates a client for `model`, without connecting. Paths in `options` are relative to
    /// `bundle_root`.
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &std::path::Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError>;
}

/// Stream of an answer.
pub type ModelStream = BoxStream<'static, Result<ModelChunk, ModelError>>;

/// One model call.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Conversation of the call.
    pub instance: InstanceId,
    /// System prompt.
    pub system: Option<String>,
    /// Conversation so far. Shared with the turn, so its cost per step does not grow with the
    /// conversation.
    pub messages: MessageHistory,
    /// Available tools.
    pub tools: Arc<[ToolDefinition]>,
    /// Sampling settings.
    pub params: Arc<ModelParams>,
    /// JSON Schema of a structured answer. Ignored by clients that can't send one.
    pub output: Option<Arc<Value>>,
    /// Trace context for the provider; `None` to send none.
    pub caller: Option<CallerTrace>,
    /// Records the HTTP exchange for people who inspect the call; `None` to record nothing.
    pub exchange: Option<Arc<ExchangeRecorder>>,
}

/// A tool in the form for a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name in the form `resource__export`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of type object.
    pub parameters: Value,
}

/// Approximate number of characters per token.
pub const CHARACTERS_PER_TOKEN: usize = 4;

impl ToolDefinition {
    /// Returns the name of its Tool resource.
    pub fn resource(&self) -> &str {
        self.name.split("__").next().unwrap_or_default()
    }

    /// Returns the approximate number of tokens of the definition in a request.
    pub fn tokens(&self) -> usize {
        (self.name.len() + self.description.len() + self.parameters.to_string().len())
            / CHARACTERS_PER_TOKEN
    }
}

/// A piece of an answer. `Finish` comes last; a stream without it was interrupted.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChunk {
    /// More text of the answer.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// The complete answer, including all text and reasoning that was streamed.
    Finish(Box<CompletedAnswer>),
}

/// A complete answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletedAnswer {
    /// Reasoning, text and tool calls in the order of the provider. Arguments that are not valid
    /// JSON are a JSON string.
    pub parts: Vec<MessagePart>,
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
    /// The answer is complete.
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
    /// A provider-specific reason.
    Other(String),
}

impl ModelFinishReason {
    /// Returns true if the answer is incomplete, so that its tool calls must not run.
    pub fn is_cut(&self) -> bool {
        matches!(
            self,
            ModelFinishReason::Length | ModelFinishReason::ContextWindow | ModelFinishReason::Pause
        )
    }

    /// Returns the name of the reason in events and results.
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
        let reasons = [
            Reason::Stop,
            Reason::ToolCalls,
            Reason::Length,
            Reason::ContextWindow,
            Reason::Pause,
        ];
        reasons
            .into_iter()
            .find(|known| known.as_str() == reason)
            .unwrap_or(Reason::Other(reason))
    }
}

impl CompletedAnswer {
    /// Returns an answer of `parts`. The finish reason is [`ModelFinishReason::ToolCalls`] if it
    /// contains any, otherwise [`ModelFinishReason::Stop`].
    pub fn of_parts(parts: Vec<MessagePart>, usage: Option<TokenUsage>) -> Self {
        let has_calls = parts
            .iter()
            .any(|part| matches!(part, MessagePart::ToolCall(_)));
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
    pub fn finish(parts: Vec<MessagePart>, usage: Option<TokenUsage>) -> Self {
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

/// Parts of the messages with which providers refuse a conversation that is too long.
const OVERFLOW_WORDS: [&str; 10] = [
    "context length",
    "context_length",
    "context window",
    "context size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "maximum number of tokens",
    "too many tokens in the prompt",
];

/// Error of a model call. The message never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct ModelError {
    /// Kind of the failure.
    pub kind: ModelErrorKind,
    /// Message for people: the status and the message of the provider.
    pub message: String,
    /// Suggested fix, if one is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// Minimum wait before a retry, requested by the provider.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<Duration>,
    /// Faulty part of the Model resource, if it is known.
    #[serde(skip)]
    pub place: Option<Box<ModelErrorPlace>>,
}

/// Faulty part of a Model resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelErrorPlace {
    /// Name of the field.
    pub field: &'static str,
    /// Position in a file that the field names: file, line and column.
    pub file: Option<(String, usize, usize)>,
}

/// Kind of a model failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModelErrorKind {
    /// The provider returned this HTTP status.
    Status(u16),
    /// The server does not answer, or the connection or the stream broke.
    Connection,
    /// The server refuses connections or is still loading its model.
    Starting,
    /// The answer took longer than the time limit of a model call.
    Deadline,
    /// The answer is not valid, for example HTML instead of JSON.
    Protocol,
    /// The account has no credit or quota left. A retry cannot help.
    Quota(u16),
    /// The server does not accept the schema of a structured answer. A request without it may
    /// succeed.
    SchemaRefused(u16),
    /// The conversation is longer than the context window. A shorter one may succeed.
    ContextOverflow(u16),
    /// The model or the provider's filter refused to answer. A retry cannot help.
    Declined,
    /// The Model resource is not usable (unknown provider, broken script).
    Configuration,
    /// The API key of the model is not set on this machine.
    NoKey,
}

impl ModelErrorKind {
    /// Returns the HTTP status of the provider's refusal, if there was one.
    pub fn status(self) -> Option<u16> {
        match self {
            ModelErrorKind::Status(status)
            | ModelErrorKind::Quota(status)
            | ModelErrorKind::SchemaRefused(status)
            | ModelErrorKind::ContextOverflow(status) => Some(status),
            _ => None,
        }
    }

    /// Returns the error code of a turn that fails with this kind.
    pub fn code(self) -> Code {
        match self {
            ModelErrorKind::Status(_)
            | ModelErrorKind::Quota(_)
            | ModelErrorKind::SchemaRefused(_)
            | ModelErrorKind::ContextOverflow(_) => Code::MODEL_STATUS,
            ModelErrorKind::Declined => Code::MODEL_DECLINED,
            ModelErrorKind::Connection | ModelErrorKind::Starting | ModelErrorKind::Deadline => {
                Code::MODEL_CONNECTION
            }
            ModelErrorKind::Protocol => Code::MODEL_PROTOCOL,
            ModelErrorKind::Configuration | ModelErrorKind::NoKey => Code::MODEL_CONFIGURATION,
        }
    }
}

impl ModelError {
    /// Returns an error with a kind and a message only.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError {
            kind,
            message: message.into(),
            suggestion: None,
            retry_after: None,
            place: None,
        }
    }

    /// Adds the faulty part of the resource, unless one is set.
    #[must_use]
    pub fn within(mut self, field: &'static str, file: Option<(String, usize, usize)>) -> Self {
        self.place
            .get_or_insert_with(|| Box::new(ModelErrorPlace { field, file }));
        self
    }

    /// Returns `diagnostic` about the Model `id`, with the faulty field or file position if it is
    /// known.
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
                let position = SourcePosition {
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

    /// Returns true if a provider's error message states that the conversation is too long.
    pub fn is_overflow_message(message: &str) -> bool {
        let words = message.to_lowercase();
        OVERFLOW_WORDS.iter().any(|part| words.contains(part))
    }

    /// Returns true if the server refuses connections or is still loading its model.
    pub fn is_starting(&self) -> bool {
        self.kind == ModelErrorKind::Starting
    }

    /// Returns true if a retry can help (rule M4).
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ModelErrorKind::Status(status) => matches!(status, 408 | 409 | 429) || status >= 500,
            ModelErrorKind::Connection | ModelErrorKind::Starting => true,
            ModelErrorKind::Quota(_)
            | ModelErrorKind::SchemaRefused(_)
            | ModelErrorKind::ContextOverflow(_)
            | ModelErrorKind::Declined
            | ModelErrorKind::Deadline
            | ModelErrorKind::Protocol
            | ModelErrorKind::Configuration
            | ModelErrorKind::NoKey => false,
        }
    }
}
