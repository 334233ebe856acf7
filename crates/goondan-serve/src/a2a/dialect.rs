//! How both versions of the protocol write the same things down.

use goondan::ports::tool::Attachment;
use serde_json::{Value, json};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 0.3: each object says its `kind`.
    V03,
    /// 1.0: what stands for an object is the field that it is in.
    V10,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for its turn.
    Submitted,
    /// Its turn runs.
    Working,
    /// Its turn waits for somebody's word.
    InputRequired,
    /// There is an answer.
    Completed,
    /// There is none.
    Failed,
    /// Somebody has cancelled it.
    Canceled,
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Data(Value),
    File(Attachment),
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Client,
    Agent,
}

/// A message in the history or in the status of a task.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) id: String,
    pub(super) by: Speaker,
    pub(super) pieces: Vec<Piece>,
}

/// What an operation gives, or a piece of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Task,
    StatusUpdate,
    ArtifactUpdate,
}

const STATES: [(State, &str, &str); 6] = [
    (State::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (State::Working, "working", "TASK_STATE_WORKING"),
    (
        State::InputRequired,
        "input-required",
        "TASK_STATE_INPUT_REQUIRED",
    ),
    (State::Completed, "completed", "TASK_STATE_COMPLETED"),
    (State::Failed, "failed", "TASK_STATE_FAILED"),
    (State::Canceled, "canceled", "TASK_STATE_CANCELED"),
];

impl State {
    /// Nothing comes behind it.
    pub(super) fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::Canceled)
    }
}

impl Dialect {
    /// A state.
    pub(super) fn state(self, state: State) -> &'static str {
        let row = STATES.iter().find(|(known, ..)| *known == state);
        match (row, self) {
            (Some((_, old, _)), Dialect::V03) => old,
            (Some((.., new)), Dialect::V10) => new,
            (None, _) => "",
        }
    }

    /// The state of that name.
    pub(super) fn state_named(self, name: &str) -> Option<State> {
        STATES
            .iter()
            .map(|(state, ..)| *state)
            .find(|state| self.state(*state) == name)
    }

    /// A part.
    pub(super) fn piece(self, piece: &Piece) -> Value {
        match (self, piece) {
            (Dialect::V10, Piece::Text(text)) => json!({"text": text}),
            (Dialect::V10, Piece::Data(data)) => json!({"data": data}),
            (Dialect::V10, Piece::File(file)) => {
                let mut part = json!({"raw": file.data, "mediaType": file.media_type});
                set(&mut part, "filename", file.name.as_deref());
                part
            }
            (Dialect::V03, Piece::Text(text)) => json!({"kind": "text", "text": text}),
            (Dialect::V03, Piece::Data(data)) => json!({"kind": "data", "data": data}),
            (Dialect::V03, Piece::File(file)) => {
                let mut inner = json!({"bytes": file.data, "mimeType": file.media_type});
                set(&mut inner, "name", file.name.as_deref());
                json!({"kind": "file", "file": inner})
            }
        }
    }

    /// Parts.
    pub(super) fn pieces(self, pieces: &[Piece]) -> Vec<Value> {
        pieces.iter().map(|piece| self.piece(piece)).collect()
    }

    /// A message of a task.
    pub(super) fn said(self, said: &Said, task: &str, context: &str) -> Value {
        let role = match (self, said.by) {
            (Dialect::V10, Speaker::Client) => "ROLE_USER",
            (Dialect::V10, Speaker::Agent) => "ROLE_AGENT",
            (Dialect::V03, Speaker::Client) => "user",
            (Dialect::V03, Speaker::Agent) => "agent",
        };
        let message = json!({
            "messageId": said.id, "role": role, "taskId": task, "contextId": context, "parts": self.pieces(&said.pieces),
        });
        self.kind("message", message)
    }

    /// What an operation on a task gives.
    pub(super) fn given(self, task: Value) -> Value {
        self.kind("task", task)
    }

    /// What a message that is sent gives, and each piece of a stream.
    pub(super) fn wrapped(self, shape: Shape, value: Value) -> Value {
        let (kind, field) = match shape {
            Shape::Task => ("task", "task"),
            Shape::StatusUpdate => ("status-update", "statusUpdate"),
            Shape::ArtifactUpdate => ("artifact-update", "artifactUpdate"),
        };
        match self {
            Dialect::V03 => self.kind(kind, value),
            Dialect::V10 => json!({field: value}),
        }
    }

    fn kind(self, kind: &str, mut value: Value) -> Value {
        if self == Dialect::V03 {
            value["kind"] = kind.into();
        }
        value
    }
}

/// Sets a field where there is a value for it.
pub(super) fn set(object: &mut Value, field: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}
