//! The open calls of one library. Each call is answered exactly once, and later answers are
//! ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use goondan_abi::raw::{NO_CALL, Status};
use goondan_abi::wire::{self, code};
use tokio::sync::{mpsc, oneshot};

use crate::library_messages::{LibraryCallEvent, LibraryCallbacks, Outcome};
use crate::metrics::LibraryCounters;

/// Maximum number of queued events per call. The library gets an error for further events.
const EVENT_QUEUE_LENGTH: usize = 256;

/// The last call id. Ids are never reused in a process, so that late messages about an old call
/// cannot reach a new one.
static NEXT_CALL: AtomicU64 = AtomicU64::new(NO_CALL + 1);

/// The running calls of one library. The lock is held only for map operations.
pub(crate) struct LibraryCalls {
    label: String,
    state: Mutex<LibraryCallsState>,
    written_off_limit: usize,
    counters: Arc<LibraryCounters>,
}

#[derive(Default)]
struct LibraryCallsState {
    open: HashMap<u64, OpenLibraryCall>,
    /// Calls that were answered without the library, with the time from which each counts as a lost
    /// worker.
    tombstones: HashMap<u64, Instant>,
    closed: Option<wire::ToolError>,
    /// Receives log lines that belong to no call. `None` after closing.
    general: Option<mpsc::Sender<wire::LogLine>>,
    answered: bool,
}

struct OpenLibraryCall {
    answer: oneshot::Sender<Outcome<wire::ToolOutput>>,
    events: mpsc::Sender<LibraryCallEvent>,
    cancelled: bool,
}

/// Receiving ends of one running call.
pub(crate) struct LibraryCallReceivers {
    pub(crate) call: u64,
    pub(crate) answer: oneshot::Receiver<Outcome<wire::ToolOutput>>,
    /// Events before the answer.
    pub(crate) events: mpsc::Receiver<LibraryCallEvent>,
}

impl LibraryCalls {
    /// Creates an empty table. After `written_off_limit` calls that never returned, the table
    /// refuses further calls.
    pub(crate) fn new(
        label: &str,
        written_off_limit: usize,
        general: mpsc::Sender<wire::LogLine>,
        counters: Arc<LibraryCounters>,
    ) -> Self {
        let state = Mutex::new(LibraryCallsState {
            general: Some(general),
            ..LibraryCallsState::default()
        });
        LibraryCalls {
            label: label.to_owned(),
            state,
            written_off_limit,
            counters,
        }
    }

    /// Registers a call. Fails if the library is closed or has too many calls that never ended.
    pub(crate) fn begin(&self) -> Result<LibraryCallReceivers, wire::ToolError> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.written_off() >= self.written_off_limit {
            return Err(self.unhealthy_error(state.written_off()));
        }
        let call = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let (events, happened) = mpsc::channel(EVENT_QUEUE_LENGTH);
        state.open.insert(
            call,
            OpenLibraryCall {
                answer,
                events,
                cancelled: false,
            },
        );
        Ok(LibraryCallReceivers {
            call,
            answer: answered,
            events: happened,
        })
    }

    /// Forwards a request of a call. Blocks this thread while the call's queue is full.
    pub(crate) fn ask_in_turn(&self, call: u64, question: LibraryCallEvent) {
        let events = self.lock().open.get(&call).map(|open| open.events.clone());
        match events {
            // A closed channel means that the call is over.
            Some(events) => drop(events.blocking_send(question)),
            None => drop(self.ignore(call, "a request")),
        }
    }

    /// Marks a call as cancelled.
    pub(crate) fn cancel(&self, call: u64) {
        if let Some(open) = self.lock().open.get_mut(&call) {
            open.cancelled = true;
        }
    }

    /// Abandons a call that may still run. After `grace`, the call counts as a lost worker until it
    /// returns.
    pub(crate) fn give_up(&self, call: u64, grace: Duration) {
        let mut state = self.lock();
        if state.open.remove(&call).is_some() {
            state.tombstones.insert(call, Instant::now() + grace);
        }
    }

    /// Returns false after too many calls that never returned.
    pub(crate) fn is_healthy(&self) -> bool {
        let state = self.lock();
        state.closed.is_none() && state.written_off() < self.written_off_limit
    }

    /// Returns true if the library has ever answered a call itself.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().answered
    }

    /// Returns the error of a call that is refused because `written_off` calls never ended.
    fn unhealthy_error(&self, written_off: usize) -> wire::ToolError {
        let message = format!(
            "{} accepts no more calls: {written_off} cancelled calls did not end",
            self.label
        );
        wire::ToolError::new(message)
            .code(code::UNAVAILABLE)
            .suggest(
                "Use another tool. Library author: handle cancellation, rebuild the library, and \
                reload.",
            )
    }

    /// Counts and logs a message about a call that has ended or does not exist.
    fn ignore(&self, call: u64, what: &str) -> Status {
        self.counters.ignored.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(
            library = %self.label,
            call,
            "{what} was ignored: its call has ended or does not exist"
        );
        Status::UNKNOWN_CALL
    }

    fn lock(&self) -> MutexGuard<'_, LibraryCallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LibraryCallsState {
    /// Returns the number of abandoned calls whose grace period is over.
    fn written_off(&self) -> usize {
        let now = Instant::now();
        self.tombstones
            .values()
            .filter(|since| **since <= now)
            .count()
    }
}

impl LibraryCallbacks for LibraryCalls {
    fn complete(&self, call: u64, outcome: Outcome<wire::ToolOutput>) -> Status {
        let mut state = self.lock();
        if state.closed.is_some() {
            return Status::CLOSED;
        }
        let Some(open) = state.open.remove(&call) else {
            // The lost worker has returned, but the call is already answered.
            state.tombstones.remove(&call);
            drop(state);
            return self.ignore(call, "a completion");
        };
        state.answered = true;
        drop(state);
        // The receiver may be gone; the call is over in either case.
        let _ = open.answer.send(outcome);
        Status::OK
    }

    fn event(&self, call: u64, event: LibraryCallEvent) -> Status {
        let state = self.lock();
        let Some(general) = &state.general else {
            return Status::CLOSED;
        };
        if let (NO_CALL, LibraryCallEvent::Log(line)) = (call, &event) {
            return queue_status(general.try_send(line.clone()));
        }
        if let Some(open) = state.open.get(&call) {
            return queue_status(open.events.try_send(event));
        }
        drop(state);
        self.ignore(call, "an event")
    }

    fn is_cancelled(&self, call: u64) -> bool {
        self.lock()
            .open
            .get(&call)
            .is_none_or(|open| open.cancelled)
    }

    fn is_wanted(&self, call: u64) -> bool {
        let mut state = self.lock();
        state.tombstones.remove(&call);
        state.open.contains_key(&call)
    }

    fn close(&self, why: &wire::ToolError) {
        let open = {
            let mut state = self.lock();
            state.closed.get_or_insert_with(|| why.clone());
            state.tombstones.clear();
            state.general = None;
            std::mem::take(&mut state.open)
        };
        for (_, call) in open {
            let _ = call.answer.send(Err(why.clone()));
        }
    }
}

/// Converts the result of queueing an event.
fn queue_status<T>(result: Result<(), mpsc::error::TrySendError<T>>) -> Status {
    match result {
        Ok(()) => Status::OK,
        Err(mpsc::error::TrySendError::Full(_)) => Status::BUSY,
        Err(mpsc::error::TrySendError::Closed(_)) => Status::CLOSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(limit: usize) -> (LibraryCalls, mpsc::Receiver<wire::LogLine>) {
        let (general, lines) = mpsc::channel(1);
        (
            LibraryCalls::new("libx", limit, general, Arc::default()),
            lines,
        )
    }

    fn output() -> Outcome<wire::ToolOutput> {
        Ok(wire::ToolOutput::default())
    }

    #[test]
    fn the_first_completion_wins_and_the_second_is_ignored() {
        let (calls, _lines) = calls(4);
        let mut open = calls.begin().expect("open");
        assert_eq!(calls.complete(open.call, output()), Status::OK);
        assert_eq!(
            calls.complete(open.call, Err(wire::ToolError::new("late"))),
            Status::UNKNOWN_CALL
        );
        assert_eq!(open.answer.try_recv(), Ok(output()));
        assert_eq!(calls.counters.ignored.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn lost_workers_make_it_unhealthy_until_they_come_back() {
        let (calls, _lines) = calls(2);
        let lost: Vec<u64> = (0..2).map(|_| calls.begin().expect("open").call).collect();
        lost.iter()
            .for_each(|call| calls.give_up(*call, Duration::ZERO));
        let refused = calls.begin().err().expect("refused");
        assert_eq!(refused.code.as_deref(), Some(code::UNAVAILABLE));
        assert_eq!(calls.complete(lost[0], output()), Status::UNKNOWN_CALL);
        assert!(calls.begin().is_ok());
    }

    #[test]
    fn a_call_that_was_given_up_does_not_count_within_its_grace() {
        let (calls, _lines) = calls(1);
        let call = calls.begin().expect("open").call;
        calls.give_up(call, Duration::from_secs(600));
        assert!(calls.is_healthy());
        assert!(!calls.is_wanted(call));
    }

    #[test]
    fn closing_answers_everybody_and_later_words_are_refused() {
        let (calls, _lines) = calls(4);
        let mut open = calls.begin().expect("open");
        calls.close(&wire::ToolError::new("gone").code(code::UNAVAILABLE));
        assert_eq!(
            open.answer
                .try_recv()
                .expect("answered")
                .expect_err("an error")
                .message,
            "gone"
        );
        assert_eq!(calls.complete(open.call, output()), Status::CLOSED);
        assert!(calls.begin().is_err());
        assert!(calls.is_cancelled(open.call));
    }

    #[test]
    fn too_many_events_are_refused_and_do_not_block() {
        let (calls, _lines) = calls(4);
        let open = calls.begin().expect("open");
        let progress = || LibraryCallEvent::Progress(wire::Progress::default());
        for _ in 0..EVENT_QUEUE_LENGTH {
            assert_eq!(calls.event(open.call, progress()), Status::OK);
        }
        assert_eq!(calls.event(open.call, progress()), Status::BUSY);
    }
}
