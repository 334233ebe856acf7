//! What protocols have in common that put a question to the person at a client: which one, and how long somebody is there.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goondan::{Listener, Question};
use lru::LruCache;

use crate::service::Service;

/// A client that has to ask its person comes back within that time, or is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The oldest open question of a chain.
pub(crate) fn asked(service: &Service, trace_id: &str) -> Option<Question> {
    all_asked(service, trace_id).next()
}

/// The open questions of a chain, oldest first.
pub(crate) fn all_asked(service: &Service, trace_id: &str) -> impl Iterator<Item = Question> {
    let hub = &service.inner.hub;
    let of_chain =
        |question: &Question| hub.chain_of(&question.request.instance).as_deref() == Some(trace_id);
    service.inner.broker.open().into_iter().filter(of_chain)
}

/// Somebody is there as long as the client asks its person.
pub(crate) fn park(listener: Option<Listener>, questions: &[Question]) {
    let (listener, questions) = (listener, questions.to_vec());
    tokio::spawn(async move {
        let answered = async {
            for question in &questions {
                question.ended().await;
            }
        };
        // Who does not come back is not there any more.
        let _ = tokio::time::timeout(PATIENCE, answered).await;
        drop(listener);
    });
}

/// So many answers are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Answers that clients have given, so that one that is sent again is no other answer: by where it was given, and by its id.
pub(crate) struct Given(Mutex<LruCache<(String, String), ()>>);

impl Default for Given {
    fn default() -> Self {
        Given(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Given {
    /// Notes an answer.
    pub(crate) fn note(&self, place: &str, id: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put((place.to_owned(), id.to_owned()), ());
    }

    /// Whether it was given before.
    pub(crate) fn has(&self, place: &str, id: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&(place.to_owned(), id.to_owned()))
    }
}
