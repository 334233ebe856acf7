//! JSON encodings of the two protocol versions.

use goondan::ports::tool::Attachment;
use serde_json::{Value, json};

/// A protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolVersion {
    /// Version 0.3: each object has a `kind` field.
    V03,
    /// Version 1.0: the field name determines the object type.
    V10,
}

/// Task state of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// The task waits for its turn.
    Submitted,
    /// The turn runs.
    Working,
    /// The turn waits for approval.
    InputRequired,
    /// The turn has an answer.
    Completed,
    /// The turn has no answer.
    Failed,
    /// A client cancelled the task.
    Canceled,
}

/// Part of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TaskPart {
    Text(String),
    Data(Value),
    File(Attachment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageSender {
    Client,
    Agent,
}

/// Message in the history or the status of a task.
#[derive(Debug, Clone)]
pub(super) struct TaskMessage {
    pub(super) id: String,
    pub(super) by: MessageSender,
    pub(super) pieces: Vec<TaskPart>,
}

/// Type of an operation result or a stream event.
#[derive(Debug, Clone, Copy)]
pub(super) enum ResultType {
    Task,
    StatusUpdate,
    ArtifactUpdate,
}

const STATES: [(TaskState, &str, &str); 6] = [
    (TaskState::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (TaskState::Working, "working", "TASK_STATE_WORKING"),
    (
        TaskState::InputRequired,
        "input-required",
        "TASK_STATE_INPUT_REQUIRED",
    ),
    (TaskState::Completed, "completed", "TASK_STATE_COMPLETED"),
    (TaskState::Failed, "failed", "TASK_STATE_FAILED"),
    (TaskState::Canceled, "canceled", "TASK_STATE_CANCELED"),
];

impl TaskState {
    /// Returns true if a task in this state is over.
    pub(super) fn is_terminal(self) -> bool {
        matches!(
            self,
            TaskState::Completed | TaskState::Failed | TaskState::Canceled
        )
    }
}

impl ProtocolVersion {
    /// Returns the name of a state in this version.
    pub(super) fn state(self, state: TaskState) -> &'static str {
        let row = STATES.iter().find(|(known, ..)| *known == state);
        match (row, self) {
            (Some((_, old, _)), ProtocolVersion::V03) => old,
            (Some((.., new)), ProtocolVersion::V10) => new,
            (None, _) => "",
        }
    }

    /// Returns the state with this name, if any.
    pub(super) fn state_named(self, name: &str) -> Option<TaskState> {
        STATES
            .iter()
            .map(|(state, ..)| *state)
            .find(|state| self.state(*state) == name)
    }

    /// Encodes a part.
    pub(super) fn encode_part(self, piece: &TaskPart) -> Value {
        match (self, piece) {
            (ProtocolVersion::V10, TaskPart::Text(text)) => json!({"text": text}),
            (ProtocolVersion::V10, TaskPart::Data(data)) => json!({"data": data}),
            (ProtocolVersion::V10, TaskPart::File(file)) => {
                let mut part = json!({"raw": file.data, "mediaType": file.media_type});
                set(&mut part, "filename", file.name.as_deref());
                part
            }
            (ProtocolVersion::V03, TaskPart::Text(text)) => json!({"kind": "text", "text": text}),
            (ProtocolVersion::V03, TaskPart::Data(data)) => json!({"kind": "data", "data": data}),
            (ProtocolVersion::V03, TaskPart::File(file)) => {
                let mut inner = json!({"bytes": file.data, "mimeType": file.media_type});
                set(&mut inner, "name", file.name.as_deref());
                json!({"kind": "file", "file": inner})
            }
        }
    }

    /// Encodes parts.
    pub(super) fn encode_parts(self, pieces: &[TaskPart]) -> Vec<Value> {
        pieces.iter().map(|piece| self.encode_part(piece)).collect()
    }

    /// Encodes a message of the task `task` in the context `context`.
    pub(super) fn encode_message(
        self,
        task_message: &TaskMessage,
        task: &str,
        context: &str,
    ) -> Value {
        let role = match (self, task_message.by) {
            (ProtocolVersion::V10, MessageSender::Client) => "ROLE_USER",
            (ProtocolVersion::V10, MessageSender::Agent) => "ROLE_AGENT",
            (ProtocolVersion::V03, MessageSender::Client) => "user",
            (ProtocolVersion::V03, MessageSender::Agent) => "agent",
        };
        let message = json!({
            "messageId": task_message.id, "role": role, "taskId": task, "contextId": context, "parts": self.encode_parts(&task_message.pieces),
        });
        self.kind("message", message)
    }

    /// Encodes the result of a task operation.
    pub(super) fn encode_task(self, task: Value) -> Value {
        self.kind("task", task)
    }

    /// Encodes the result of a sent message, or a stream event. Version 1.0 wraps the value in a
    /// field that is named after its type; version 0.3 adds the type as `kind`.
    pub(super) fn encode_response(self, shape: ResultType, value: Value) -> Value {
        let (kind, field) = match shape {
            ResultType::Task => ("task", "task"),
            ResultType::StatusUpdate => ("status-update", "statusUpdate"),
            ResultType::ArtifactUpdate => ("artifact-update", "artifactUpdate"),
        };
        match self {
            ProtocolVersion::V03 => self.kind(kind, value),
            ProtocolVersion::V10 => json!({field: value}),
        }
    }

    /// Adds the field `kind`, which only version 0.3 has.
    fn kind(self, kind: &str, mut value: Value) -> Value {
        if self == ProtocolVersion::V03 {
            value["kind"] = kind.into();
        }
        value
    }
}

/// Sets a field if there is a value.
pub(super) fn set(object: &mut Value, field: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}
