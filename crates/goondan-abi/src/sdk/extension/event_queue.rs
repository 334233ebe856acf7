//! Queues runtime events for listeners. The host's thread only adds events. A thread of the library
//! calls the listeners in order, as long as there are events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::session::RegisteredSession;
use crate::sdk::threads::CallThreads;

/// Maximum number of queued events; further ones are dropped.
const MAX_QUEUED_EVENTS: usize = 1_024;

/// Events with their sessions.
#[derive(Default)]
pub(super) struct ExtensionEventQueue(Mutex<QueuedEvents>);

#[derive(Default)]
struct QueuedEvents {
    events: VecDeque<(Arc<RegisteredSession>, Value)>,
    /// True while a thread calls the listeners.
    is_running: bool,
}

impl ExtensionEventQueue {
    /// Adds an event for `session`.
    pub(super) fn put(
        self: &Arc<Self>,
        session: Arc<RegisteredSession>,
        event: Value,
        threads: &Arc<CallThreads>,
    ) {
        let mut waiting = self.lock();
        if waiting.events.len() >= MAX_QUEUED_EVENTS {
            return;
        }
        waiting.events.push_back((session, event));
        if !waiting.is_running {
            let queue = Arc::clone(self);
            // If no thread can be started, the next event tries again.
            waiting.is_running = threads.spawn(move || queue.run_listeners()).is_ok();
        }
    }

    /// Runs the listeners of the queued events, in order.
    fn run_listeners(&self) {
        while let Some((session, event)) = self.next() {
            session.happened(&event);
        }
    }

    /// Removes the next event; `None` if the queue is empty.
    fn next(&self) -> Option<(Arc<RegisteredSession>, Value)> {
        let mut waiting = self.lock();
        let next = waiting.events.pop_front();
        waiting.is_running = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
