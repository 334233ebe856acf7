//! Sample events, records and messages for checks.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use goondan_core::agent_event::{AgentEvent, EventTrace};
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::message::{
    Message, MessageData, MessageEvent, MessagePart, MessageRole, MessageSource,
};
use goondan_core::ports::model::TokenUsage;
use goondan_core::ports::store::{FinishedTurn, InstanceMeta, InstanceStatus, LogRecord};

/// Returns the id of an instance with the key `key`.
pub fn instance(key: &str) -> InstanceId {
    InstanceId::new("a", key)
}

/// Creates an external event.
pub fn event(id: &str, target: &InstanceId) -> AgentEvent {
    AgentEvent {
        id: id.to_owned(),
        event_type: "user.input".to_owned(),
        created_at: DateTime::UNIX_EPOCH,
        target: target.clone(),
        input: format!("input of {id}"),
        files: Vec::new(),
        history: Vec::new(),
        metadata: goondan_core::JsonObject::new(),
        instructions: None,
        trace: EventTrace {
            trace_id: "0".repeat(32),
            parent_span_id: None,
            caller: None,
        },
        callers: Vec::new(),
        reply_to: None,
        terms: Default::default(),
    }
}

/// Creates an event that a turn of `by` sends.
pub fn event_by(id: &str, by: &InstanceId, target: &InstanceId) -> AgentEvent {
    AgentEvent {
        callers: vec![by.clone()],
        ..event(id, target)
    }
}

/// Creates the record that accepts an event.
pub fn accepted(event: &AgentEvent) -> LogRecord {
    LogRecord::Accepted(Box::new(event.clone()))
}

/// Creates the record of a finished turn for an event.
pub fn done(event: &AgentEvent) -> LogRecord {
    done_with(event, None)
}

/// Creates a record like [`done`], with an answer for another instance.
pub fn done_with(event: &AgentEvent, answer: Option<AgentEvent>) -> LogRecord {
    LogRecord::Done(Box::new(FinishedTurn {
        answer,
        ..finished(event)
    }))
}

/// Creates a finished turn for an event.
pub fn finished(event: &AgentEvent) -> FinishedTurn {
    FinishedTurn {
        turn_id: event.turn_id(),
        event_ids: vec![event.id.clone()],
        result: result(event),
        asked_by: event.caller().cloned(),
        answer: None,
    }
}

/// Creates the result of a turn for an event.
pub fn result(event: &AgentEvent) -> TurnResult {
    TurnResult {
        turn_id: event.turn_id(),
        finish_reason: FinishReason::TextResponse,
        output: None,
        model_finish_reason: None,
        response_message: Some(message(
            &format!("{}-m1", event.turn_id()),
            MessageRole::Assistant,
        )),
        error: None,
        usage: TokenUsage::default(),
        step_count: 1,
    }
}

/// Creates the record that withdraws an event.
pub fn withdrawn(event: &AgentEvent) -> LogRecord {
    LogRecord::Withdrawn {
        event_id: event.id.clone(),
        reason: "nobody waits".to_owned(),
    }
}

/// Creates a text message.
pub fn message(id: &str, role: MessageRole) -> Message {
    Message {
        id: id.to_owned(),
        data: MessageData {
            role,
            content: vec![MessagePart::text(format!("text of {id}"))],
        },
        metadata: goondan_core::JsonObject::new(),
        created_at: DateTime::UNIX_EPOCH,
        source: MessageSource::User,
    }
}

/// Creates messages with the given ids.
pub fn messages(ids: &[&str]) -> Vec<Arc<Message>> {
    ids.iter()
        .map(|id| Arc::new(message(id, MessageRole::User)))
        .collect()
}

/// Creates the event that appends a message.
pub fn append(id: &str) -> MessageEvent {
    MessageEvent::Append {
        message: message(id, MessageRole::User),
    }
}

/// Creates metadata of an idle instance.
pub fn meta(id: &InstanceId) -> InstanceMeta {
    InstanceMeta {
        status: InstanceStatus::Idle,
        agent: id.agent.clone(),
        instance_key: id.instance_key.clone(),
        created_at: DateTime::UNIX_EPOCH,
        updated_at: DateTime::<Utc>::UNIX_EPOCH,
        owner: None,
        cwd: None,
        released_at: None,
        retired_at: None,
        narrowing: None,
        spending: Default::default(),
    }
}
