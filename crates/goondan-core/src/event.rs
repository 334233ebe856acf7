//! Results of turns, runtime events, and the stream for subscribers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::{ModelPricing, PricedTokens};
use goondan_spec::{AgentChange, Code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::content_capture::CapturedContent;
pub use crate::context_usage::ContextUsage;
use crate::ids::{InstanceId, TraceContext};
use crate::message::Message;
use crate::ports::model::{ModelFinishReason, TokenUsage};
use crate::ports::tool::ToolCallStatus;

/// Metadata key of [`RuntimeEventKind::ToolProgress`]: lines that a running command has written
/// since the previous event.
pub const OUTPUT_LINES_KEY: &str = "lines";

/// Metadata key of [`RuntimeEventKind::ToolProgress`]: number of lines that are left out before
/// [`OUTPUT_LINES_KEY`].
pub const SKIPPED_LINES_KEY: &str = "skippedLines";

/// Returns the lines of a running command in the metadata of a progress event.
pub fn output_lines(metadata: &JsonObject) -> impl Iterator<Item = &str> {
    let lines = metadata.get(OUTPUT_LINES_KEY).and_then(Value::as_array);
    lines.into_iter().flatten().filter_map(Value::as_str)
}

/// Reason why a turn ended (rule M1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model answered with text.
    TextResponse,
    /// The turn reached its step limit.
    MaxSteps,
    /// The turn failed; `error` has the cause.
    Error,
    /// The turn was cancelled.
    Cancelled,
}

/// Result of a turn: each event that starts a turn yields exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// Id of the turn.
    pub turn_id: String,
    /// Reason why the turn ended.
    pub finish_reason: FinishReason,
    /// The reason why the model ended its last answer, if that answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model_finish_reason: Option<ModelFinishReason>,
    /// Last message of the model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_message: Option<Message>,
    /// Answer as data, if the agent declares an `output`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Cause of the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<TurnError>,
    /// Tokens that the turn used.
    pub usage: TokenUsage,
    /// Number of steps.
    pub step_count: u32,
}

impl TurnResult {
    /// Returns the text of the answer; empty if there is none.
    pub fn response_text(&self) -> String {
        self.response_message
            .as_ref()
            .map(Message::text)
            .unwrap_or_default()
    }
}

/// Cause of a failed turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// A stable code such as `E_MODEL_STATUS`.
    pub code: String,
    /// A complete sentence, readable without context.
    pub message: String,
    /// Suggested next action.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// HTTP status of the provider, if it caused the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
}

impl TurnError {
    /// Returns an error with a code and a message only.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        TurnError {
            code: code.into(),
            message: message.into(),
            suggestion: None,
            status: None,
        }
    }

    /// Adds a suggested next action.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// A runtime event: the nine types of the reference, plus model calls, reload, approval and
/// progress (rule E1). Written as one line of `runtime-events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeEvent {
    /// Type and data of the event.
    #[serde(flatten)]
    pub kind: RuntimeEventKind,
    /// Increases from event to event of a workspace, with gaps. 0 for events of earlier versions.
    #[serde(default)]
    pub sequence: u64,
    /// Time of the event.
    pub timestamp: DateTime<Utc>,
    /// Agent of the conversation.
    pub agent_name: String,
    /// Instance key of the conversation.
    pub instance_key: String,
    /// Trace that the event belongs to.
    #[serde(flatten)]
    pub trace: TraceContext,
}

impl RuntimeEvent {
    /// Returns the id of the conversation.
    pub fn instance(&self) -> InstanceId {
        InstanceId::new(&*self.agent_name, &*self.instance_key)
    }
}

/// Type and data of a runtime event. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
#[allow(
    missing_docs,
    reason = "the fields are those of the reference, section 2.10"
)]
pub enum RuntimeEventKind {
    #[serde(rename = "turn.started")]
    TurnStarted {
        turn_id: String,
        event_id: String,
        /// Type of the event that started the turn: `user.input`, `agent.request`,
        /// `automation.cron` ….
        #[serde(default)]
        event_type: String,
    },
    /// An input joined the running turn.
    #[serde(rename = "input.joined")]
    InputJoined {
        turn_id: String,
        event_id: String,
        /// The next step, which handles the input.
        step_index: u32,
    },
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        turn_id: String,
        step_count: u32,
        duration: u64,
        finish_reason: FinishReason,
        /// The reason why the model ended its last answer, if that answer is incomplete.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        model_finish_reason: Option<ModelFinishReason>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        token_usage: Option<TokenUsage>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cost: Option<UsageCost>,
    },
    #[serde(rename = "turn.failed")]
    TurnFailed {
        turn_id: String,
        duration: u64,
        error_message: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        error_code: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        token_usage: Option<TokenUsage>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cost: Option<UsageCost>,
    },
    #[serde(rename = "step.started")]
    StepStarted {
        step_id: String,
        step_index: u32,
        turn_id: String,
    },
    #[serde(rename = "step.completed")]
    StepCompleted {
        step_id: String,
        step_index: u32,
        turn_id: String,
        tool_call_count: usize,
        duration: u64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        token_usage: Option<TokenUsage>,
    },
    #[serde(rename = "step.failed")]
    StepFailed {
        step_id: String,
        step_index: u32,
        turn_id: String,
        duration: u64,
        error_message: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        error_code: Option<String>,
    },
    /// A model call waits because a rate limit is reached.
    #[serde(rename = "model.waiting")]
    ModelWaiting {
        turn_id: String,
        /// Step of the model call; none for a model call outside the conversation.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        step_id: Option<String>,
        provider: String,
        model: String,
        /// Owner of the limit.
        #[serde(default)]
        scope: RateScope,
        /// Field of `limits`.
        limit: String,
        /// Estimated wait, in milliseconds.
        wait: u64,
    },
    /// A model call failed and is retried after a wait.
    #[serde(rename = "model.retrying")]
    ModelRetrying {
        turn_id: String,
        /// The step that calls the model; none for a model call outside the conversation.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        step_id: Option<String>,
        provider: String,
        model: String,
        /// Number of the retry, from 1.
        attempt: u32,
        /// Number of retries that are allowed.
        of: u32,
        /// Wait before the retry, in milliseconds.
        wait_ms: u64,
        /// Error message of the failed call.
        reason: String,
    },
    #[serde(rename = "model.completed")]
    ModelCompleted {
        turn_id: String,
        /// Boxed because most events are small.
        #[serde(flatten)]
        call: Box<ShownModelCall>,
    },
    #[serde(rename = "model.failed")]
    ModelFailed {
        turn_id: String,
        error_message: String,
        error_code: String,
        /// Boxed because most events are small.
        #[serde(flatten)]
        call: Box<ShownModelCall>,
    },
    #[serde(rename = "tool.called")]
    ToolCalled {
        tool_call_id: String,
        tool_name: String,
        step_id: String,
        turn_id: String,
        /// Arguments of the model, truncated.
        #[serde(skip_serializing_if = "Value::is_null", default)]
        arguments: Value,
        /// A part of the arguments is omitted.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        is_cut: bool,
    },
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        tool_call_id: String,
        tool_name: String,
        step_id: String,
        turn_id: String,
        status: ToolCallStatus,
        /// Time of the call in milliseconds, without the time in which an approval was pending.
        duration: u64,
        /// Result of the call. Boxed because most events are small.
        #[serde(flatten)]
        shown: Box<ShownResult>,
    },
    #[serde(rename = "tool.failed")]
    ToolFailed {
        tool_call_id: String,
        tool_name: String,
        step_id: String,
        turn_id: String,
        duration: u64,
        error_message: String,
    },
    /// A running tool call reported progress, or its command wrote output. Output is in the
    /// metadata as [`OUTPUT_LINES_KEY`].
    #[serde(rename = "tool.progress")]
    ToolProgress {
        tool_call_id: String,
        tool_name: String,
        turn_id: String,
        title: String,
        metadata: JsonObject,
    },
    /// A tool call created another instance.
    #[serde(rename = "agent.spawned")]
    AgentSpawned {
        turn_id: String,
        /// Agent of the new instance.
        target: String,
        /// Key of the new instance.
        target_instance_key: String,
        /// Working directory of the instance's tools, if it differs from the agent's directory.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cwd: Option<String>,
    },
    #[serde(rename = "reload.completed")]
    ReloadCompleted {
        generation: u64,
        added: Vec<String>,
        changed: Vec<String>,
        removed: Vec<String>,
        #[serde(default)]
        agents: Vec<AgentChange>,
        #[serde(default)]
        limits: bool,
        duration: u64,
    },
    #[serde(rename = "reload.failed")]
    ReloadFailed {
        diagnostics: usize,
        #[serde(default)]
        messages: Vec<String>,
        duration: u64,
    },
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        approval_id: String,
        tool_call_id: String,
        tool_name: String,
    },
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        approval_id: String,
        tool_call_id: String,
        tool_name: String,
        answer: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        scope: Option<crate::ports::approval::ApprovalDuration>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        covers: Option<crate::ports::approval::ApprovalCoverage>,
    },
    #[serde(rename = "approval.remembered")]
    ApprovalRemembered {
        approval_id: String,
        tool_call_id: String,
        tool_name: String,
        scope: crate::ports::approval::ApprovalDuration,
        grants: Vec<String>,
    },
}

/// Owner of a rate limit per minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RateScope {
    /// One Model: `Model.spec.limits`.
    #[default]
    Model,
    /// All agents together: `Swarm.spec.limits`.
    Swarm,
}

/// Visible data of a model call, including all its attempts. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownModelCall {
    /// Step of the model call; none for a model call outside the conversation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step_id: Option<String>,
    /// Provider in the Model resource.
    pub provider: String,
    /// Model name in the Model resource.
    pub model: String,
    /// Start of the first attempt.
    pub started_at: DateTime<Utc>,
    /// Time until the answer was complete or the call failed.
    pub duration: u64,
    /// Time from the start of the last attempt to the first piece of its answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_to_first_token: Option<u64>,
    /// Number of retries.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub retries: u32,
    /// The reason why the model ended its answer; none if the call failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish_reason: Option<ModelFinishReason>,
    /// Tokens of the answer, as reported by the provider.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_usage: Option<TokenUsage>,
    /// Cost of these tokens at the prices of the Model resource.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<UsageCost>,
    /// Parts of the request; none for a model call outside the conversation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<ContextUsage>,
    /// Content of the call, if a subscriber is allowed to receive it. Never serialized.
    #[serde(skip)]
    pub said: Option<Arc<CapturedContent>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageCost {
    /// Amount, in units of `currency`.
    pub amount: f64,
    /// Currency, such as `USD`.
    pub currency: String,
}

impl UsageCost {
    /// Returns the cost of `usage` at `pricing`.
    pub fn for_usage(usage: TokenUsage, pricing: &ModelPricing) -> Self {
        let amount = pricing.cost(PricedTokens {
            input: usage.prompt_tokens,
            cached: usage.cached_tokens,
            cache_write: usage.cache_write_tokens,
            output: usage.completion_tokens,
        });
        UsageCost {
            amount,
            currency: pricing.currency.clone(),
        }
    }
}

/// Visible data of a tool call's result: bounded in size, and without secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownResult {
    /// Short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Structured data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Output for the model, truncated.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// A part of the output is omitted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
    /// Cause of the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ShownError>,
}

/// Visible data of a tool call's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownError {
    /// A stable code such as `E_TOOL_TIMEOUT`.
    pub code: String,
    /// Error message, truncated.
    pub message: String,
}

/// An item of the subscriber stream: a durable event, or streamed text.
#[derive(Debug, Clone)]
pub enum SwarmEvent {
    /// A durable event, also appended to the instance's `runtime-events.jsonl`.
    Runtime(Arc<RuntimeEvent>),
    /// More text of the current step.
    Text {
        /// Conversation of the text.
        instance: InstanceId,
        /// Turn of the text.
        turn_id: String,
        /// New piece of text.
        delta: String,
    },
    /// More readable reasoning of the current step.
    Reasoning {
        /// Conversation of the reasoning.
        instance: InstanceId,
        /// Turn of the reasoning.
        turn_id: String,
        /// New piece of reasoning.
        delta: String,
    },
    /// Discards the text of the current step so far: the stream broke, and the model call is
    /// retried.
    TextReset {
        /// Conversation of the text.
        instance: InstanceId,
        /// Turn of the text.
        turn_id: String,
    },
    /// A turn ended, with its result.
    TurnEnded {
        /// Conversation of the turn.
        instance: InstanceId,
        /// Id of the event that started the turn.
        event_id: String,
        /// Ids of the inputs that joined the turn.
        joined_ids: Vec<String>,
        /// Type of the event that started the turn.
        event_type: String,
        /// Trace that the turn belongs to.
        trace_id: String,
        /// Another agent requested the turn and receives the answer. Otherwise only subscribers and
        /// the sender of the input receive it.
        is_for_agent: bool,
        /// Result of the turn.
        result: Box<TurnResult>,
    },
}

impl SwarmEvent {
    /// Returns the turn result if this event ends the turn that the event `event_id` started or
    /// joined.
    pub fn result_of(&self, event_id: &str) -> Option<&TurnResult> {
        match self {
            SwarmEvent::TurnEnded {
                event_id: started_by,
                joined_ids,
                result,
                ..
            } if started_by == event_id || joined_ids.iter().any(|id| id == event_id) => {
                Some(result)
            }
            _ => None,
        }
    }
}
