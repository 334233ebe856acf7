//! Approval requests for protocols that pass them to the user at the client. Finds the open
//! requests of a trace and bounds the wait for the user.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goondan::{ApprovalHandle, ApprovalListener};
use lru::LruCache;

use crate::service::Service;

/// Longest wait for a client that left the stream to prompt its user.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Returns the oldest open request of a trace.
pub(crate) fn oldest_request(service: &Service, trace_id: &str) -> Option<ApprovalHandle> {
    open_requests(service, trace_id).next()
}

/// Returns the open requests of a trace, oldest first.
pub(crate) fn open_requests(
    service: &Service,
    trace_id: &str,
) -> impl Iterator<Item = ApprovalHandle> {
    let hub = &service.inner.hub;
    let of_chain = |question: &ApprovalHandle| {
        hub.chain_of(&question.request.instance).as_deref() == Some(trace_id)
    };
    service.inner.broker.open().into_iter().filter(of_chain)
}

/// Keeps the listener subscribed until the requests are closed or the wait is over. The client has
/// no open stream during that time.
pub(crate) fn park(listener: Option<ApprovalListener>, questions: &[ApprovalHandle]) {
    let (listener, questions) = (listener, questions.to_vec());
    tokio::spawn(async move {
        let answered = async {
            for question in &questions {
                question.ended().await;
            }
        };
        // After this time, the client counts as disconnected.
        let _ = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
        drop(listener);
    });
}

const MAX_GIVEN_ANSWERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Recent answers by conversation and answer id. Identifies a repeated answer, which must not count
/// as a second one.
pub(crate) struct GivenAnswers(Mutex<LruCache<(String, String), ()>>);

impl Default for GivenAnswers {
    fn default() -> Self {
        GivenAnswers(Mutex::new(LruCache::new(MAX_GIVEN_ANSWERS)))
    }
}

impl GivenAnswers {
    /// Records the answer `id` in the conversation or task `place`.
    pub(crate) fn note(&self, place: &str, id: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put((place.to_owned(), id.to_owned()), ());
    }

    /// Returns true if the answer `id` in the conversation or task `place` was recorded.
    pub(crate) fn has(&self, place: &str, id: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&(place.to_owned(), id.to_owned()))
    }
}
