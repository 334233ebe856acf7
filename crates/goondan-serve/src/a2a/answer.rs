//! Questions of tools, as the status of a task, and the messages that answer them.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use goondan::Question;
use goondan::ports::approval::Covers;
use goondan::spec::JsonObject;
use lru::LruCache;
use serde_json::{Value, json};

use super::dialect::{Piece, Said, Speaker};
use super::message::Incoming;
use super::rpc::RpcError;
use super::task::TaskId;
use crate::asking;
use crate::service::Service;
use crate::wire::{Answer, AnswerBody, Cover, QuestionBody};

/// So many tasks are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Which question was told last of each task. A word answers what its sender was asked: not the question that comes next.
pub(crate) struct Told(Mutex<LruCache<String, String>>);

impl Default for Told {
    fn default() -> Self {
        Told(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Told {
    /// A client is told that the task waits for an answer.
    pub(super) fn tell(&self, task: &TaskId, question: &Question) {
        self.state()
            .put(task.id.clone(), question.request.id.clone());
    }

    fn last(&self, task: &TaskId) -> Option<String> {
        self.state().get(&task.id).cloned()
    }

    fn state(&self) -> MutexGuard<'_, LruCache<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The question as a message: for people, and as data.
pub(super) fn told(question: &Question) -> Said {
    let request = &question.request;
    let words = format!(
        "{}\n\nAnswer with once, conversation, always or deny.",
        request.words()
    );
    let pieces = vec![
        Piece::Text(words),
        Piece::Data(json!(QuestionBody::from(&**request))),
    ];
    Said {
        id: format!("question-{}", request.id),
        by: Speaker::Agent,
        pieces,
    }
}

/// Takes a message as the answer to a question of its task. Words that are no answer, or that answer a question of which their
/// sender has not heard, change nothing: the task says again what it waits for.
pub(super) fn take(
    service: &Service,
    id: &TaskId,
    trace_id: &str,
    message: &Incoming,
) -> Result<(), RpcError> {
    if service.inner.given.has(&id.id, &message.id) {
        // It is sent again.
        return Ok(());
    }
    let Some(oldest) = asking::asked(service, trace_id) else {
        let words = "The task works; it takes no messages meanwhile. Send the message with the `contextId` alone: it begins \
                     the next task of the conversation.";
        return Err(RpcError::unsupported(words));
    };
    let Some((named, answer)) = read(message)? else {
        return Ok(());
    };
    let closed =
        "The question is not open any more. Ask for the task: its status says what it waits for.";
    let question = match named {
        Some(named) => of_task(service, trace_id, &named)
            .ok_or_else(|| RpcError::field("message.parts", closed))?,
        None if service.inner.a2a.last(id).as_ref() == Some(&oldest.request.id) => oldest,
        None => return Ok(()),
    };
    let covers = Covers::from(answer.covers);
    if covers != Covers::Call && !question.request.is_offered(covers) {
        return Err(RpcError::field(
            "message.parts",
            "The question does not offer that. It is still open.",
        ));
    }
    if !question.answer(answer.meaning()) {
        return Err(RpcError::field("message.parts", closed));
    }
    service.inner.given.note(&id.id, &message.id);
    Ok(())
}

/// The open question of that id, where it is one of that chain.
fn of_task(service: &Service, trace_id: &str, id: &str) -> Option<Question> {
    asking::all_asked(service, trace_id).find(|question| question.request.id == id)
}

/// Reads an answer: data with `answer`, and maybe the `id` of the question; or one word. `None` for other words.
fn read(message: &Incoming) -> Result<Option<(Option<String>, AnswerBody)>, RpcError> {
    for piece in &message.pieces {
        if let Piece::Data(Value::Object(data)) = piece {
            let mut data: JsonObject = data.clone();
            let id = data
                .remove("id")
                .and_then(|id| id.as_str().map(str::to_owned));
            let answer = serde_json::from_value(Value::Object(data));
            return answer.map(|answer| Some((id, answer))).map_err(|error| {
                RpcError::field(
                    "message.parts",
                    format!("The answer does not fit: {error}."),
                )
            });
        }
    }
    let (text, _) = message.input();
    let answer = match &*text.trim().trim_end_matches(['.', '!']).to_lowercase() {
        "once" | "yes" => Answer::Once,
        "conversation" => Answer::Conversation,
        "always" => Answer::Always,
        "deny" | "no" => Answer::Deny,
        _ => return Ok(None),
    };
    Ok(Some((
        None,
        AnswerBody {
            answer,
            covers: Cover::Call,
        },
    )))
}
