//! Tasks: inputs as A2A clients see them. A task id contains its conversation, so it stays valid
//! after a restart without any stored state.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goondan::event::{FinishReason, TurnResult, turn_id};
use goondan::ids::{InstanceId, derived_id, is_message_of};
use goondan::message::{Message, MessagePart, MessageRole};
use goondan::ports::model::ModelFinishReason;
use goondan::{ApprovalHandle, SubmittedEventState};
use serde_json::{Value, json};

use super::approval;
use super::encoding::{MessageSender, ProtocolVersion, TaskMessage, TaskPart, TaskState, set};
use super::message::IncomingMessage;
use crate::service::Service;
use crate::turn_failure::TurnFailureReport;
use crate::wire::CLIENT_MESSAGE_ID;

/// Prefix of task ids, which are event ids.
const TASK_ID_PREFIX: &str = "evt-a2a-";

/// Name of the artifact with the answer.
pub(super) const ANSWER_ARTIFACT: &str = "answer";

/// Id and conversation of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskId {
    /// Event id, which is also the task id.
    pub(super) id: String,
    /// The task's conversation. Its key is the context id.
    pub(super) instance: InstanceId,
}

impl TaskId {
    /// Returns the task that a message starts. A repeated message gives the same id.
    pub(super) fn for_message(agent: &str, incoming: &IncomingMessage) -> Self {
        let IncomingMessage {
            id,
            context,
            pieces,
            ..
        } = incoming;
        let parts_json = json!(ProtocolVersion::V10.encode_parts(pieces)).to_string();
        let hash = derived_id(&[
            "a2a",
            agent,
            context.as_deref().unwrap_or_default(),
            id,
            &parts_json,
        ]);
        let key = context.clone().unwrap_or_else(|| format!("a2a-{hash}"));
        let encoded_conversation = URL_SAFE_NO_PAD.encode(json!([agent, key]).to_string());
        TaskId {
            id: format!("{TASK_ID_PREFIX}{hash}-{encoded_conversation}"),
            instance: InstanceId::new(agent, key),
        }
    }

    /// Parses a task id; `None` if this server did not create it for this agent.
    pub(super) fn read(id: &str, agent: &str) -> Option<Self> {
        let (hash, encoded_conversation) = id.strip_prefix(TASK_ID_PREFIX)?.split_at_checked(24)?;
        let encoded_conversation = URL_SAFE_NO_PAD
            .decode(encoded_conversation.strip_prefix('-')?)
            .ok()?;
        let (owner, key): (String, String) = serde_json::from_slice(&encoded_conversation).ok()?;
        let is_valid = owner == agent && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| TaskId {
            id: id.to_owned(),
            instance: InstanceId::new(owner, key),
        })
    }

    /// Returns the context id, which is the conversation key.
    pub(super) fn context_id(&self) -> &str {
        &self.instance.instance_key
    }
}

/// State of a task for the client.
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) status: TaskStatus,
    answer: Vec<TaskPart>,
    history: Vec<TaskMessage>,
}

/// Status of a task.
#[derive(Debug, Clone)]
pub(super) struct TaskStatus {
    pub(super) state: TaskState,
    pub(super) message: Option<TaskMessage>,
    /// Start of the status, if known.
    pub(super) since: Option<Value>,
    /// The reason why the answer is incomplete; none for a complete answer.
    pub(super) finish_reason: Option<ModelFinishReason>,
}

impl TaskStatus {
    /// Returns a status without a message.
    pub(super) fn from_state(state: TaskState) -> Self {
        TaskStatus {
            state,
            message: None,
            since: None,
            finish_reason: None,
        }
    }

    /// Returns the `metadata` of a task and of its status update; none for a complete answer.
    pub(super) fn metadata(&self) -> Option<Value> {
        let reason = self.finish_reason.as_ref()?;
        Some(json!({"finishReason": reason.as_str()}))
    }

    /// Returns the status of a submitted event.
    pub(super) fn of_found(service: &Service, id: &TaskId, state: &SubmittedEventState) -> Self {
        let turn = match state {
            SubmittedEventState::Over(result) => return TaskStatus::from_result(result),
            SubmittedEventState::Open(turn) => turn,
        };
        let gateway = service.gateway();
        let running = gateway.hub().running_turn(&turn.instance);
        let runs = running.is_some_and(|running| running.trace_id == turn.trace_id);
        match gateway.approvals().open_in(&turn.trace_id).first() {
            Some(question) => TaskStatus::awaiting_approval(service, id, question),
            None if runs => TaskStatus::from_state(TaskState::Working),
            None => TaskStatus::from_state(TaskState::Submitted),
        }
    }

    /// Returns the status after a turn.
    pub(super) fn from_result(result: &TurnResult) -> Self {
        let state = match result.finish_reason {
            FinishReason::TextResponse => TaskState::Completed,
            FinishReason::Cancelled => TaskState::Canceled,
            FinishReason::MaxSteps | FinishReason::Error => TaskState::Failed,
        };
        let failure = TurnFailureReport::from_result(result).filter(|_| state == TaskState::Failed);
        let message = failure.map(|failure| agent_message(&result.turn_id, failure.to_message()));
        TaskStatus {
            message,
            finish_reason: result.model_finish_reason.clone(),
            ..TaskStatus::from_state(state)
        }
    }

    /// Returns the status of a task that waits for approval, and notes the request as shown.
    pub(super) fn awaiting_approval(
        service: &Service,
        id: &TaskId,
        question: &ApprovalHandle,
    ) -> Self {
        service.inner.a2a.note_shown(id, question);
        TaskStatus {
            message: Some(approval::request_message(question)),
            ..TaskStatus::from_state(TaskState::InputRequired)
        }
    }

    /// Encodes the status.
    pub(super) fn write(&self, id: &TaskId, dialect: ProtocolVersion) -> Value {
        let mut status = json!({"state": dialect.state(self.state)});
        let message = self
            .message
            .as_ref()
            .map(|said| dialect.encode_message(said, &id.id, id.context_id()));
        set(&mut status, "message", message);
        set(&mut status, "timestamp", self.since.clone());
        status
    }
}

/// Creates a status message of the agent.
pub(super) fn agent_message(id: &str, text: String) -> TaskMessage {
    TaskMessage {
        id: format!("{id}-status"),
        by: MessageSender::Agent,
        pieces: vec![TaskPart::Text(text)],
    }
}

impl Task {
    /// Reads a task; `None` if its event is unknown.
    pub(super) async fn find(service: &Service, id: &TaskId) -> Option<Task> {
        let state = service.swarm().find(&id.id).await?;
        let messages = service
            .swarm()
            .conversation(&id.instance)
            .await
            .unwrap_or_default();
        let turn_id = turn_id(&id.id);
        let own_messages = messages
            .iter()
            .map(|message| &**message)
            .filter(|message| is_message_of(&message.id, &turn_id));
        let own_messages: Vec<&Message> = own_messages.collect();
        let status = TaskStatus::of_found(service, id, &state);
        let since = own_messages
            .last()
            .map(|message| json!(message.created_at))
            .filter(|_| status.state.is_terminal());
        let answer = match &state {
            SubmittedEventState::Over(result) => answer_of(result),
            SubmittedEventState::Open(_) => Vec::new(),
        };
        let history = own_messages
            .iter()
            .filter_map(|message| to_task_message(message))
            .collect();
        Some(Task {
            id: id.clone(),
            status: TaskStatus { since, ..status },
            answer,
            history,
        })
    }

    /// Returns the task as it was when it was accepted.
    pub(super) fn at_beginning(self) -> Task {
        let history = self
            .history
            .into_iter()
            .filter(|message| message.by == MessageSender::Client)
            .collect();
        Task {
            status: TaskStatus::from_state(TaskState::Submitted),
            answer: Vec::new(),
            history,
            ..self
        }
    }

    /// Returns true if the task is completed, canceled or failed.
    pub(super) fn is_over(&self) -> bool {
        self.status.state.is_terminal()
    }

    /// Encodes the task with at most `history` messages.
    pub(super) fn write(
        &self,
        dialect: ProtocolVersion,
        history: Option<usize>,
        artifacts: bool,
    ) -> Value {
        let TaskId { id, .. } = &self.id;
        let mut task = json!({"id": id, "contextId": self.id.context_id(), "status": self.status.write(&self.id, dialect)});
        if artifacts && !self.answer.is_empty() {
            task["artifacts"] = json!([encode_artifact(dialect, &self.answer)]);
        }
        set(&mut task, "metadata", self.status.metadata());
        let skipped = history.map_or(0, |max_messages| {
            self.history.len().saturating_sub(max_messages)
        });
        let history: Vec<Value> = self.history[skipped..]
            .iter()
            .map(|message| dialect.encode_message(message, id, self.id.context_id()))
            .collect();
        if !history.is_empty() {
            task["history"] = history.into();
        }
        task
    }
}

/// Encodes the answer artifact.
pub(super) fn encode_artifact(dialect: ProtocolVersion, pieces: &[TaskPart]) -> Value {
    json!({"artifactId": ANSWER_ARTIFACT, "name": ANSWER_ARTIFACT, "parts": dialect.encode_parts(pieces)})
}

/// Returns the answer of a turn. Text of a failed turn does not count as an answer.
pub(super) fn answer_of(result: &TurnResult) -> Vec<TaskPart> {
    let is_answer = matches!(
        result.finish_reason,
        FinishReason::TextResponse | FinishReason::MaxSteps
    );
    let message = result.response_message.as_ref().filter(|_| is_answer);
    message.map(message_parts).unwrap_or_default()
}

/// Returns the text and the files of a message.
fn message_parts(message: &Message) -> Vec<TaskPart> {
    let piece = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } if !text.is_empty() => Some(TaskPart::Text(text.clone())),
        MessagePart::File(file) => Some(TaskPart::File(file.clone())),
        _ => None,
    };
    message.data.content.iter().filter_map(piece).collect()
}

/// Converts a message of the conversation; `None` if it is from neither the client nor the agent.
fn to_task_message(message: &Message) -> Option<TaskMessage> {
    let by = match message.data.role {
        MessageRole::User => MessageSender::Client,
        MessageRole::Assistant => MessageSender::Agent,
        MessageRole::System | MessageRole::Tool => return None,
    };
    let client_id = message
        .metadata
        .get(CLIENT_MESSAGE_ID)
        .and_then(Value::as_str)
        .filter(|_| by == MessageSender::Client);
    let task_message = TaskMessage {
        id: client_id.unwrap_or(&message.id).to_owned(),
        by,
        pieces: message_parts(message),
    };
    (!task_message.pieces.is_empty()).then_some(task_message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn incoming(id: &str, context: Option<&str>, text: &str) -> IncomingMessage {
        IncomingMessage {
            id: id.to_owned(),
            context: context.map(str::to_owned),
            task: None,
            pieces: vec![TaskPart::Text(text.to_owned())],
            metadata: Default::default(),
            at_once: false,
            history: None,
        }
    }

    proptest! {
        #[test]
        fn a_task_id_is_read_only_for_its_agent(agent: String, id: String, context: Option<String>) {
            let task = TaskId::for_message(&agent, &incoming(&id, context.as_deref(), "hi"));
            prop_assert!(task.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            prop_assert_eq!(TaskId::read(&task.id, &agent), Some(task.clone()));
            prop_assert_eq!(TaskId::read(&task.id, &format!("{agent}2")), None);
        }

        #[test]
        fn invalid_task_ids_are_rejected(text: String) {
            prop_assert_eq!(TaskId::read(&text, "a"), None);
            prop_assert_eq!(TaskId::read(&format!("{TASK_ID_PREFIX}{text}"), "a"), None);
        }
    }

    #[test]
    fn task_ids_depend_on_message_id_context_and_text() {
        let of = |id, context, text| TaskId::for_message("a", &incoming(id, context, text));
        assert_eq!(of("1", None, "x"), of("1", None, "x"));
        assert_eq!(of("1", Some("c"), "x").context_id(), "c");
        for other in [
            of("2", None, "x"),
            of("1", Some("c"), "x"),
            of("1", None, "y"),
        ] {
            assert_ne!(of("1", None, "x").id, other.id);
        }
    }
}
