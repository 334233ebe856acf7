//! Events of the runtime on their way to listeners. The host's own thread only puts them down; a thread of the library tells the
//! listeners one event after the other, for as long as there are any.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::session::Session;
use crate::sdk::threads::Threads;

/// Events that may wait. What comes when there are as many is lost to the listeners.
const MOST: usize = 1_024;

/// Events with whom they are for.
#[derive(Default)]
pub(super) struct Heard(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    events: VecDeque<(Arc<Session>, Value)>,
    /// A thread tells them.
    is_told: bool,
}

impl Heard {
    /// Puts down an event for `session`.
    pub(super) fn put(
        self: &Arc<Self>,
        session: Arc<Session>,
        event: Value,
        threads: &Arc<Threads>,
    ) {
        let mut waiting = self.lock();
        if waiting.events.len() >= MOST {
            return;
        }
        waiting.events.push_back((session, event));
        if !waiting.is_told {
            let heard = Arc::clone(self);
            // Without a thread the next event tries again.
            waiting.is_told = threads.spawn(move || heard.tell()).is_ok();
        }
    }

    fn tell(&self) {
        while let Some((session, event)) = self.next() {
            session.happened(&event);
        }
    }

    fn next(&self) -> Option<(Arc<Session>, Value)> {
        let mut waiting = self.lock();
        let next = waiting.events.pop_front();
        waiting.is_told = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
