//! Approval requests of a swarm, and the clients that can answer them, such as a terminal user or
//! an API client. Every client receives each request, and the first answer counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use goondan_core::ports::approval::{ApprovalAnswer, ApprovalCoverage, ApprovalRequest, Approver};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Distributes approval requests to all registered clients. Cheap to clone. Without a matching
/// client, a request is unanswered at once.
#[derive(Clone, Default)]
pub struct ApprovalBroker {
    state: Arc<Mutex<BrokerState>>,
}

/// Open requests and registered clients, each by number.
#[derive(Default)]
struct BrokerState {
    next: u64,
    open: BTreeMap<u64, UnansweredApproval>,
    listeners: BTreeMap<u64, RegisteredClient>,
}

/// Registered client.
struct RegisteredClient {
    questions: UnboundedSender<ApprovalHandle>,
    /// Filter for the approval requests of this client.
    takes: RequestFilter,
}

type RequestFilter = Box<dyn Fn(&ApprovalRequest) -> bool + Send + Sync>;

impl RegisteredClient {
    /// Sends the request to the client, if its filter accepts the request.
    fn send(&self, question: &ApprovalHandle) {
        if (self.takes)(&question.request) {
            // The client can disconnect before it is removed.
            let _ = self.questions.send(question.clone());
        }
    }
}

/// Approval request without an answer.
struct UnansweredApproval {
    question: ApprovalHandle,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// End state of an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalEnd {
    /// A client answered the request.
    Answered,
    /// The requester no longer waits.
    Withdrawn,
}

/// Handle of one approval request.
#[derive(Clone)]
pub struct ApprovalHandle {
    number: u64,
    /// Requested approval.
    pub request: Arc<ApprovalRequest>,
    end: Arc<OnceLock<ApprovalEnd>>,
    ended: CancellationToken,
    broker: ApprovalBroker,
}

/// Registration of a client that answers approval requests. Dropping it unregisters the client.
/// Requests without a remaining client are then withdrawn.
pub struct ApprovalListener {
    number: u64,
    questions: UnboundedReceiver<ApprovalHandle>,
    broker: ApprovalBroker,
}

impl ApprovalBroker {
    /// Registers a client. It receives the open approval requests first.
    pub fn listen(&self) -> ApprovalListener {
        self.listen_for(|_| true)
    }

    /// Registers a client for the approval requests that `takes` accepts. Other requests do not
    /// wait for this client.
    pub fn listen_for(
        &self,
        takes: impl Fn(&ApprovalRequest) -> bool + Send + Sync + 'static,
    ) -> ApprovalListener {
        let mut state = self.state();
        let (sender, questions) = mpsc::unbounded_channel();
        let client = RegisteredClient {
            questions: sender,
            takes: Box::new(takes),
        };
        state
            .open
            .values()
            .for_each(|open| client.send(&open.question));
        let number = state.next_number();
        state.listeners.insert(number, client);
        ApprovalListener {
            number,
            questions,
            broker: self.clone(),
        }
    }

    /// Returns true if any client is registered.
    pub fn has_listeners(&self) -> bool {
        !self.state().listeners.is_empty()
    }

    /// Returns the open approval requests, oldest first.
    pub fn open(&self) -> Vec<ApprovalHandle> {
        self.state()
            .open
            .values()
            .map(|open| open.question.clone())
            .collect()
    }

    /// Closes an approval request and returns the channel to its requester.
    fn end(&self, number: u64, end: ApprovalEnd) -> Option<oneshot::Sender<ApprovalAnswer>> {
        let UnansweredApproval { question, answer } = self.state().open.remove(&number)?;
        // The request was still open, so its end state is unset.
        let _ = question.end.set(end);
        question.ended.cancel();
        Some(answer)
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BrokerState {
    /// Returns true if a client accepts the request.
    fn has_listener_for(&self, request: &ApprovalRequest) -> bool {
        self.listeners
            .values()
            .any(|client| (client.takes)(request))
    }

    /// Returns a new number, which is unique in this broker.
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[async_trait]
impl Approver for ApprovalBroker {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let (answer_sender, answer_receiver) = oneshot::channel();
        let question = {
            let mut state = self.state();
            if !state.has_listener_for(&request) {
                return ApprovalAnswer::NobodyThere;
            }
            let question = ApprovalHandle {
                number: state.next_number(),
                request: Arc::new(request),
                end: Arc::default(),
                ended: CancellationToken::new(),
                broker: self.clone(),
            };
            state
                .listeners
                .values()
                .for_each(|client| client.send(&question));
            state.open.insert(
                question.number,
                UnansweredApproval {
                    question: question.clone(),
                    answer: answer_sender,
                },
            );
            question
        };
        let _withdrawn = WaitingRequester(&question);
        answer_receiver.await.unwrap_or(ApprovalAnswer::NobodyThere)
    }
}

/// Guard of a waiting requester. Dropping it before an answer withdraws the request.
struct WaitingRequester<'q>(&'q ApprovalHandle);

impl Drop for WaitingRequester<'_> {
    fn drop(&mut self) {
        drop(self.0.broker.end(self.0.number, ApprovalEnd::Withdrawn));
    }
}

impl ApprovalHandle {
    /// Returns true if the request offers the scope of this answer.
    pub fn offers(&self, answer: ApprovalAnswer) -> bool {
        match answer {
            ApprovalAnswer::Allow { covers, .. } => {
                covers == ApprovalCoverage::Call || self.request.is_offered(covers)
            }
            ApprovalAnswer::Deny | ApprovalAnswer::NobodyThere => true,
        }
    }

    /// Answers the request. Returns false if it is already answered or withdrawn.
    pub fn answer(&self, answer: ApprovalAnswer) -> bool {
        let requester = self.broker.end(self.number, ApprovalEnd::Answered);
        // A requester that disconnects at this moment needs no answer.
        requester.map(|requester| requester.send(answer)).is_some()
    }

    /// Returns the end state, or `None` while the request is open.
    pub fn end(&self) -> Option<ApprovalEnd> {
        self.end.get().copied()
    }

    /// Waits until the request is answered or withdrawn.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl ApprovalListener {
    /// Waits for the next approval request.
    pub async fn next(&mut self) -> Option<ApprovalHandle> {
        self.questions.recv().await
    }
}

impl Drop for ApprovalListener {
    fn drop(&mut self) {
        let without_client = {
            let mut state = self.broker.state();
            state.listeners.remove(&self.number);
            let open = std::mem::take(&mut state.open);
            let (with_client, without_client): (BTreeMap<_, _>, BTreeMap<_, _>) = open
                .into_iter()
                .partition(|(_, open)| state.has_listener_for(&open.question.request));
            state.open = with_client;
            without_client
        };
        for UnansweredApproval { question, answer } in without_client.into_values() {
            let _ = question.end.set(ApprovalEnd::Withdrawn);
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
            default_arguments: Default::default(),
            preview: None,
            reason: None,
            offers: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_request_without_listeners_ends_at_once() {
        let broker = ApprovalBroker::default();
        assert_eq!(broker.ask(request("1")).await, ApprovalAnswer::NobodyThere);
        drop(broker.listen());
        assert_eq!(broker.ask(request("2")).await, ApprovalAnswer::NobodyThere);
    }

    #[tokio::test]
    async fn every_listener_receives_a_request_and_the_first_answer_counts() {
        let broker = ApprovalBroker::default();
        let (mut first_listener, mut second_listener) = (broker.listen(), broker.listen());
        let answer = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let (first, second) = (
            first_listener.next().await.unwrap(),
            second_listener.next().await.unwrap(),
        );
        assert_eq!((&*first.request.id, &*second.request.id), ("1", "1"));
        // A client that registers later also receives it.
        assert_eq!(broker.listen().next().await.unwrap().request.id, "1");
        assert!(first.answer(ONCE));
        assert!(!second.answer(ApprovalAnswer::Deny));
        second.ended().await;
        assert_eq!(second.end(), Some(ApprovalEnd::Answered));
        assert_eq!(answer.await.unwrap(), ONCE);
        assert!(broker.open().is_empty());
    }

    #[tokio::test]
    async fn a_request_is_withdrawn_when_its_caller_is_cancelled() {
        let broker = ApprovalBroker::default();
        let mut listener = broker.listen();
        let caller = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let request_handle = listener.next().await.unwrap();
        caller.abort();
        request_handle.ended().await;
        assert_eq!(request_handle.end(), Some(ApprovalEnd::Withdrawn));
        assert!(!request_handle.answer(ONCE));
    }

    #[tokio::test]
    async fn a_request_ends_when_the_last_listener_is_dropped() {
        let broker = ApprovalBroker::default();
        let (mut first_listener, last_listener) = (broker.listen(), broker.listen());
        let answer = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        let request_handle = first_listener.next().await.unwrap();
        drop(first_listener);
        assert_eq!(request_handle.end(), None);
        drop(last_listener);
        assert_eq!(answer.await.unwrap(), ApprovalAnswer::NobodyThere);
        assert_eq!(request_handle.end(), Some(ApprovalEnd::Withdrawn));
    }

    #[tokio::test]
    async fn a_filtered_listener_does_not_keep_other_requests_open() {
        let broker = ApprovalBroker::default();
        let mut filtered = broker.listen_for(|request| request.id == "1");
        assert_eq!(broker.ask(request("2")).await, ApprovalAnswer::NobodyThere);
        let answer = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("1")).await }
        });
        assert!(filtered.next().await.unwrap().answer(ONCE));
        assert_eq!(answer.await.unwrap(), ONCE);
        let unfiltered = broker.listen();
        let answer = tokio::spawn({
            let broker = broker.clone();
            async move { broker.ask(request("2")).await }
        });
        while broker.open().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(unfiltered);
        assert_eq!(
            answer.await.unwrap(),
            ApprovalAnswer::NobodyThere,
            "the filtered listener does not accept this request"
        );
    }
}
