//! The open calls of one host: each gets exactly one answer, from whoever comes first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use goondan_core::layering::{Ended, Event};
use goondan_core::ports::tool::ToolError;
use tokio::sync::{Notify, mpsc, oneshot};

/// What may wait of one call before more of it is dropped.
const WAITING_EVENTS: usize = 256;

/// The receiving side of an open call.
pub(crate) struct Receivers {
    pub(crate) id: u64,
    pub(crate) answer: oneshot::Receiver<Ended>,
    pub(crate) events: mpsc::Receiver<Event>,
}

/// The open calls of one host. The lock is held for map operations alone.
#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    /// Fires when the last open call is over.
    idle: Notify,
}

#[derive(Default)]
struct State {
    last: u64,
    open: HashMap<u64, Open>,
    /// A handler has answered.
    has_answered: bool,
    /// Why no more calls are taken.
    closed: Option<ToolError>,
}

struct Open {
    answer: oneshot::Sender<Ended>,
    events: mpsc::Sender<Event>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a call.
    pub(crate) fn begin(&self) -> Result<Receivers, ToolError> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        state.last += 1;
        let id = state.last;
        let ((answer, answered), (events, happened)) =
            (oneshot::channel(), mpsc::channel(WAITING_EVENTS));
        state.open.insert(id, Open { answer, events });
        Ok(Receivers {
            id,
            answer: answered,
            events: happened,
        })
    }

    /// Answers a call. One that is not open has been answered.
    pub(crate) fn end(&self, id: u64, ended: Ended) {
        let mut state = self.lock();
        state.has_answered = true;
        if let Some(open) = state.open.remove(&id) {
            let _ = open.answer.send(ended);
        }
        self.tell_idle(&state);
    }

    /// Forgets a call that nobody waits for.
    pub(crate) fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.open.remove(&id);
        self.tell_idle(&state);
    }

    fn tell_idle(&self, state: &State) {
        if state.open.is_empty() {
            self.idle.notify_one();
        }
    }

    /// Waits until no call is open.
    pub(crate) async fn until_idle(&self) {
        while self.count() > 0 {
            self.idle.notified().await;
        }
    }

    /// Hands something on to whoever waits for a call; false where nobody takes it.
    pub(crate) fn event(&self, id: u64, event: Event) -> bool {
        self.lock()
            .open
            .get(&id)
            .is_some_and(|open| open.events.try_send(event).is_ok())
    }

    /// The only open call, to which what was printed can be attributed.
    pub(crate) fn only(&self) -> Option<u64> {
        let state = self.lock();
        let mut open = state.open.keys();
        open.next().copied().filter(|_| open.next().is_none())
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Whether a handler has ever answered.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().has_answered
    }

    /// Whether calls are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().closed.is_none()
    }

    /// Takes no more calls, and answers those that are open with `why`.
    pub(crate) fn close(&self, why: &ToolError) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| why.clone());
        for (_, open) in state.open.drain() {
            let _ = open.answer.send(Err(why.clone()).into());
        }
        self.tell_idle(&state);
    }
}
