//! The open calls of one plugin. Each call is answered exactly once, and later answers are ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use goondan_abi::raw::NO_CALL;
use goondan_abi::spin_wait::MAX_SPIN_TIME;
use goondan_spec::Code;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

use super::{FinalMessage, RunningMessage};
use crate::ports::tool::HandlerError;

/// Maximum number of queued events per call. Further events are refused.
const EVENT_QUEUE_LENGTH: usize = 256;

/// Next call id. Ids are never reused in this process, so that late messages about an old call
/// cannot reach a new one.
static NEXT_CALL: AtomicU64 = AtomicU64::new(NO_CALL + 1);

/// Rules for the calls of one plugin.
#[derive(Debug, Clone)]
pub struct CallRules {
    /// Name of the plugin, for messages.
    pub name: String,
    /// Time that a cancelled call may continue before it is answered without the code. Shorter than
    /// the engine's limit of two seconds, so that the code can use its time completely.
    pub cancel_grace: Duration,
    /// Number of calls that never returned, after which the plugin accepts no further calls.
    pub max_written_off: usize,
    /// Minimum time between two progress updates of a call.
    pub progress_interval: Duration,
    /// Polls for the answer before the first wait, while answers come fast.
    pub polls_answers: bool,
    /// Answers the open requests of a call that is over.
    pub answers_after_end: bool,
}

/// Table of the open calls. The lock is held only for map operations.
pub struct OpenCalls {
    rules: CallRules,
    state: Mutex<CallTable>,
    /// Fires when the last open call ends.
    idle: Notify,
    /// True if the last answer came so fast that polling for the next one is worthwhile.
    answers_fast: AtomicBool,
}

#[derive(Default)]
struct CallTable {
    open: HashMap<u64, OpenCall>,
    /// Calls that were answered without the code, with the time from which each counts as a lost
    /// worker.
    tombstones: HashMap<u64, Instant>,
    /// Reason why no further calls are accepted.
    closed: Option<HandlerError>,
    has_answered: bool,
}

struct OpenCall {
    answer: oneshot::Sender<FinalMessage>,
    events: mpsc::Sender<RunningMessage>,
    is_cancelled: bool,
}

/// Receiving ends of an open call.
pub(super) struct CallReceivers {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<FinalMessage>,
    /// Events before the answer.
    pub(super) events: mpsc::Receiver<RunningMessage>,
}

/// Result of delivering a message of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// The caller receives the message.
    Accepted,
    /// The call has too many queued events.
    QueueFull,
    /// The plugin is closed.
    Closed,
    /// The call has ended or never existed.
    UnknownCall,
}

impl OpenCalls {
    /// Returns an empty table.
    pub fn new(rules: CallRules) -> Self {
        OpenCalls {
            rules,
            state: Mutex::default(),
            idle: Notify::new(),
            answers_fast: AtomicBool::new(false),
        }
    }

    /// Returns the rules for the calls.
    pub fn rules(&self) -> &CallRules {
        &self.rules
    }

    /// Registers a call. Fails if the plugin is closed or has too many calls that never ended.
    pub(super) fn begin(&self) -> Result<CallReceivers, HandlerError> {
        let mut table = self.lock();
        if let Some(why) = &table.closed {
            return Err(why.clone());
        }
        let written_off = table.written_off_count();
        if written_off >= self.rules.max_written_off {
            return Err(self.unhealthy_error(written_off));
        }
        let id = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let (events, happened) = mpsc::channel(EVENT_QUEUE_LENGTH);
        let call = OpenCall {
            answer,
            events,
            is_cancelled: false,
        };
        table.open.insert(id, call);
        Ok(CallReceivers {
            id,
            answer: answered,
            events: happened,
        })
    }

    /// Answers a call. Only the first answer counts.
    pub fn complete(&self, id: u64, ended: FinalMessage) -> DeliveryStatus {
        let mut table = self.lock();
        if table.closed.is_some() {
            return DeliveryStatus::Closed;
        }
        let Some(open) = table.open.remove(&id) else {
            // The lost worker has returned, but the call is already answered.
            table.tombstones.remove(&id);
            drop(table);
            return self.log_ignored(id, "an answer");
        };
        table.has_answered = true;
        self.notify_if_idle(&table);
        drop(table);
        // The receiver may be gone; the call is over in either case.
        let _ = open.answer.send(ended);
        DeliveryStatus::Accepted
    }

    /// Forwards an event of a call, unless too many are queued.
    pub fn event(&self, id: u64, event: RunningMessage) -> DeliveryStatus {
        let table = self.lock();
        if table.closed.is_some() {
            return DeliveryStatus::Closed;
        }
        if let Some(open) = table.open.get(&id) {
            return match open.events.try_send(event) {
                Ok(()) => DeliveryStatus::Accepted,
                Err(TrySendError::Full(_)) => DeliveryStatus::QueueFull,
                Err(TrySendError::Closed(_)) => DeliveryStatus::Closed,
            };
        }
        drop(table);
        self.log_ignored(id, "an event")
    }

    /// Forwards an event of a call. Blocks this thread while the call's queue is full.
    pub fn blocking_event(&self, id: u64, event: RunningMessage) -> DeliveryStatus {
        let events = self.lock().open.get(&id).map(|open| open.events.clone());
        match events.map(|events| events.blocking_send(event)) {
            Some(Ok(())) => DeliveryStatus::Accepted,
            Some(Err(_)) => DeliveryStatus::Closed,
            None => self.log_ignored(id, "a request"),
        }
    }

    /// Marks a call as cancelled.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.is_cancelled = true;
        }
    }

    /// Returns true if a call is cancelled or not open.
    pub fn is_cancelled(&self, id: u64) -> bool {
        self.lock()
            .open
            .get(&id)
            .is_none_or(|open| open.is_cancelled)
    }

    /// Abandons a call that may still run. After `grace`, the call counts as a lost worker until it
    /// returns.
    pub(super) fn give_up(&self, id: u64, grace: Duration) {
        let mut table = self.lock();
        if table.open.remove(&id).is_some() {
            table.tombstones.insert(id, Instant::now() + grace);
            self.notify_if_idle(&table);
        }
    }

    /// Returns true if a call is still open and must be started. A call that is no longer open never
    /// starts, and does not count as a lost worker.
    pub fn must_start(&self, id: u64) -> bool {
        let mut table = self.lock();
        table.tombstones.remove(&id);
        table.open.contains_key(&id)
    }

    /// Returns the id of the only open call, to which printed output can be attributed.
    pub fn only(&self) -> Option<u64> {
        let table = self.lock();
        let mut open_ids = table.open.keys();
        open_ids
            .next()
            .copied()
            .filter(|_| open_ids.next().is_none())
    }

    /// Returns the number of open calls.
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Waits until no call is open.
    pub async fn until_idle(&self) {
        while self.count() > 0 {
            self.idle.notified().await;
        }
    }

    /// Returns true if the code has ever answered a call itself.
    pub fn has_answered(&self) -> bool {
        self.lock().has_answered
    }

    /// Returns true if new calls are accepted.
    pub fn is_healthy(&self) -> bool {
        let table = self.lock();
        table.closed.is_none() && table.written_off_count() < self.rules.max_written_off
    }

    /// Refuses further calls, and answers the open ones with `why`.
    pub fn close(&self, why: &HandlerError) {
        let open_calls = {
            let mut table = self.lock();
            table.closed.get_or_insert_with(|| why.clone());
            table.tombstones.clear();
            let open_calls = std::mem::take(&mut table.open);
            self.notify_if_idle(&table);
            open_calls
        };
        for (_, call) in open_calls {
            let _ = call.answer.send(Err(why.clone()).into());
        }
    }

    /// Returns true if polling for the answer is worthwhile.
    pub(super) fn answers_fast(&self) -> bool {
        self.answers_fast.load(Ordering::Relaxed)
    }

    /// Records the time until an answer.
    pub(super) fn record_answer_time(&self, time: Duration) {
        let is_fast = self.rules.polls_answers && time < MAX_SPIN_TIME * 4;
        self.answers_fast.store(is_fast, Ordering::Relaxed);
    }

    /// Returns the error of a call that is refused because `written_off` calls never ended.
    fn unhealthy_error(&self, written_off: usize) -> HandlerError {
        let name = &self.rules.name;
        HandlerError::new(format!(
            "{name} accepts no more calls: {written_off} cancelled calls did not end"
        ))
        .code(Code::TOOL_UNAVAILABLE)
        .suggest(
            "Use another tool. Library author: handle cancellation, rebuild the library, and \
            reload.",
        )
    }

    /// Logs a message about a call that has ended or does not exist.
    fn log_ignored(&self, id: u64, what: &str) -> DeliveryStatus {
        tracing::debug!(
            plugin = %self.rules.name,
            call = id,
            "{what} was ignored: its call has ended or does not exist"
        );
        DeliveryStatus::UnknownCall
    }

    /// Wakes `until_idle` if no call is open.
    fn notify_if_idle(&self, table: &CallTable) {
        if table.open.is_empty() {
            self.idle.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallTable {
    /// Returns the number of abandoned calls whose grace period is over.
    fn written_off_count(&self) -> usize {
        if self.tombstones.is_empty() {
            return 0;
        }
        let now = Instant::now();
        self.tombstones
            .values()
            .filter(|since| **since <= now)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use goondan_abi::wire::Progress;

    use super::*;
    use crate::ports::tool::ToolOutput;

    fn calls(max_written_off: usize) -> OpenCalls {
        OpenCalls::new(CallRules {
            name: "libx".to_owned(),
            cancel_grace: Duration::ZERO,
            max_written_off,
            progress_interval: Duration::ZERO,
            polls_answers: false,
            answers_after_end: false,
        })
    }

    fn output() -> FinalMessage {
        Ok(ToolOutput::default()).into()
    }

    #[test]
    fn the_first_completion_wins_and_the_second_is_ignored() {
        let calls = calls(4);
        let mut open = calls.begin().expect("open");
        assert_eq!(calls.only(), Some(open.id));
        assert_eq!(calls.complete(open.id, output()), DeliveryStatus::Accepted);
        assert_eq!(
            calls.complete(open.id, Err(HandlerError::new("late")).into()),
            DeliveryStatus::UnknownCall
        );
        let answer = open.answer.try_recv().expect("answered").outcome;
        assert_eq!(answer, Ok(ToolOutput::default()));
        assert_eq!(calls.count(), 0);
    }

    #[test]
    fn lost_workers_make_a_session_unhealthy_until_one_returns() {
        let calls = calls(2);
        let lost_calls: Vec<u64> = (0..2).map(|_| calls.begin().expect("open").id).collect();
        lost_calls
            .iter()
            .for_each(|call| calls.give_up(*call, Duration::ZERO));
        let refused = calls.begin().err().expect("refused");
        assert_eq!(
            refused.code.as_deref(),
            Some(Code::TOOL_UNAVAILABLE.as_str())
        );
        assert_eq!(
            calls.complete(lost_calls[0], output()),
            DeliveryStatus::UnknownCall
        );
        assert!(calls.begin().is_ok());
    }

    #[test]
    fn an_abandoned_call_does_not_count_during_its_grace_period() {
        let calls = calls(1);
        let call = calls.begin().expect("open").id;
        calls.give_up(call, Duration::from_secs(600));
        assert!(calls.is_healthy());
        assert!(!calls.must_start(call));
    }

    #[test]
    fn closing_completes_all_calls_and_rejects_later_messages() {
        let calls = calls(4);
        let mut open = calls.begin().expect("open");
        calls.close(&HandlerError::new("gone").code(Code::TOOL_UNAVAILABLE));
        let answer = open.answer.try_recv().expect("answered").outcome;
        assert_eq!(answer.expect_err("an error").message, "gone");
        assert_eq!(calls.complete(open.id, output()), DeliveryStatus::Closed);
        assert!(calls.begin().is_err());
        assert!(calls.is_cancelled(open.id));
    }

    #[test]
    fn events_above_the_queue_limit_are_rejected_without_blocking() {
        let calls = calls(4);
        let open = calls.begin().expect("open");
        let progress = || RunningMessage::Progress(Progress::default());
        for _ in 0..EVENT_QUEUE_LENGTH {
            assert_eq!(calls.event(open.id, progress()), DeliveryStatus::Accepted);
        }
        assert_eq!(calls.event(open.id, progress()), DeliveryStatus::QueueFull);
    }
}
