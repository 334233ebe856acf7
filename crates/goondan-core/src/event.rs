//! What goes in, what comes out, and what can be watched meanwhile.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::{PricedTokens, Pricing};
use goondan_spec::{AgentChange, Code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::ids::{InstanceId, TraceContext};
use crate::message::Message;
use crate::ports::model::{ModelFinishReason, TokenUsage};
use crate::ports::tool::ToolCallStatus;
use crate::said::Said;

/// How a turn ended (rule M1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model answered with text.
    TextResponse,
    /// The step limit was reached.
    MaxSteps,
    /// It failed; `error` says why.
    Error,
    /// Somebody cancelled it.
    Cancelled,
}

/// One event in, one of these out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// The turn.
    pub turn_id: String,
    /// How it ended.
    pub finish_reason: FinishReason,
    /// The reason why the model ended its last answer, if that answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model_finish_reason: Option<ModelFinishReason>,
    /// The model's last message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_message: Option<Message>,
    /// The answer as data, where the agent states its `output`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<TurnError>,
    /// What it cost.
    pub usage: TokenUsage,
    /// How many steps it took.
    pub step_count: u32,
}

impl TurnResult {
    /// The text of the answer; empty where there is none.
    pub fn response_text(&self) -> String {
        self.response_message
            .as_ref()
            .map(Message::text)
            .unwrap_or_default()
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// A stable code such as `E_MODEL_STATUS`.
    pub code: String,
    /// A sentence that stands alone.
    pub message: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// The provider's HTTP status, where one was the cause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
}

impl TurnError {
    /// An error that only says what went wrong.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        TurnError {
            code: code.into(),
            message: message.into(),
            suggestion: None,
            status: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// The nine types of the reference, and those of model calls, reload, approval and progress (rule E1). One line of
/// `runtime-events.jsonl` each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeEvent {
    /// What happened.
    #[serde(flatten)]
    pub kind: RuntimeEventKind,
    /// Grows from each event of a workspace to the next, with gaps. Events of earlier versions have 0.
    #[serde(default)]
    pub sequence: u64,
    /// When.
    pub timestamp: DateTime<Utc>,
    /// To whom.
    pub agent_name: String,
    /// In which conversation.
    pub instance_key: String,
    /// In which chain.
    #[serde(flatten)]
    pub trace: TraceContext,
}

impl RuntimeEvent {
    /// The instance it belongs to.
    pub fn instance(&self) -> InstanceId {
        InstanceId::new(&*self.agent_name, &*self.instance_key)
    }
}

/// What happened. Durations are milliseconds.
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
        /// What began the turn: `user.input`, `agent.request`, `automation.cron` ….
        #[serde(default)]
        event_type: String,
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
        cost: Option<Cost>,
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
        cost: Option<Cost>,
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
    /// A model is asked too much: the question waits.
    #[serde(rename = "model.waiting")]
    ModelWaiting {
        turn_id: String,
        /// The step that asks; none for a question beside the conversation.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        step_id: Option<String>,
        provider: String,
        model: String,
        /// Whose limit it is.
        #[serde(default)]
        scope: RateScope,
        /// The field of `limits`.
        limit: String,
        /// For about that many milliseconds.
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
        /// Boxed: most events are small.
        #[serde(flatten)]
        call: Box<ShownModelCall>,
    },
    #[serde(rename = "model.failed")]
    ModelFailed {
        turn_id: String,
        error_message: String,
        error_code: String,
        /// As above.
        #[serde(flatten)]
        call: Box<ShownModelCall>,
    },
    #[serde(rename = "tool.called")]
    ToolCalled {
        tool_call_id: String,
        tool_name: String,
        step_id: String,
        turn_id: String,
        /// As the model gave them, cut.
        #[serde(skip_serializing_if = "Value::is_null", default)]
        arguments: Value,
        /// Something of the arguments is left out.
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
        /// Without the time in which a person was asked.
        duration: u64,
        /// What it came to. Boxed: most events are small.
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
    #[serde(rename = "tool.progress")]
    ToolProgress {
        tool_call_id: String,
        tool_name: String,
        turn_id: String,
        title: String,
        metadata: JsonObject,
    },
    /// A tool of the instance has made another instance.
    #[serde(rename = "agent.spawned")]
    AgentSpawned {
        turn_id: String,
        /// The agent of the new instance.
        target: String,
        /// Its key.
        target_instance_key: String,
        /// Where its tools work, instead of the agent's own folder.
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
        scope: Option<crate::ports::approval::Scope>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        covers: Option<crate::ports::approval::Covers>,
    },
    #[serde(rename = "approval.remembered")]
    ApprovalRemembered {
        approval_id: String,
        tool_call_id: String,
        tool_name: String,
        scope: crate::ports::approval::Scope,
        grants: Vec<String>,
    },
}

/// What a limit a minute is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RateScope {
    /// A Model, by `Model.spec.limits`.
    #[default]
    Model,
    /// All agents together, by `Swarm.spec.limits`.
    Swarm,
}

/// What can be seen of a question to a model, with all its attempts. Durations are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownModelCall {
    /// The step that asked; none for a question beside the conversation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step_id: Option<String>,
    /// As the Model resource says.
    pub provider: String,
    /// As the Model resource says.
    pub model: String,
    /// When the model was first asked.
    pub started_at: DateTime<Utc>,
    /// Until the answer was complete, or given up.
    pub duration: u64,
    /// From the last attempt to the first piece of its answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_to_first_token: Option<u64>,
    /// How often it was asked again.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub retries: u32,
    /// The reason why the model ended its answer; none if the call failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish_reason: Option<ModelFinishReason>,
    /// What the answer took, as the provider says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_usage: Option<TokenUsage>,
    /// What that costs by the prices of the Model resource.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<Cost>,
    /// What was said, where somebody who watches is to have it.
    #[serde(skip)]
    pub said: Option<Arc<Said>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How much.
    pub amount: f64,
    /// Of what, such as `USD`.
    pub currency: String,
}

impl Cost {
    /// What `usage` costs by `pricing`.
    pub fn of(usage: TokenUsage, pricing: &Pricing) -> Self {
        let amount = pricing.cost(PricedTokens {
            input: usage.prompt_tokens,
            cached: usage.cached_tokens,
            cache_write: usage.cache_write_tokens,
            output: usage.completion_tokens,
        });
        Cost {
            amount,
            currency: pricing.currency.clone(),
        }
    }
}

/// What can be seen of the result of a tool call: bounded, and without secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownResult {
    /// A short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// What the model gets, cut.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// Something of the output is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ShownError>,
}

/// What can be seen of the error of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownError {
    /// A stable code such as `E_TOOL_TIMEOUT`.
    pub code: String,
    /// A sentence, cut.
    pub message: String,
}

/// What a subscriber sees: the durable events, and text as it streams.
#[derive(Debug, Clone)]
pub enum SwarmEvent {
    /// Also appended to the instance's `runtime-events.jsonl`.
    Runtime(Arc<RuntimeEvent>),
    /// More text of the current step.
    Text {
        /// Whose.
        instance: InstanceId,
        /// Of which turn.
        turn_id: String,
        /// The new piece.
        delta: String,
    },
    /// More readable reasoning of the current step.
    Reasoning {
        /// The conversation.
        instance: InstanceId,
        /// The turn.
        turn_id: String,
        /// The new piece.
        delta: String,
    },
    /// The text of the current step so far is void: the stream broke and the model is asked again.
    TextReset {
        /// Whose.
        instance: InstanceId,
        /// Of which turn.
        turn_id: String,
    },
    /// A turn is over, with its result.
    TurnEnded {
        /// Whose.
        instance: InstanceId,
        /// The event that started it.
        event_id: String,
        /// The type of that event.
        event_type: String,
        /// The chain that it belongs to.
        trace_id: String,
        /// An agent has asked, and gets the answer. Otherwise nobody gets it but who watches, or has sent the input.
        is_for_agent: bool,
        /// What came of it.
        result: Box<TurnResult>,
    },
}
