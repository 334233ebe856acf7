//! Questions of a swarm, and whoever is there to answer them: a person at a terminal, a program behind a pipe, a client of a
//! server. All of them see each question, and the first answer counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use goondan_core::ports::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Passes questions to everybody who is there. Cheap to clone. While nobody is there, nobody answers.
#[derive(Clone, Default)]
pub struct Broker {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Open>,
    listeners: BTreeMap<u64, There>,
}

/// Somebody who is there.
struct There {
    questions: UnboundedSender<Question>,
    /// Which questions are for him.
    takes: Takes,
}

type Takes = Box<dyn Fn(&ApprovalRequest) -> bool + Send + Sync>;

impl There {
    fn tell(&self, question: &Question) {
        if (self.takes)(&question.request) {
            // The receiver may be gone already.
            let _ = self.questions.send(question.clone());
        }
    }
}

/// A question that nobody has answered yet.
struct Open {
    question: Question,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// How a question came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionEnd {
    /// Somebody has answered.
    Answered,
    /// The asker is gone.
    Withdrawn,
}

/// A question, as one of those sees it who are there.
#[derive(Clone)]
pub struct Question {
    number: u64,
    /// What is asked.
    pub request: Arc<ApprovalRequest>,
    end: Arc<OnceLock<QuestionEnd>>,
    ended: CancellationToken,
    broker: Broker,
}

/// Somebody who is there. Once it is dropped, it is not; the last one takes hope from the questions that are open.
pub struct Listener {
    number: u64,
    questions: UnboundedReceiver<Question>,
    broker: Broker,
}

impl Broker {
    /// Somebody is there from now on, and sees the open questions first.
    pub fn listen(&self) -> Listener {
        self.listen_for(|_| true)
    }

    /// Somebody is there from now on for the questions that `takes` picks. Where nobody else is, the others are not waited for.
    pub fn listen_for(
        &self,
        takes: impl Fn(&ApprovalRequest) -> bool + Send + Sync + 'static,
    ) -> Listener {
        let mut state = self.state();
        let (sender, questions) = mpsc::unbounded_channel();
        let there = There {
            questions: sender,
            takes: Box::new(takes),
        };
        state
            .open
            .values()
            .for_each(|open| there.tell(&open.question));
        let number = state.number();
        state.listeners.insert(number, there);
        Listener {
            number,
            questions,
            broker: self.clone(),
        }
    }

    /// Whether there is anybody who could answer.
    pub fn is_anybody_there(&self) -> bool {
        !self.state().listeners.is_empty()
    }

    /// The questions that nobody has answered yet, oldest first.
    pub fn open(&self) -> Vec<Question> {
        self.state()
            .open
            .values()
            .map(|open| open.question.clone())
            .collect()
    }

    /// Takes a question out, with the way to its asker.
    fn end(&self, number: u64, end: QuestionEnd) -> Option<oneshot::Sender<ApprovalAnswer>> {
        let Open { question, answer } = self.state().open.remove(&number)?;
        // It was open: nobody has set it.
        let _ = question.end.set(end);
        question.ended.cancel();
        Some(answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_for_anybody(&self, request: &ApprovalRequest) -> bool {
        self.listeners.values().any(|there| (there.takes)(request))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[async_trait]
impl Approver for Broker {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let (answer, told) = oneshot::channel();
        let question = {
            let mut state = self.state();
            if !state.is_for_anybody(&request) {
                return ApprovalAnswer::NobodyThere;
            }
            let question = Question {
                number: state.number(),
                request: Arc::new(request),
                end: Arc::default(),
                ended: CancellationToken::new(),
                broker: self.clone(),
            };
            state
                .listeners
                .values()
                .for_each(|there| there.tell(&question));
            state.open.insert(
                question.number,
                Open {
                    question: question.clone(),
                    answer,
                },
            );
            question
        };
        let _withdrawn = Asking(&question);
        told.await.unwrap_or(ApprovalAnswer::NobodyThere)
    }
}

/// The asker. Where it goes before there is an answer, the question is withdrawn.
struct Asking<'q>(&'q Question);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        drop(self.0.broker.end(self.0.number, QuestionEnd::Withdrawn));
    }
}

impl Question {
    /// Answers it; false where it was answered or withdrawn before.
    pub fn answer(&self, answer: ApprovalAnswer) -> bool {
        let asker = self.broker.end(self.number, QuestionEnd::Answered);
        // An asker that goes at this moment needs no answer.
        asker.map(|asker| asker.send(answer)).is_some()
    }

    /// How it came to its end; `None` while it is open.
    pub fn end(&self) -> Option<QuestionEnd> {
        self.end.get().copied()
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Listener {
    /// Waits for the next question.
    pub async fn next(&mut self) -> Option<Question> {
        self.questions.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let hopeless = {
            let mut state = self.broker.state();
            state.listeners.remove(&self.number);
            let open = std::mem::take(&mut state.open);
            let (kept, hopeless): (BTreeMap<_, _>, BTreeMap<_, _>) = open
                .into_iter()
                .partition(|(_, open)| state.is_for_anybody(&open.question.request));
            state.open = kept;
            hopeless
        };
        for Open { question, answer } in hopeless.into_values() {
            let _ = question.end.set(QuestionEnd::Withdrawn);
            question.ended.cancel();
            let _ = answer.send(ApprovalAnswer::NobodyThere);
        }
    }
}

#[cfg(test)]
mod tests {
    use goondan_core::ids::InstanceId;

    use super::*;

    const ONCE: ApprovalAnswer = ApprovalAnswer::ONCE;

    fn request(id: &str) -> ApprovalRequest {
        ApprovalRequest {
            id: id.to_owned(),
            instance: InstanceId::new("a", "main"),
            trace_id: String::new(),
            tool_call_id: "c".to_owned(),
            tool_name: "bash__exec".to_owned(),
            arguments: Default::default(),
            preview: None,
            reason: None,
            offers: Vec::new(),
        }
    }

    #[tokio::test]
    async fn nobody_answers_where_nobody_is_there() {
        let broker = Broker::default();
        assert_eq!(broker.ask(request("1")).await, ApprovalAnswer::NobodyThere);
        drop(broker.listen());
        assert_eq!(broker.ask(request("2")).await, ApprovalAnswer::NobodyThere);
    }

    #[tokio::test]
    async fn everybody_sees_a_question_and_the_first_answer_counts() {
        let broker = Broker::default();
        let (mut one, mut other) = (broker.listen(), broker.listen());
        let asked = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let (mine, theirs) = (one.next().await.unwrap(), other.next().await.unwrap());
        assert_eq!((&*mine.request.id, &*theirs.request.id), ("1", "1"));
        // Who comes late sees it, too.
        assert_eq!(broker.listen().next().await.unwrap().request.id, "1");
        assert!(mine.answer(ONCE));
        assert!(!theirs.answer(ApprovalAnswer::Deny));
        theirs.ended().await;
        assert_eq!(theirs.end(), Some(QuestionEnd::Answered));
        assert_eq!(asked.await.unwrap(), ONCE);
        assert!(broker.open().is_empty());
    }

    #[tokio::test]
    async fn a_question_whose_asker_goes_is_withdrawn() {
        let broker = Broker::default();
        let mut listener = broker.listen();
        let asker = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let question = listener.next().await.unwrap();
        asker.abort();
        question.ended().await;
        assert_eq!(question.end(), Some(QuestionEnd::Withdrawn));
        assert!(!question.answer(ONCE));
    }

    #[tokio::test]
    async fn the_last_one_who_goes_leaves_no_hope() {
        let broker = Broker::default();
        let (mut first, last) = (broker.listen(), broker.listen());
        let asked = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let question = first.next().await.unwrap();
        drop(first);
        assert_eq!(question.end(), None);
        drop(last);
        assert_eq!(asked.await.unwrap(), ApprovalAnswer::NobodyThere);
        assert_eq!(question.end(), Some(QuestionEnd::Withdrawn));
    }

    #[tokio::test]
    async fn who_takes_some_questions_keeps_nobody_waiting_for_others() {
        let broker = Broker::default();
        let mut one = broker.listen_for(|request| request.id == "1");
        assert_eq!(broker.ask(request("2")).await, ApprovalAnswer::NobodyThere);
        let asked = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        assert!(one.next().await.unwrap().answer(ONCE));
        assert_eq!(asked.await.unwrap(), ONCE);
        let everybody = broker.listen();
        let asked = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("2")).await }
        });
        while broker.open().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(everybody);
        assert_eq!(
            asked.await.unwrap(),
            ApprovalAnswer::NobodyThere,
            "who is left does not take it"
        );
    }
}
