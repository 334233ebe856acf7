//! Encodes requests for both protocol versions, and reads their answers.

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aProtocolVersion {
    V03,
    V10,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aMethod {
    Send,
    Stream,
    Get,
    Cancel,
}

impl A2aProtocolVersion {
    /// Parses a version number.
    pub(super) fn from_number(number: &str) -> Option<Self> {
        let mut parts = number.split('.');
        match (parts.next(), parts.next()) {
            (Some("0"), Some("3")) => Some(A2aProtocolVersion::V03),
            (Some("1"), Some("0")) => Some(A2aProtocolVersion::V10),
            _ => None,
        }
    }

    /// Returns the value of the header `A2A-Version`; version 0.3 has none.
    pub(super) fn header(self) -> Option<&'static str> {
        match self {
            A2aProtocolVersion::V03 => None,
            A2aProtocolVersion::V10 => Some("1.0"),
        }
    }

    /// Returns the JSON-RPC method name of this version.
    fn method_name(self, method: A2aMethod) -> &'static str {
        match (self, method) {
            (A2aProtocolVersion::V03, A2aMethod::Send) => "message/send",
            (A2aProtocolVersion::V03, A2aMethod::Stream) => "message/stream",
            (A2aProtocolVersion::V03, A2aMethod::Get) => "tasks/get",
            (A2aProtocolVersion::V03, A2aMethod::Cancel) => "tasks/cancel",
            (A2aProtocolVersion::V10, A2aMethod::Send) => "SendMessage",
            (A2aProtocolVersion::V10, A2aMethod::Stream) => "SendStreamingMessage",
            (A2aProtocolVersion::V10, A2aMethod::Get) => "GetTask",
            (A2aProtocolVersion::V10, A2aMethod::Cancel) => "CancelTask",
        }
    }

    /// Creates a JSON-RPC request.
    pub(super) fn request(
        self,
        method: A2aMethod,
        tenant: Option<&str>,
        mut params: Value,
    ) -> Value {
        if let Some(tenant) = tenant {
            params["tenant"] = tenant.into();
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": self.method_name(method), "params": params})
    }

    /// Creates the parameters of a request that sends a text.
    pub(super) fn message(
        self,
        id: &str,
        text: &str,
        context: Option<&str>,
        task: Option<&str>,
    ) -> Value {
        let mut message = match self {
            A2aProtocolVersion::V03 => {
                json!({"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]})
            }
            A2aProtocolVersion::V10 => json!({"role": "ROLE_USER", "parts": [{"text": text}]}),
        };
        message["messageId"] = id.into();
        for (field, value) in [("contextId", context), ("taskId", task)] {
            if let Some(value) = value {
                message[field] = value.into();
            }
        }
        json!({"message": message})
    }
}

/// A result of an agent: a task, a part of one, or a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum A2aResult<'v> {
    Task(&'v Value),
    Message(&'v Value),
    Status(&'v Value),
    Artifact(&'v Value),
}

impl<'v> A2aResult<'v> {
    /// Reads a result of either version; `None` if it is of another kind.
    pub(super) fn read(result: &'v Value) -> Option<Self> {
        let fields = ["task", "message", "statusUpdate", "artifactUpdate"];
        let new = fields
            .iter()
            .find_map(|field| Some((*field, result.get(field)?)));
        let (kind, value) = match (result.get("kind").and_then(Value::as_str), new) {
            (Some("task"), _) => ("task", result),
            (Some("message"), _) => ("message", result),
            (Some("status-update"), _) => ("statusUpdate", result),
            (Some("artifact-update"), _) => ("artifactUpdate", result),
            (_, new) => new?,
        };
        Some(match kind {
            "task" => A2aResult::Task(value),
            "message" => A2aResult::Message(value),
            "statusUpdate" => A2aResult::Status(value),
            _ => A2aResult::Artifact(value),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aTaskState {
    Open,
    /// The task waits for another message.
    Asks,
    Completed,
    /// The task failed, or was rejected or cancelled.
    Failed,
}

/// Parses the state in a status: `TASK_STATE_COMPLETED` and `completed` are equal.
pub(super) fn state(status: &Value) -> A2aTaskState {
    let name = status
        .get("state")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    match name
        .trim_start_matches("task_state_")
        .replace('_', "-")
        .as_str()
    {
        "completed" => A2aTaskState::Completed,
        "failed" | "canceled" | "cancelled" | "rejected" => A2aTaskState::Failed,
        "input-required" | "auth-required" => A2aTaskState::Asks,
        _ => A2aTaskState::Open,
    }
}
