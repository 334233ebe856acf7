//! Activity tracking: heartbeats, and clocks that pause while an approval is pending.
//!
//! Time-outs detect work that hangs. Waiting for another agent therefore counts from that agent's
//! last heartbeat. A user may take any time to answer: while an approval is pending, the clocks of
//! the call, its turn and all waiting callers are paused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use goondan_core::ids::InstanceId;

/// Interval of heartbeats to other nodes.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Activity of an instance, a call, or a whole run.
#[derive(Debug)]
pub(crate) struct ActivityTracker {
    /// Time of the last heartbeat of this work itself.
    own_heartbeat: Mutex<Instant>,
    /// Work that this work waits for. Heartbeats of that work count as heartbeats of this work.
    below: Mutex<Vec<Arc<ActivityTracker>>>,
    /// Pending approvals of this work.
    approval_clock: watch::Sender<ApprovalClock>,
}

/// Pending approvals and the time spent on them.
#[derive(Debug, Default, Clone, Copy)]
struct ApprovalClock {
    /// Number of pending approvals.
    open: usize,
    /// Start of the current period with a pending approval.
    since: Option<Instant>,
    /// Total of all earlier periods.
    before: Duration,
}

impl ApprovalClock {
    /// Records that an approval request opened.
    fn begin(&mut self) {
        self.open += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Records that an approval request closed.
    fn end(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.before = self.total_time();
            self.since = None;
        }
    }

    /// Returns the total time in which at least one approval request was open.
    fn total_time(&self) -> Duration {
        self.before + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl ActivityTracker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(ActivityTracker {
            own_heartbeat: Mutex::new(Instant::now()),
            below: Mutex::default(),
            approval_clock: watch::Sender::default(),
        })
    }

    pub(crate) fn record_heartbeat(&self) {
        *self.lock_own_heartbeat() = Instant::now();
    }

    /// Pauses the clocks until the returned guard is dropped. Used for pending approvals and for
    /// turns that wait for a rate limit. Dropping the guard records a heartbeat.
    pub(crate) fn pause(self: &Arc<Self>) -> PauseGuard {
        self.approval_clock.send_modify(ApprovalClock::begin);
        PauseGuard(Arc::clone(self))
    }

    /// Returns true while the clocks are paused: for an approval, or for a rate limit.
    pub(crate) fn is_paused(&self) -> bool {
        self.approval_clock.borrow().open > 0
    }

    /// Returns true if only approvals can continue this work: one is pending, and no other call
    /// runs.
    pub(crate) fn waits_for_approval(&self) -> bool {
        self.is_paused()
            && self
                .lock_children()
                .iter()
                .all(|tracker| tracker.is_paused())
    }

    /// Returns the total time with a pending approval.
    pub(crate) fn approval_time(&self) -> Duration {
        self.approval_clock.borrow().total_time()
    }

    /// Counts heartbeats of `other` as heartbeats of this one until the returned guard is dropped.
    pub(crate) fn wait_for(self: &Arc<Self>, other: &Arc<ActivityTracker>) -> WaitGuard {
        self.lock_children().push(Arc::clone(other));
        WaitGuard {
            waits: Arc::clone(self),
            other: Arc::clone(other),
        }
    }

    /// Waits until no heartbeat was recorded for `limit`. Time with a pending approval does not
    /// count.
    pub(crate) async fn wait_for_silence(&self, limit: Duration) {
        let begun = Instant::now();
        loop {
            self.until_no_approval_pending().await;
            // The heartbeat at the end of the approval restarts the limit.
            let silent_at = begun.max(self.last_heartbeat()) + limit;
            if silent_at <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(silent_at) => {}
                () = self.until_approval_pending() => {}
            }
        }
    }

    /// Pauses the clocks of `above` whenever an approval is pending here. Never returns.
    pub(crate) async fn forward_approvals(&self, above: [&Arc<ActivityTracker>; 2]) {
        loop {
            self.until_approval_pending().await;
            let _pause = above.map(ActivityTracker::pause);
            self.until_no_approval_pending().await;
        }
    }

    /// Reports heartbeats while it is polled: at most one a second, and immediately when an
    /// approval opens or closes. The other node keeps a [`RemoteActivity`].
    pub(crate) async fn report_heartbeats(&self, mut report: impl FnMut(bool)) {
        let mut pending_approvals = self.approval_clock.subscribe();
        let mut reported_heartbeat = self.last_heartbeat();
        let mut was_paused = false;
        loop {
            let is_paused = pending_approvals.borrow_and_update().open > 0;
            let heartbeat = self.last_heartbeat();
            if is_paused != was_paused || heartbeat > reported_heartbeat {
                report(is_paused);
                was_paused = is_paused;
                reported_heartbeat = heartbeat;
            }
            tokio::select! {
                // The sender is owned by `self`, so it cannot close first.
                _ = pending_approvals.changed() => {}
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            }
        }
    }

    /// Waits until no approval request is open.
    async fn until_no_approval_pending(&self) {
        self.wait_until(|clock| clock.open == 0).await;
    }

    /// Waits until an approval request is open.
    async fn until_approval_pending(&self) {
        self.wait_until(|clock| clock.open > 0).await;
    }

    /// Waits until `is_so` returns true for the approval clock.
    async fn wait_until(&self, is_so: impl FnMut(&ApprovalClock) -> bool) {
        // The sender is owned by `self`, so it cannot close first.
        let _ = self.approval_clock.subscribe().wait_for(is_so).await;
    }

    /// Returns the time of the last heartbeat of this work and of all work that it waits for. The
    /// end of an approval counts as a heartbeat. Recursion ends because waits never form a cycle
    /// (`routing.rs`).
    fn last_heartbeat(&self) -> Instant {
        let below = self.lock_children().clone();
        below
            .iter()
            .map(|tracker| tracker.last_heartbeat())
            .fold(*self.lock_own_heartbeat(), Instant::max)
    }

    /// Returns the time of this tracker's own last heartbeat, locked.
    fn lock_own_heartbeat(&self) -> MutexGuard<'_, Instant> {
        self.own_heartbeat
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the trackers that report to this tracker, locked.
    fn lock_children(&self) -> MutexGuard<'_, Vec<Arc<ActivityTracker>>> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a pending approval.
#[must_use]
pub(crate) struct PauseGuard(Arc<ActivityTracker>);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        self.0.record_heartbeat();
        self.0.approval_clock.send_modify(ApprovalClock::end);
    }
}

/// Guard of a wait for other work.
#[must_use]
pub(crate) struct WaitGuard {
    waits: Arc<ActivityTracker>,
    other: Arc<ActivityTracker>,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        // The end of the wait is a heartbeat.
        self.waits.record_heartbeat();
        let mut below = self.waits.lock_children();
        if let Some(at) = below
            .iter()
            .position(|tracker| Arc::ptr_eq(tracker, &self.other))
        {
            below.swap_remove(at);
        }
    }
}

/// Local view of activity on another node.
pub(crate) struct RemoteActivity {
    tracker: Arc<ActivityTracker>,
    pause: Option<PauseGuard>,
}

impl RemoteActivity {
    /// Creates the copy of `tracker`, whose turn runs on another node.
    pub(crate) fn new(tracker: Arc<ActivityTracker>) -> Self {
        RemoteActivity {
            tracker,
            pause: None,
        }
    }

    /// Records a heartbeat and whether an approval is pending there. Returns true if the pending
    /// state changed.
    pub(crate) fn record_heartbeat(&mut self, is_paused: bool) -> bool {
        self.tracker.record_heartbeat();
        let has_changed = self.pause.is_some() != is_paused;
        if has_changed {
            self.pause = is_paused.then(|| self.tracker.pause());
        }
        has_changed
    }
}

/// Measures time without pending approvals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveStopwatch {
    since: Instant,
    /// Approval time up to the start.
    approval_time_at_start: Duration,
}

impl ActiveStopwatch {
    /// Starts to measure the time of active work, without the time of approval requests.
    pub(crate) fn start(tracker: &ActivityTracker) -> Self {
        ActiveStopwatch {
            since: Instant::now(),
            approval_time_at_start: tracker.approval_time(),
        }
    }

    /// Returns the time since the start, without the time of approval requests.
    pub(crate) fn elapsed(self, tracker: &ActivityTracker) -> Duration {
        self.since.elapsed().saturating_sub(
            tracker
                .approval_time()
                .saturating_sub(self.approval_time_at_start),
        )
    }

    /// Returns the elapsed time in milliseconds.
    pub(crate) fn elapsed_millis(self, tracker: &ActivityTracker) -> u64 {
        u64::try_from(self.elapsed(tracker).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Activity of all instances in use, and of the run.
#[derive(Debug)]
pub(crate) struct ActivityRegistry {
    /// An approval counts as pending in the run if one is pending in any instance.
    pub(crate) run: Arc<ActivityTracker>,
    instances: Mutex<HashMap<InstanceId, Weak<ActivityTracker>>>,
}

impl Default for ActivityRegistry {
    fn default() -> Self {
        ActivityRegistry {
            run: ActivityTracker::new(),
            instances: Mutex::default(),
        }
    }
}

impl ActivityRegistry {
    /// Returns the activity of an instance, which may not have a turn yet.
    pub(crate) fn tracker_for(&self, id: &InstanceId) -> Arc<ActivityTracker> {
        let mut instances = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(tracker) = instances.get(id).and_then(Weak::upgrade) {
            return tracker;
        }
        if instances.len() == instances.capacity() {
            // Drop unused entries before the table grows.
            instances.retain(|_, tracker| tracker.strong_count() > 0);
        }
        let tracker = ActivityTracker::new();
        instances.insert(id.clone(), Arc::downgrade(&tracker));
        tracker
    }

    /// Returns true if the clocks of an instance are paused.
    pub(crate) fn is_paused(&self, id: &InstanceId) -> bool {
        self.get(id).is_some_and(|tracker| tracker.is_paused())
    }

    /// Returns true if only approvals can continue the turn of an instance.
    pub(crate) fn waits_for_approval(&self, id: &InstanceId) -> bool {
        self.get(id)
            .is_some_and(|tracker| tracker.waits_for_approval())
    }

    /// Returns the activity of an instance in use.
    fn get(&self, id: &InstanceId) -> Option<Arc<ActivityTracker>> {
        let instances = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        instances.get(id).and_then(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn sleep(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the seconds until `tracker` has been silent for [`LIMIT`].
    async fn seconds_until_silence(tracker: Arc<ActivityTracker>) -> u64 {
        let start = Instant::now();
        tracker.wait_for_silence(LIMIT).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_measured_from_the_last_heartbeat() {
        let (tracker, deep) = (ActivityTracker::new(), ActivityTracker::new());
        let (middle, waited) = (
            ActivityTracker::new(),
            tokio::spawn(seconds_until_silence(Arc::clone(&tracker))),
        );
        let _wait_guards = (tracker.wait_for(&middle), middle.wait_for(&deep));
        sleep(9).await;
        tracker.record_heartbeat();
        sleep(9).await;
        deep.record_heartbeat();
        assert_eq!(waited.await.unwrap(), 28);
    }

    #[tokio::test(start_paused = true)]
    async fn time_pauses_while_an_approval_request_is_pending() {
        let (tracker, above, top) = (
            ActivityTracker::new(),
            ActivityTracker::new(),
            ActivityTracker::new(),
        );
        let waited = tokio::spawn(seconds_until_silence(Arc::clone(&top)));
        let watch = ActiveStopwatch::start(&top);
        let trackers = (Arc::clone(&tracker), Arc::clone(&above), Arc::clone(&top));
        tokio::spawn(async move {
            trackers
                .0
                .forward_approvals([&trackers.1, &trackers.2])
                .await
        });
        sleep(4).await;
        let (first, second) = (tracker.pause(), tracker.pause());
        sleep(3_600).await;
        drop(first);
        sleep(3_600).await;
        assert!(top.is_paused() && above.is_paused());
        drop(second);
        sleep(1).await;
        assert!(!top.is_paused());
        assert_eq!(
            (
                tracker.approval_time().as_secs(),
                watch.elapsed(&top).as_secs()
            ),
            (7_200, 5)
        );
        assert_eq!(
            waited.await.unwrap(),
            4 + 7_200 + 10,
            "a decision counts as a heartbeat"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_do_not_count_after_the_wait_ends() {
        let (tracker, other) = (ActivityTracker::new(), ActivityTracker::new());
        let waited = tokio::spawn(seconds_until_silence(Arc::clone(&tracker)));
        let wait_guard = tracker.wait_for(&other);
        sleep(5).await;
        drop(wait_guard);
        sleep(5).await;
        other.record_heartbeat();
        assert_eq!(waited.await.unwrap(), 15);
    }

    #[test]
    fn a_turn_with_a_running_call_is_not_waiting_for_approval() {
        let (turn, call) = (ActivityTracker::new(), ActivityTracker::new());
        let turn_pause = turn.pause();
        assert!(turn.waits_for_approval());
        let running = turn.wait_for(&call);
        assert!(!turn.waits_for_approval());
        let call_pause = call.pause();
        assert!(turn.waits_for_approval());
        drop((call_pause, running, turn_pause));
        assert!(!turn.waits_for_approval());
    }

    #[test]
    fn unused_activity_trackers_are_removed() {
        let activity = ActivityRegistry::default();
        let id = |number: usize| InstanceId::new("a", number.to_string());
        let kept = activity.tracker_for(&id(0));
        for number in 1..10_000 {
            drop(activity.tracker_for(&id(number)));
        }
        assert!(Arc::ptr_eq(&kept, &activity.tracker_for(&id(0))));
        assert!(activity.instances.lock().unwrap().len() < 100);
        let _pause = kept.pause();
        assert!(activity.is_paused(&id(0)) && !activity.is_paused(&id(1)));
    }
}
