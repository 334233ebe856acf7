//! Approval requests for clients that follow a turn: the requests of a trace, the clients that are
//! present for it, and repeated answers.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan_core::ports::approval::ApprovalAnswer;
use lru::LruCache;

use crate::approvals::broker::{ApprovalBroker, ApprovalHandle, ApprovalListener};

/// Longest wait for a client that left the stream to prompt its user.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

const MAX_GIVEN_ANSWERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Open approval requests of a swarm, by trace. Cheap to clone.
#[derive(Clone)]
pub struct ApprovalBridge {
    broker: ApprovalBroker,
    /// Recent answers by conversation or task, and answer ID.
    given: Arc<Mutex<LruCache<(String, String), ()>>>,
}

/// Reason why an answer was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefusal {
    /// No such request is open.
    #[error("There is no open approval request with this id.")]
    NotOpen,
    /// The request does not offer the scope of the answer. It is still open.
    #[error("The approval request does not offer this scope.")]
    NotOffered,
}

impl ApprovalBridge {
    /// Creates the bridge to the clients of `broker`.
    pub(super) fn new(broker: ApprovalBroker) -> Self {
        ApprovalBridge {
            broker,
            given: Arc::new(Mutex::new(LruCache::new(MAX_GIVEN_ANSWERS))),
        }
    }

    /// Returns all open requests, oldest first.
    pub fn open(&self) -> Vec<ApprovalHandle> {
        self.broker.open()
    }

    /// Returns the open requests of a trace, oldest first.
    pub fn open_in(&self, trace_id: &str) -> Vec<ApprovalHandle> {
        let mut open = self.broker.open();
        open.retain(|request| request.request.trace_id == trace_id);
        open
    }

    /// Answers the open request `id`. Only the first answer of all clients counts.
    pub fn answer(&self, id: &str, answer: ApprovalAnswer) -> Result<(), ApprovalRefusal> {
        let open = self.broker.open();
        apply(open.iter().find(|open| open.request.id == id), answer)
    }

    /// Answers the open request `id`, if it belongs to the trace.
    pub fn answer_in(
        &self,
        trace_id: &str,
        id: &str,
        answer: ApprovalAnswer,
    ) -> Result<(), ApprovalRefusal> {
        let open = self.open_in(trace_id);
        apply(open.iter().find(|open| open.request.id == id), answer)
    }

    /// Records the answer `id` in the conversation or task `place`, so that a repeated message does
    /// not count as a second answer.
    pub fn note_given(&self, place: &str, id: &str) {
        self.lock_given().put((place.to_owned(), id.to_owned()), ());
    }

    /// Returns true if the answer `id` in the conversation or task `place` was recorded.
    pub fn was_given(&self, place: &str, id: &str) -> bool {
        self.lock_given()
            .contains(&(place.to_owned(), id.to_owned()))
    }

    /// Locks the recent answers.
    fn lock_given(&self) -> MutexGuard<'_, LruCache<(String, String), ()>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request.
fn apply(request: Option<&ApprovalHandle>, answer: ApprovalAnswer) -> Result<(), ApprovalRefusal> {
    let request = request.ok_or(ApprovalRefusal::NotOpen)?;
    if !request.offers(answer) {
        return Err(ApprovalRefusal::NotOffered);
    }
    match request.answer(answer) {
        true => Ok(()),
        false => Err(ApprovalRefusal::NotOpen),
    }
}

/// Approval requests that a turn stream reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalReports {
    /// None. The client cannot answer, so requests do not wait for it.
    Off,
    /// The oldest open request, and the next one after it is closed.
    OneByOne,
    /// All open requests.
    All,
}

/// A client that can answer the approval requests of one trace. Requests of the trace wait for it
/// until it is dropped.
pub(super) struct TracePresence {
    reports: ApprovalReports,
    listener: Option<ApprovalListener>,
    trace_id: Arc<Mutex<Option<String>>>,
    /// Requests that are not reported yet, oldest first.
    waiting: Vec<ApprovalHandle>,
    /// Reported requests, until their end is reported.
    shown: Vec<ApprovalHandle>,
}

/// Returns true if the trace is the given one, or is not known yet.
fn is_of_trace(trace_id: &Mutex<Option<String>>, of_request: &str) -> bool {
    let trace_id = trace_id.lock().unwrap_or_else(PoisonError::into_inner);
    trace_id
        .as_ref()
        .is_none_or(|trace_id| trace_id == of_request)
}

/// Change of an approval request, for the client that follows the turn.
pub(super) enum PresenceChange {
    /// The request needs an answer.
    Opened(ApprovalHandle),
    /// A reported request is closed.
    Closed(ApprovalHandle),
}

impl TracePresence {
    /// Registers a client. Until the trace is known, the requests of all traces wait for the client.
    pub(super) fn register(bridge: &ApprovalBridge, reports: ApprovalReports) -> Self {
        let trace_id = Arc::new(Mutex::new(None));
        let filter = Arc::clone(&trace_id);
        let listener = (reports != ApprovalReports::Off).then(|| {
            let broker = &bridge.broker;
            broker.listen_for(move |request| is_of_trace(&filter, &request.trace_id))
        });
        TracePresence {
            reports,
            listener,
            trace_id,
            waiting: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// Sets the trace, once it is known.
    pub(super) fn set_trace(&self, trace_id: &str) {
        let mut current = self.trace_id.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(trace_id.to_owned());
    }

    /// Continues with the trace of the turn that the input joined, and its open requests.
    pub(super) fn move_to_trace(&mut self, trace_id: &str, open: Vec<ApprovalHandle>) {
        self.set_trace(trace_id);
        if self.listener.is_some() {
            self.waiting.extend(open);
        }
    }

    /// Returns the next change to report; `None` if there is none at present.
    pub(super) fn change(&mut self) -> Option<PresenceChange> {
        if let Some(closed) = self.shown.iter().position(|shown| shown.end().is_some()) {
            return Some(PresenceChange::Closed(self.shown.remove(closed)));
        }
        self.waiting.retain(|waiting| waiting.end().is_none());
        let has_room = self.reports == ApprovalReports::All || self.shown.is_empty();
        if !has_room || self.waiting.is_empty() {
            return None;
        }
        let request = self.waiting.remove(0);
        self.shown.push(request.clone());
        Some(PresenceChange::Opened(request))
    }

    /// Waits until [`TracePresence::change`] may return a change.
    pub(super) async fn changed(&mut self) {
        let closed = self.shown.iter().map(|shown| Box::pin(shown.ended()));
        let closed = async {
            match closed.len() {
                0 => std::future::pending().await,
                _ => drop(futures::future::select_all(closed).await),
            }
        };
        let opened = async {
            match &mut self.listener {
                Some(listener) => listener.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(request) = opened => {
                // Requests of other traces may arrive before this trace is known.
                if is_of_trace(&self.trace_id, &request.request.trace_id) {
                    self.waiting.push(request);
                }
            }
            () = closed => {}
        }
    }

    /// Reports the open requests again.
    pub(super) fn report_again(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        self.waiting.splice(..0, shown);
    }

    /// Returns true if a reported request is open.
    pub(super) fn is_asking(&self) -> bool {
        self.shown.iter().any(|shown| shown.end().is_none())
    }

    /// Keeps the client registered until the requests are closed or the wait is over. The client has
    /// no open stream during that time.
    pub(super) fn park(self, requests: Vec<ApprovalHandle>) {
        if requests.is_empty() || self.listener.is_none() {
            return;
        }
        tokio::spawn(async move {
            let answered = async {
                for request in &requests {
                    request.ended().await;
                }
            };
            // After this time, the client counts as disconnected.
            let _ = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
            drop(self);
        });
    }
}
