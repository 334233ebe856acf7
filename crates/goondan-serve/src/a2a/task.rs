//! A task: an input, seen from outside. Its id says where it lies, so that it holds across restarts and nothing is kept for it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goondan::event::{FinishReason, TurnResult, turn_id};
use goondan::ids::{InstanceId, derived_id, is_message_of};
use goondan::message::{Message, Part, Role};
use goondan::ports::model::ModelFinishReason;
use goondan::{Found, Question};
use serde_json::{Value, json};

use super::answer;
use super::dialect::{Dialect, Piece, Said, Speaker, State, set};
use super::message::Incoming;
use crate::asking;
use crate::failure::Failure;
use crate::service::Service;
use crate::wire::CLIENT_MESSAGE_ID;

/// What the ids of tasks begin with: they are those of events.
const PREFIX: &str = "evt-a2a-";

/// The artifact that holds the answer.
pub(super) const ANSWER: &str = "answer";

/// Where a task lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskId {
    /// The id of the event, which is the one of the task.
    pub(super) id: String,
    /// Whose conversation it is in; its key is the id of the context.
    pub(super) instance: InstanceId,
}

impl TaskId {
    /// The task that a message begins: the same for a message that is sent again.
    pub(super) fn of(agent: &str, incoming: &Incoming) -> Self {
        let Incoming {
            id,
            context,
            pieces,
            ..
        } = incoming;
        let said = json!(Dialect::V10.pieces(pieces)).to_string();
        let hash = derived_id(&[
            "a2a",
            agent,
            context.as_deref().unwrap_or_default(),
            id,
            &said,
        ]);
        let key = context.clone().unwrap_or_else(|| format!("a2a-{hash}"));
        let place = URL_SAFE_NO_PAD.encode(json!([agent, key]).to_string());
        TaskId {
            id: format!("{PREFIX}{hash}-{place}"),
            instance: InstanceId::new(agent, key),
        }
    }

    /// The task of an agent with that id; `None` for what this server has not made.
    pub(super) fn read(id: &str, agent: &str) -> Option<Self> {
        let (hash, place) = id.strip_prefix(PREFIX)?.split_at_checked(24)?;
        let place = URL_SAFE_NO_PAD.decode(place.strip_prefix('-')?).ok()?;
        let (of, key): (String, String) = serde_json::from_slice(&place).ok()?;
        let is_ours = of == agent && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| TaskId {
            id: id.to_owned(),
            instance: InstanceId::new(of, key),
        })
    }

    /// The id of the context.
    pub(super) fn context(&self) -> &str {
        &self.instance.instance_key
    }
}

/// A task as it stands.
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) status: Status,
    answer: Vec<Piece>,
    history: Vec<Said>,
}

/// How a task stands.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) state: State,
    /// What there is to say of it.
    pub(super) message: Option<Said>,
    /// Since when, where that is known.
    pub(super) since: Option<Value>,
    /// The reason why the answer is incomplete; none for a complete answer.
    pub(super) finish_reason: Option<ModelFinishReason>,
}

impl Status {
    /// Without words.
    pub(super) fn of(state: State) -> Self {
        Status {
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

    /// How the task of an event stands.
    pub(super) fn of_found(service: &Service, id: &TaskId, found: &Found) -> Self {
        let turn = match found {
            Found::Over(result) => return Status::ended(result),
            Found::Open(turn) => turn,
        };
        let runs = service.inner.hub.chain_of(&turn.instance).as_ref() == Some(&turn.trace_id);
        match asking::asked(service, &turn.trace_id) {
            Some(question) => Status::asks(service, id, &question),
            None if runs => Status::of(State::Working),
            None => Status::of(State::Submitted),
        }
    }

    /// What a turn came to.
    pub(super) fn ended(result: &TurnResult) -> Self {
        let state = match result.finish_reason {
            FinishReason::TextResponse => State::Completed,
            FinishReason::Cancelled => State::Canceled,
            FinishReason::MaxSteps | FinishReason::Error => State::Failed,
        };
        let failure = Failure::of(result).filter(|_| state == State::Failed);
        let message = failure.map(|failure| words_of_agent(&result.turn_id, failure.words()));
        Status {
            message,
            finish_reason: result.model_finish_reason.clone(),
            ..Status::of(state)
        }
    }

    /// It waits for somebody's word. The client is told so.
    pub(super) fn asks(service: &Service, id: &TaskId, question: &Question) -> Self {
        service.inner.a2a.tell(id, question);
        Status {
            message: Some(answer::told(question)),
            ..Status::of(State::InputRequired)
        }
    }

    pub(super) fn write(&self, id: &TaskId, dialect: Dialect) -> Value {
        let mut status = json!({"state": dialect.state(self.state)});
        let message = self
            .message
            .as_ref()
            .map(|said| dialect.said(said, &id.id, id.context()));
        set(&mut status, "message", message);
        set(&mut status, "timestamp", self.since.clone());
        status
    }
}

/// A message of the agent about a task.
pub(super) fn words_of_agent(id: &str, words: String) -> Said {
    Said {
        id: format!("{id}-status"),
        by: Speaker::Agent,
        pieces: vec![Piece::Text(words)],
    }
}

impl Task {
    /// Looks a task up; `None` where there is none.
    pub(super) async fn find(service: &Service, id: &TaskId) -> Option<Task> {
        let found = service.swarm().find(&id.id).await?;
        let messages = service
            .swarm()
            .conversation(&id.instance)
            .await
            .unwrap_or_default();
        let turn_id = turn_id(&id.id);
        let mine = messages
            .iter()
            .map(|message| &**message)
            .filter(|message| is_message_of(&message.id, &turn_id));
        let mine: Vec<&Message> = mine.collect();
        let status = Status::of_found(service, id, &found);
        let since = mine
            .last()
            .map(|message| json!(message.created_at))
            .filter(|_| status.state.is_terminal());
        let answer = match &found {
            Found::Over(result) => answer_of(result),
            Found::Open(_) => Vec::new(),
        };
        let history = mine.iter().filter_map(|message| said(message)).collect();
        Some(Task {
            id: id.clone(),
            status: Status { since, ..status },
            answer,
            history,
        })
    }

    /// As it was when it was accepted.
    pub(super) fn at_beginning(self) -> Task {
        let history = self
            .history
            .into_iter()
            .filter(|said| said.by == Speaker::Client)
            .collect();
        Task {
            status: Status::of(State::Submitted),
            answer: Vec::new(),
            history,
            ..self
        }
    }

    /// Nothing comes behind.
    pub(super) fn is_over(&self) -> bool {
        self.status.state.is_terminal()
    }

    /// As clients get it, with at most so many messages.
    pub(super) fn write(&self, dialect: Dialect, history: Option<usize>, artifacts: bool) -> Value {
        let TaskId { id, .. } = &self.id;
        let mut task = json!({"id": id, "contextId": self.id.context(), "status": self.status.write(&self.id, dialect)});
        if artifacts && !self.answer.is_empty() {
            task["artifacts"] = json!([artifact(dialect, &self.answer)]);
        }
        set(&mut task, "metadata", self.status.metadata());
        let skipped = history.map_or(0, |most| self.history.len().saturating_sub(most));
        let history: Vec<Value> = self.history[skipped..]
            .iter()
            .map(|said| dialect.said(said, id, self.id.context()))
            .collect();
        if !history.is_empty() {
            task["history"] = history.into();
        }
        task
    }
}

/// The artifact with the answer.
pub(super) fn artifact(dialect: Dialect, pieces: &[Piece]) -> Value {
    json!({"artifactId": ANSWER, "name": ANSWER, "parts": dialect.pieces(pieces)})
}

/// What a turn has answered. A turn that has failed may have said something before.
pub(super) fn answer_of(result: &TurnResult) -> Vec<Piece> {
    let is_answer = matches!(
        result.finish_reason,
        FinishReason::TextResponse | FinishReason::MaxSteps
    );
    let message = result.response_message.as_ref().filter(|_| is_answer);
    message.map(pieces).unwrap_or_default()
}

fn pieces(message: &Message) -> Vec<Piece> {
    let piece = |part: &Part| match part {
        Part::Text { text, .. } if !text.is_empty() => Some(Piece::Text(text.clone())),
        Part::File(file) => Some(Piece::File(file.clone())),
        _ => None,
    };
    message.data.content.iter().filter_map(piece).collect()
}

/// A message of the conversation, where it is one of the client or of the agent.
fn said(message: &Message) -> Option<Said> {
    let by = match message.data.role {
        Role::User => Speaker::Client,
        Role::Assistant => Speaker::Agent,
        Role::System | Role::Tool => return None,
    };
    let given = message
        .metadata
        .get(CLIENT_MESSAGE_ID)
        .and_then(Value::as_str)
        .filter(|_| by == Speaker::Client);
    let said = Said {
        id: given.unwrap_or(&message.id).to_owned(),
        by,
        pieces: pieces(message),
    };
    (!said.pieces.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn incoming(id: &str, context: Option<&str>, text: &str) -> Incoming {
        Incoming {
            id: id.to_owned(),
            context: context.map(str::to_owned),
            task: None,
            pieces: vec![Piece::Text(text.to_owned())],
            metadata: Default::default(),
            at_once: false,
            history: None,
        }
    }

    proptest! {
        #[test]
        fn a_task_is_found_by_its_id(agent: String, id: String, context: Option<String>) {
            let task = TaskId::of(&agent, &incoming(&id, context.as_deref(), "hi"));
            prop_assert!(task.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            prop_assert_eq!(TaskId::read(&task.id, &agent), Some(task.clone()));
            prop_assert_eq!(TaskId::read(&task.id, &format!("{agent}2")), None);
        }

        #[test]
        fn what_is_no_id_is_told(text: String) {
            prop_assert_eq!(TaskId::read(&text, "a"), None);
            prop_assert_eq!(TaskId::read(&format!("{PREFIX}{text}"), "a"), None);
        }
    }

    #[test]
    fn the_same_message_is_the_same_task_and_another_one_is_not() {
        let of = |id, context, text| TaskId::of("a", &incoming(id, context, text));
        assert_eq!(of("1", None, "x"), of("1", None, "x"));
        assert_eq!(of("1", Some("c"), "x").context(), "c");
        for other in [
            of("2", None, "x"),
            of("1", Some("c"), "x"),
            of("1", None, "y"),
        ] {
            assert_ne!(of("1", None, "x").id, other.id);
        }
    }
}
