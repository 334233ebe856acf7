//! The open calls of one runtime process. Each call is answered exactly once, and later answers are
//! ignored.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use goondan_core::extension_protocol::{FinalMessage, RunningMessage};
use goondan_core::ports::tool::ToolError;
use tokio::sync::{Notify, mpsc, oneshot};

/// Maximum number of queued events per call; further events are dropped.
const EVENT_QUEUE_LENGTH: usize = 256;

pub(crate) struct ScriptCallReceivers {
    pub(crate) id: u64,
    pub(crate) answer: oneshot::Receiver<FinalMessage>,
    pub(crate) events: mpsc::Receiver<RunningMessage>,
}

/// The open calls of one runtime process. The lock is held only for map operations.
#[derive(Default)]
pub(crate) struct OpenScriptCalls {
    state: Mutex<ScriptCallsState>,
    /// Fires when the last open call ends.
    idle: Notify,
}

#[derive(Default)]
struct ScriptCallsState {
    last: u64,
    open: HashMap<u64, OpenScriptCall>,
    /// True if a handler has ever answered.
    has_answered: bool,
    /// The reason why no further calls are accepted.
    closed: Option<ToolError>,
}

struct OpenScriptCall {
    answer: oneshot::Sender<FinalMessage>,
    events: mpsc::Sender<RunningMessage>,
}

impl OpenScriptCalls {
    fn lock(&self) -> MutexGuard<'_, ScriptCallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call. Fails with the reason if no further calls are accepted.
    pub(crate) fn begin(&self) -> Result<ScriptCallReceivers, ToolError> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        state.last += 1;
        let id = state.last;
        let ((answer, answered), (events, happened)) =
            (oneshot::channel(), mpsc::channel(EVENT_QUEUE_LENGTH));
        state.open.insert(id, OpenScriptCall { answer, events });
        Ok(ScriptCallReceivers {
            id,
            answer: answered,
            events: happened,
        })
    }

    /// Answers a call. Ignored if the call was already answered.
    pub(crate) fn end(&self, id: u64, ended: FinalMessage) {
        let mut state = self.lock();
        state.has_answered = true;
        if let Some(open) = state.open.remove(&id) {
            let _ = open.answer.send(ended);
        }
        self.tell_idle(&state);
    }

    /// Removes a call whose caller no longer waits.
    pub(crate) fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.open.remove(&id);
        self.tell_idle(&state);
    }

    /// Wakes `until_idle` if no call is open.
    fn tell_idle(&self, state: &ScriptCallsState) {
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

    /// Forwards an event to the caller; returns false if it was not accepted.
    pub(crate) fn event(&self, id: u64, event: RunningMessage) -> bool {
        self.lock()
            .open
            .get(&id)
            .is_some_and(|open| open.events.try_send(event).is_ok())
    }

    /// Returns the id of the only open call, to which printed output can be attributed.
    pub(crate) fn only(&self) -> Option<u64> {
        let state = self.lock();
        let mut open = state.open.keys();
        open.next().copied().filter(|_| open.next().is_none())
    }

    /// Returns the number of open calls.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Returns true if a handler has ever answered.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().has_answered
    }

    /// Returns true if new calls are accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().closed.is_none()
    }

    /// Refuses further calls, and answers the open ones with `why`.
    pub(crate) fn close(&self, why: &ToolError) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| why.clone());
        for (_, open) in state.open.drain() {
            let _ = open.answer.send(Err(why.clone()).into());
        }
        self.tell_idle(&state);
    }
}
