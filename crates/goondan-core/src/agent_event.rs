//! Events for an instance, in their stored form in the inbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::caller::CallerTrace;
use crate::ids::{InstanceId, TraceContext};
use crate::message::MessageData;
use crate::ports::tool::Attachment;
use crate::reserved_names::{COMPACT_EVENT, UNDO_EVENT};
use crate::tool_allowlist::ToolAllowlist;

/// An event that an instance has to handle: one event, one turn (rule M1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// Unique in the workspace; two events with the same id are the same event.
    pub id: String,
    /// Type, such as `user.input`, `agent.request`, `agent.send`, `agent.response`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Instance that handles the event.
    pub target: InstanceId,
    /// Text of the user message.
    pub input: String,
    /// Files of the user message after the text, such as images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
    /// Earlier messages from another system. They start the conversation if it is empty, otherwise
    /// they are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<MessageData>,
    /// Metadata of the user message.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub metadata: JsonObject,
    /// Instructions after the system prompt, only for the turn that handles the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Trace of the event. The parent span is the caller's tool call; absent for an input from
    /// outside.
    pub trace: EventTrace,
    /// Instances in the chain, from the first to the one that made this event. Empty for an input
    /// from outside. Its length is the call depth (rule A8); its members restrict permissions (rule
    /// S1b).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<InstanceId>,
    /// Instance that waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// Conditions of the turn that handles the event.
    #[serde(default, skip_serializing_if = "TurnTerms::are_none")]
    pub terms: TurnTerms,
}

/// Handling of an input while a turn of its conversation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InputDelivery {
    /// Starts its own turn after the running one.
    #[default]
    Queue,
    /// Joins the running turn before its next step. Without a further step, starts its own turn.
    Steer,
}

impl InputDelivery {
    /// Returns true for the default.
    pub fn is_queue(&self) -> bool {
        *self == InputDelivery::Queue
    }
}

/// Change of a conversation that a user requests. It runs as a turn without a user message, so that it
/// keeps its order among the turns of the conversation and survives an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationOperation {
    /// Replaces the messages with a summary.
    Compact,
    /// Removes the last input and everything after it.
    Undo,
}

impl ConversationOperation {
    /// Returns the type of the event that requests the operation.
    pub fn event_type(self) -> &'static str {
        match self {
            ConversationOperation::Compact => COMPACT_EVENT,
            ConversationOperation::Undo => UNDO_EVENT,
        }
    }
}

/// Terms of the turn of an event, such as tool restrictions, model and answer schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnTerms {
    /// Allowlist of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowing: Option<ToolAllowlist>,
    /// Agents outside the chain whose restrictions also apply (rule S1b). A result that they
    /// requested, or that was requested for them, has joined a turn that led to this one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub bound_by: BTreeSet<String>,
    /// Time at which the chain of callers began. Default: the creation of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
    /// Model resource to use instead of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Schema of the answer, if the agent declares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// Handled before events that are already queued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Handling of an input while a turn of its conversation runs.
    #[serde(default, skip_serializing_if = "InputDelivery::is_queue")]
    pub delivery: InputDelivery,
    /// Tool call that answers the sender of the event in its own channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_call: Option<Arc<AnswerCall>>,
}

/// Tool call that answers the sender of an event in its own channel. An automatic answer goes to
/// the same channel, so the call needs no approval by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerCall {
    /// Name of a built-in tool with its export, such as `telegram__send`.
    pub tool: String,
    /// Arguments that name the channel.
    pub arguments: BTreeMap<String, String>,
}

impl AnswerCall {
    /// Returns true if a call of the built-in export `tool` goes to the channel of the event.
    pub fn covers(&self, tool: Option<&str>, arguments: &JsonObject) -> bool {
        let is_same = |(name, value): (&String, &String)| match arguments.get(name) {
            Some(Value::String(text)) => text == value,
            Some(Value::Number(number)) => number.to_string() == *value,
            _ => false,
        };
        tool == Some(self.tool.as_str())
            && !self.arguments.is_empty()
            && self.arguments.iter().all(is_same)
    }
}

impl TurnTerms {
    /// Returns true for an event without terms.
    fn are_none(&self) -> bool {
        *self == TurnTerms::default()
    }
}

/// Position of an event in its causal chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTrace {
    /// Trace id, 32 hex digits.
    pub trace_id: String,
    /// Id of the span that made the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// Client that submitted the first input of the chain, if it has its own trace.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<Arc<CallerTrace>>,
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

/// Requester that waits for the answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyTo {
    /// Instance of the request.
    pub caller: InstanceId,
    /// Turn of the request.
    pub turn_id: String,
    /// Id that connects request and answer.
    pub correlation_id: String,
    /// The answer arrives as a separate event (rule A5) instead of as the result of a waiting call.
    #[serde(rename = "async")]
    pub async_: bool,
    /// Idle timeout of an asynchronous request in milliseconds. The turn that handles it ends when
    /// it makes no progress for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Terms of the requesting turn. They also apply to the turn that handles the answer.
    #[serde(default, skip_serializing_if = "TurnTerms::are_none")]
    pub terms: TurnTerms,
}

impl AgentEvent {
    /// Returns the instance that made the event; `None` for an input from outside.
    pub fn caller(&self) -> Option<&InstanceId> {
        self.callers.last()
    }

    /// Returns the id of the turn that handles the event. Derived, so that a resumed turn keeps its
    /// id.
    pub fn turn_id(&self) -> String {
        turn_id(&self.id)
    }

    /// Returns the span of the turn.
    pub fn turn_trace(&self) -> TraceContext {
        let trace = TraceContext::root(
            &self.trace.trace_id,
            self.trace.parent_span_id.as_deref(),
            &self.turn_id(),
        );
        trace.called_by(self.trace.caller.clone())
    }

    /// Returns the system prompt of its turn: the prompt of the agent, then the instructions of the
    /// event.
    pub fn system(&self, prompt: Option<&str>) -> Option<String> {
        let parts: Vec<&str> = [prompt, self.instructions.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Returns true for an input that comes from outside the swarm, not from an agent or a schedule.
    pub fn is_from_outside(&self) -> bool {
        let is_internal = [RESPONSE_EVENT, crate::reserved_names::CRON_EVENT];
        self.callers.is_empty() && !is_internal.contains(&self.event_type.as_str())
    }

    /// Returns true if this input joins the turn of the event `running`. The input joins only a
    /// turn with the same instructions, model, answer schema and answer call, so that it gains no
    /// permission and loses no instruction. The input never joins a turn that an agent requested,
    /// because the answer of that turn could show the input to another user.
    pub fn steers(&self, running: &AgentEvent) -> bool {
        let (own, others) = (&self.terms, &running.terms);
        let has_same_terms = self.instructions == running.instructions
            && own.model == others.model
            && own.output == others.output
            && own.answer_call == others.answer_call;
        own.delivery == InputDelivery::Steer
            && self.is_from_outside()
            && running.callers.is_empty()
            && running.operation().is_none()
            && has_same_terms
    }

    /// Returns the operation that the event requests; `None` for an event that starts a turn.
    pub fn operation(&self) -> Option<ConversationOperation> {
        [ConversationOperation::Compact, ConversationOperation::Undo]
            .into_iter()
            .find(|operation| operation.event_type() == self.event_type)
    }

    /// Returns true if the event is the answer to an asynchronous request.
    pub fn is_response(&self) -> bool {
        self.event_type == RESPONSE_EVENT
    }
}

/// Returns the id of the turn that handles an event.
pub fn turn_id(event_id: &str) -> String {
    format!("turn-{}", event_id.strip_prefix("evt-").unwrap_or(event_id))
}

/// Type of an event with the answer to an asynchronous request.
pub const RESPONSE_EVENT: &str = "agent.response";

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
            terms: TurnTerms::default(),
        }
    }

    #[test]
    fn an_answer_call_covers_only_its_tool_and_its_arguments() {
        let call = AnswerCall {
            tool: "telegram__send".to_owned(),
            arguments: [("chatId".to_owned(), "-7".to_owned())].into(),
        };
        let covers = |tool: Option<&str>, arguments: Value| {
            call.covers(tool, arguments.as_object().unwrap())
        };
        let tool = Some("telegram__send");
        assert!(covers(tool, serde_json::json!({"chatId": -7, "text": "x"})));
        assert!(covers(tool, serde_json::json!({"chatId": "-7"})));
        assert!(!covers(tool, serde_json::json!({"chatId": 7})));
        assert!(!covers(tool, serde_json::json!({"chatId": ["-7"]})));
        assert!(!covers(tool, serde_json::json!({"text": "x"})));
        assert!(!covers(
            Some("telegram__sendFile"),
            serde_json::json!({"chatId": -7})
        ));
        assert!(!covers(None, serde_json::json!({"chatId": -7})));
    }

    #[test]
    fn an_input_steers_only_a_turn_with_the_same_terms() {
        let steering_input = |instructions| {
            let mut input = event(instructions);
            input.event_type = crate::reserved_names::INPUT_EVENT.to_owned();
            input.terms.delivery = InputDelivery::Steer;
            input
        };
        let running = event(None);
        assert!(steering_input(None).steers(&running));
        assert!(!steering_input(Some("Be brief.")).steers(&running));
        assert!(
            !event(None).steers(&running),
            "an input with queued delivery does not steer"
        );
        let mut requested = event(None);
        requested.callers = vec![InstanceId::new("other", "main")];
        assert!(!steering_input(None).steers(&requested));
        let mut from_agent = steering_input(None);
        from_agent.callers = vec![InstanceId::new("other", "main")];
        assert!(!from_agent.steers(&running));
        let mut in_channel = event(None);
        in_channel.terms.answer_call = Some(Arc::new(AnswerCall {
            tool: "slack__send".to_owned(),
            arguments: BTreeMap::new(),
        }));
        assert!(!steering_input(None).steers(&in_channel));
    }

    #[test]
    fn instructions_follow_the_system_prompt() {
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
    fn an_event_without_the_instructions_field_can_be_read() {
        let mut stored = serde_json::to_value(event(Some("x"))).unwrap();
        stored.as_object_mut().unwrap().remove("instructions");
        assert_eq!(
            serde_json::from_value::<AgentEvent>(stored).unwrap(),
            event(None)
        );
    }
}
