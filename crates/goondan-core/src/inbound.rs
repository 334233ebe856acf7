//! Events on their way to an instance, in the shape in which they lie in the inbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::caller::Caller;
use crate::ids::{InstanceId, TraceContext};
use crate::message::MessageData;
use crate::narrowing::Narrowing;
use crate::ports::tool::Attachment;

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
    /// What goes into the user message behind the text: images and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
    /// What was said before, elsewhere. It opens the conversation where that is still empty, and changes nothing otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<MessageData>,
    /// Becomes the metadata of the user message.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub metadata: JsonObject,
    /// Put behind the system prompt of the turn that handles the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The chain it belongs to; `span_id` is the caller's tool call, and absent for an input from outside.
    pub trace: EventTrace,
    /// Who is in the chain, from the first agent to the one that made this event. Empty for an input from outside.
    /// Its length is the call depth (rule A8); its members narrow permissions (rule S1b).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<InstanceId>,
    /// Who waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// Under which terms its turn runs.
    #[serde(default, skip_serializing_if = "Terms::are_none")]
    pub terms: Terms,
}

/// Under which terms the turn of an event runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// The only tools that may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowing: Option<Narrowing>,
    /// Agents that stand in no chain above the turn and narrow it all the same (rule S1b): what they, or somebody for them,
    /// asked for has joined a turn that this one goes back to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub bound_by: BTreeSet<String>,
    /// The Model resource that is asked instead of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The schema that its answer has to fit, where the agent states none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// It goes before what waits already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
}

impl Terms {
    fn are_none(&self) -> bool {
        *self == Terms::default()
    }
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
    /// Who handed in the input at the head of the chain, where that has a trace of its own.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<Arc<Caller>>,
}

impl From<&TraceContext> for EventTrace {
    fn from(trace: &TraceContext) -> Self {
        EventTrace {
            trace_id: trace.trace_id.clone(),
            parent_span_id: Some(trace.span_id.clone()),
            caller: trace.caller.clone(),
        }
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
    /// What bounds the turn that asked bounds the turn that takes the answer.
    #[serde(default, skip_serializing_if = "Terms::are_none")]
    pub terms: Terms,
}

impl AgentEvent {
    /// The instance that made the event; `None` for an input from outside.
    pub fn caller(&self) -> Option<&InstanceId> {
        self.callers.last()
    }

    /// The id of the turn that handles the event. Derived, so that a resumed turn is the same turn.
    pub fn turn_id(&self) -> String {
        turn_id(&self.id)
    }

    /// The span of that turn.
    pub fn turn_trace(&self) -> TraceContext {
        let trace = TraceContext::root(
            &self.trace.trace_id,
            self.trace.parent_span_id.as_deref(),
            &self.turn_id(),
        );
        trace.called_by(self.trace.caller.clone())
    }

    /// The system prompt of its turn: that of the agent, then the instructions that came along.
    pub fn system(&self, prompt: Option<&str>) -> Option<String> {
        let parts: Vec<&str> = [prompt, self.instructions.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Whether it brings the answer to an asynchronous request.
    pub fn is_response(&self) -> bool {
        self.event_type == RESPONSE
    }
}

/// The id of the turn that handles an event.
pub fn turn_id(event_id: &str) -> String {
    format!("turn-{}", event_id.strip_prefix("evt-").unwrap_or(event_id))
}

/// The type of an event that brings the answer to an asynchronous request.
pub const RESPONSE: &str = "agent.response";

#[cfg(test)]
mod tests {
    use super::*;

    fn event(instructions: Option<&str>) -> AgentEvent {
        AgentEvent {
            id: "evt-1".to_owned(),
            event_type: "agent.request".to_owned(),
            created_at: DateTime::UNIX_EPOCH,
            target: InstanceId::new("worker", "main"),
            input: "hello".to_owned(),
            files: Vec::new(),
            history: Vec::new(),
            metadata: JsonObject::new(),
            instructions: instructions.map(str::to_owned),
            trace: EventTrace {
                trace_id: "0".repeat(32),
                parent_span_id: None,
                caller: None,
            },
            callers: Vec::new(),
            reply_to: None,
            terms: Terms::default(),
        }
    }

    #[test]
    fn instructions_stand_behind_the_system_prompt() {
        let system = |prompt, instructions| event(instructions).system(prompt);
        assert_eq!(
            system(Some("Be kind."), Some("Be brief.")).as_deref(),
            Some("Be kind.\n\nBe brief.")
        );
        assert_eq!(system(Some("Be kind."), None).as_deref(), Some("Be kind."));
        assert_eq!(
            system(None, Some("Be brief.")).as_deref(),
            Some("Be brief.")
        );
        assert_eq!(system(None, None), None);
    }

    #[test]
    fn an_event_from_before_there_were_instructions_is_read() {
        let mut written = serde_json::to_value(event(Some("x"))).unwrap();
        written.as_object_mut().unwrap().remove("instructions");
        assert_eq!(
            serde_json::from_value::<AgentEvent>(written).unwrap(),
            event(None)
        );
    }
}
