//! Events on their way to an instance, in the shape in which they lie in the inbox.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::JsonObject;
use crate::ids::{InstanceId, TraceContext};

/// Something that an instance has to handle: one event, one turn (rule M1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// Unique in the workspace; the same id twice is the same event.
    pub id: String,
    /// Such as `user.input`, `agent.request`, `agent.send`, `agent.response`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who handles it.
    pub target: InstanceId,
    /// The text that becomes the user message.
    pub input: String,
    /// Becomes the metadata of the user message.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub metadata: JsonObject,
    /// The chain it belongs to; `span_id` is the caller's tool call, and absent for an input from outside.
    pub trace: EventTrace,
    /// Who is in the chain, from the first agent to the one that made this event. Empty for an input from outside.
    /// Its length is the call depth (rule A8); its members narrow permissions (rule S1b).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<InstanceId>,
    /// Who waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
}

/// The causal chain of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTrace {
    /// 32 hex digits.
    pub trace_id: String,
    /// The span that made the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
}

impl From<&TraceContext> for EventTrace {
    fn from(trace: &TraceContext) -> Self {
        EventTrace { trace_id: trace.trace_id.clone(), parent_span_id: Some(trace.span_id.clone()) }
    }
}

/// Who waits for the answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyTo {
    /// The instance that asked.
    pub caller: InstanceId,
    /// The turn in which it asked.
    pub turn_id: String,
    /// Ties question and answer together.
    pub correlation_id: String,
    /// The answer comes as an event of its own (rule A5) instead of to a waiting call.
    #[serde(rename = "async")]
    pub async_: bool,
}

impl AgentEvent {
    /// The instance that made the event; `None` for an input from outside.
    pub fn caller(&self) -> Option<&InstanceId> {
        self.callers.last()
    }

    /// The id of the turn that handles the event. Derived, so that a resumed turn is the same turn.
    pub fn turn_id(&self) -> String {
        format!("turn-{}", self.id.strip_prefix("evt-").unwrap_or(&self.id))
    }

    /// The span of that turn.
    pub fn turn_trace(&self) -> TraceContext {
        TraceContext::root(&self.trace.trace_id, self.trace.parent_span_id.as_deref(), &self.turn_id())
    }

    /// Whether it brings the answer to an asynchronous request.
    pub fn is_response(&self) -> bool {
        self.event_type == RESPONSE
    }
}

/// The type of an event that brings the answer to an asynchronous request.
pub const RESPONSE: &str = "agent.response";
