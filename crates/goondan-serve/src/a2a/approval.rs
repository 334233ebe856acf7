//! Approval requests as task status, and the messages that answer them.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use goondan::ApprovalHandle;
use goondan::gateway::ApprovalRefusal;
use goondan::spec::JsonObject;
use lru::LruCache;
use serde_json::{Value, json};

use super::encoding::{MessageSender, TaskMessage, TaskPart};
use super::message::IncomingMessage;
use super::rpc::RpcError;
use super::task::TaskId;
use crate::service::Service;
use crate::wire::{AnswerBody, ApprovalChoice, CoverageBody, QuestionBody};

const MAX_SHOWN_REQUESTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Approval request last shown for each task. An answer without a request id applies to this
/// request, and never to one that opened later.
pub(crate) struct ShownRequests(Mutex<LruCache<String, String>>);

impl Default for ShownRequests {
    fn default() -> Self {
        ShownRequests(Mutex::new(LruCache::new(MAX_SHOWN_REQUESTS)))
    }
}

impl ShownRequests {
    /// Notes the approval request that is shown to a client.
    pub(super) fn note_shown(&self, task: &TaskId, question: &ApprovalHandle) {
        self.state()
            .put(task.id.clone(), question.request.id.clone());
    }

    /// Returns the id of the request that clients of this task saw last.
    fn last_shown_id(&self, task: &TaskId) -> Option<String> {
        self.state().get(&task.id).cloned()
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, LruCache<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the approval request as a message, as text and as data.
pub(super) fn request_message(question: &ApprovalHandle) -> TaskMessage {
    let request = &question.request;
    let text = format!(
        "{}\n\nAnswer with once, conversation, always or deny.",
        request.to_plain_text()
    );
    let pieces = vec![
        TaskPart::Text(text),
        TaskPart::Data(json!(QuestionBody::from(&**request))),
    ];
    TaskMessage {
        id: format!("question-{}", request.id),
        by: MessageSender::Agent,
        pieces,
    }
}

/// Applies a message as the answer to an approval request of its task. Ignores text that is not an
/// answer, and answers to requests that the client has not seen. The task status then shows the
/// open request again.
pub(super) fn apply_answer(
    service: &Service,
    id: &TaskId,
    trace_id: &str,
    message: &IncomingMessage,
) -> Result<(), RpcError> {
    let approvals = service.gateway().approvals();
    if approvals.was_given(&id.id, &message.id) {
        // A repeated message.
        return Ok(());
    }
    let open = approvals.open_in(trace_id);
    let Some(oldest) = open.first() else {
        let notice = "The task is running and accepts no messages. To start the next task of the \
            conversation, send the message with only the `contextId`.";
        return Err(RpcError::unsupported_operation(notice));
    };
    let Some((requested_id, answer)) = read(message)? else {
        return Ok(());
    };
    let oldest_id = &oldest.request.id;
    let request_id = match requested_id {
        Some(requested_id) => requested_id,
        None if service.inner.a2a.last_shown_id(id).as_ref() == Some(oldest_id) => {
            oldest_id.clone()
        }
        None => return Ok(()),
    };
    let answered = approvals.answer_in(trace_id, &request_id, answer.to_approval_answer());
    answered.map_err(|refusal| {
        let notice = match refusal {
            ApprovalRefusal::NotOpen => {
                "The approval request is no longer open. Get the task: its status shows the open \
                request."
            }
            ApprovalRefusal::NotOffered => {
                "The approval request does not offer this scope. The request is still open."
            }
        };
        RpcError::invalid_param("message.parts", notice)
    })?;
    approvals.note_given(&id.id, &message.id);
    Ok(())
}

/// Parses an answer: data with `answer` and an optional request `id`, or one word. `None` for other
/// text.
fn read(message: &IncomingMessage) -> Result<Option<(Option<String>, AnswerBody)>, RpcError> {
    for piece in &message.pieces {
        if let TaskPart::Data(Value::Object(data)) = piece {
            let mut data: JsonObject = data.clone();
            let id = data
                .remove("id")
                .and_then(|id| id.as_str().map(str::to_owned));
            let answer = serde_json::from_value(Value::Object(data));
            return answer.map(|answer| Some((id, answer))).map_err(|error| {
                RpcError::invalid_param("message.parts", format!("The answer is invalid: {error}."))
            });
        }
    }
    let (text, _) = message.input();
    let answer = match &*text.trim().trim_end_matches(['.', '!']).to_lowercase() {
        "once" | "yes" => ApprovalChoice::Once,
        "conversation" => ApprovalChoice::Conversation,
        "always" => ApprovalChoice::Always,
        "deny" | "no" => ApprovalChoice::Deny,
        _ => return Ok(None),
    };
    Ok(Some((
        None,
        AnswerBody {
            answer,
            covers: CoverageBody::Call,
        },
    )))
}
