//! Signs of life, and the time in which a person is asked.
//!
//! A time-out is there for what hangs. Who is at work does not hang, however long it takes: the wait for another agent counts
//! from its last sign of life. And a person may take all the time there is: while one is asked, every clock stands still that
//! runs for the call, its turn, and those who wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use goondan_core::ids::InstanceId;

/// How often signs of life are told elsewhere.
const PULSE: Duration = Duration::from_secs(1);

/// What is known of the life of an instance, of a call, or of a whole run.
#[derive(Debug)]
pub(crate) struct Life {
    seen: Mutex<Instant>,
    /// Those whose work is waited for: their signs are signs of this one.
    below: Mutex<Vec<Arc<Life>>>,
    asked: watch::Sender<Asked>,
}

/// How long persons have been asked.
#[derive(Debug, Default, Clone, Copy)]
struct Asked {
    /// Questions that are open.
    open: usize,
    /// Since when there is one.
    since: Option<Instant>,
    /// Until the last time when there was none.
    before: Duration,
}

impl Asked {
    fn begin(&mut self) {
        self.open += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.before = self.total();
            self.since = None;
        }
    }

    fn total(&self) -> Duration {
        self.before + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Life {
    /// Seen now.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Life {
            seen: Mutex::new(Instant::now()),
            below: Mutex::default(),
            asked: watch::Sender::default(),
        })
    }

    /// A sign of life.
    pub(crate) fn show(&self) {
        *self.seen() = Instant::now();
    }

    /// From now on a person is asked, until what is returned is dropped. That is a sign of life, too. A turn that waits for the
    /// limits of its model says the same of itself: that is no work either.
    pub(crate) fn ask(self: &Arc<Self>) -> Asking {
        self.asked.send_modify(Asked::begin);
        Asking(Arc::clone(self))
    }

    /// Whether a person is asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.borrow().open > 0
    }

    /// For how long persons have been asked.
    pub(crate) fn asked_for(&self) -> Duration {
        self.asked.borrow().total()
    }

    /// The work of `other` is waited for, until what is returned is dropped.
    pub(crate) fn wait_for(self: &Arc<Self>, other: &Arc<Life>) -> Waiting {
        self.below().push(Arc::clone(other));
        Waiting {
            waits: Arc::clone(self),
            other: Arc::clone(other),
        }
    }

    /// Comes back once there was no sign of life for that long, from now on. While a person is asked nothing counts.
    pub(crate) async fn silence(&self, limit: Duration) {
        let begun = Instant::now();
        loop {
            self.unasked().await;
            let silent_at = begun.max(self.last_sign()) + limit;
            if silent_at <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(silent_at) => {}
                () = self.is_asked_again() => {}
            }
        }
    }

    /// As long as a person is asked there, one is asked in all of `above`. Never comes back.
    pub(crate) async fn hold(&self, above: [&Arc<Life>; 2]) {
        loop {
            self.is_asked_again().await;
            let _asked = above.map(Life::ask);
            self.unasked().await;
        }
    }

    /// Tells of signs of life, for as long as it is polled: at most one a second, and at once where a person is asked or is asked
    /// no more. Somebody elsewhere has a [`Mirror`] of it.
    pub(crate) async fn report(&self, mut tell: impl FnMut(bool)) {
        let (mut asked, mut told, mut was_asked) =
            (self.asked.subscribe(), self.last_sign(), false);
        loop {
            let (is_asked, sign) = (asked.borrow_and_update().open > 0, self.last_sign());
            if is_asked != was_asked || sign > told {
                tell(is_asked);
                (was_asked, told) = (is_asked, sign);
            }
            tokio::select! {
                // The sender lives as long as this.
                _ = asked.changed() => {}
                () = tokio::time::sleep(PULSE) => {}
            }
        }
    }

    async fn unasked(&self) {
        self.until(|asked| asked.open == 0).await;
    }

    async fn is_asked_again(&self) {
        self.until(|asked| asked.open > 0).await;
    }

    async fn until(&self, is_so: impl FnMut(&Asked) -> bool) {
        // The sender lives as long as this.
        let _ = self.asked.subscribe().wait_for(is_so).await;
    }

    /// Nobody waits in a circle (`routing.rs`), so this ends.
    fn last_sign(&self) -> Instant {
        let below = self.below().clone();
        below
            .iter()
            .map(|life| life.last_sign())
            .fold(*self.seen(), Instant::max)
    }

    fn seen(&self) -> MutexGuard<'_, Instant> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self) -> MutexGuard<'_, Vec<Arc<Life>>> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A person is asked.
#[must_use]
pub(crate) struct Asking(Arc<Life>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.show();
        self.0.asked.send_modify(Asked::end);
    }
}

/// Somebody is waited for.
#[must_use]
pub(crate) struct Waiting {
    waits: Arc<Life>,
    other: Arc<Life>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Its end is a sign of life.
        self.waits.show();
        let mut below = self.waits.below();
        if let Some(at) = below.iter().position(|life| Arc::ptr_eq(life, &self.other)) {
            below.swap_remove(at);
        }
    }
}

/// A life that goes on elsewhere.
pub(crate) struct Mirror {
    life: Arc<Life>,
    asking: Option<Asking>,
}

impl Mirror {
    /// What is told of it counts as a sign of `life`.
    pub(crate) fn of(life: Arc<Life>) -> Self {
        Mirror { life, asking: None }
    }

    /// There was a sign of life; a person is asked there, or not. Gives back whether that has changed.
    pub(crate) fn show(&mut self, is_asked: bool) -> bool {
        self.life.show();
        let has_changed = self.asking.is_some() != is_asked;
        if has_changed {
            self.asking = is_asked.then(|| self.life.ask());
        }
        has_changed
    }
}

/// Counts time in which no person is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    since: Instant,
    /// For how long persons had been asked by then.
    asked: Duration,
}

impl Stopwatch {
    /// Counts from now on, by that life.
    pub(crate) fn start(life: &Life) -> Self {
        Stopwatch {
            since: Instant::now(),
            asked: life.asked_for(),
        }
    }

    /// What has passed by now.
    pub(crate) fn elapsed(self, life: &Life) -> Duration {
        self.since
            .elapsed()
            .saturating_sub(life.asked_for().saturating_sub(self.asked))
    }

    /// The same in milliseconds.
    pub(crate) fn millis(self, life: &Life) -> u64 {
        u64::try_from(self.elapsed(life).as_millis()).unwrap_or(u64::MAX)
    }
}

/// The lives of all instances that somebody looks at, and that of the run.
#[derive(Debug)]
pub(crate) struct Lives {
    /// A person is asked in the run as long as one is asked anywhere in it.
    pub(crate) run: Arc<Life>,
    instances: Mutex<HashMap<InstanceId, Weak<Life>>>,
}

impl Default for Lives {
    fn default() -> Self {
        Lives {
            run: Life::new(),
            instances: Mutex::default(),
        }
    }
}

impl Lives {
    /// The life of an instance, which may have no turn yet.
    pub(crate) fn of(&self, id: &InstanceId) -> Arc<Life> {
        let mut instances = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = instances.get(id).and_then(Weak::upgrade) {
            return life;
        }
        if instances.len() == instances.capacity() {
            // Before the table grows, what is over goes.
            instances.retain(|_, life| life.strong_count() > 0);
        }
        let life = Life::new();
        instances.insert(id.clone(), Arc::downgrade(&life));
        life
    }

    /// Whether a person is asked by an instance, or below it.
    pub(crate) fn is_asked(&self, id: &InstanceId) -> bool {
        let instances = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        instances
            .get(id)
            .and_then(Weak::upgrade)
            .is_some_and(|life| life.is_asked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn after(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// How long it takes until `life` has been silent for [`LIMIT`], in seconds.
    async fn silence(life: Arc<Life>) -> u64 {
        let begun = Instant::now();
        life.silence(LIMIT).await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_sign_of_life() {
        let (life, deep) = (Life::new(), Life::new());
        let (middle, waited) = (Life::new(), tokio::spawn(silence(Arc::clone(&life))));
        let _waits = (life.wait_for(&middle), middle.wait_for(&deep));
        after(9).await;
        life.show();
        after(9).await;
        deep.show();
        assert_eq!(waited.await.unwrap(), 28);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_stands_still_while_somebody_is_asked() {
        let (life, above, top) = (Life::new(), Life::new(), Life::new());
        let waited = tokio::spawn(silence(Arc::clone(&top)));
        let watch = Stopwatch::start(&top);
        let holding = (Arc::clone(&life), Arc::clone(&above), Arc::clone(&top));
        tokio::spawn(async move { holding.0.hold([&holding.1, &holding.2]).await });
        after(4).await;
        let (first, second) = (life.ask(), life.ask());
        after(3_600).await;
        drop(first);
        after(3_600).await;
        assert!(top.is_asked() && above.is_asked());
        drop(second);
        after(1).await;
        assert!(!top.is_asked());
        assert_eq!(
            (life.asked_for().as_secs(), watch.elapsed(&top).as_secs()),
            (7_200, 5)
        );
        assert_eq!(
            waited.await.unwrap(),
            4 + 7_200 + 10,
            "an answer is a sign of life"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_waited_for_any_more_does_not_count() {
        let (life, other) = (Life::new(), Life::new());
        let waited = tokio::spawn(silence(Arc::clone(&life)));
        let waiting = life.wait_for(&other);
        after(5).await;
        drop(waiting);
        after(5).await;
        other.show();
        assert_eq!(waited.await.unwrap(), 15);
    }

    #[test]
    fn lives_that_nobody_looks_at_are_forgotten() {
        let lives = Lives::default();
        let id = |number: usize| InstanceId::new("a", number.to_string());
        let kept = lives.of(&id(0));
        for number in 1..10_000 {
            drop(lives.of(&id(number)));
        }
        assert!(Arc::ptr_eq(&kept, &lives.of(&id(0))));
        assert!(lives.instances.lock().unwrap().len() < 100);
        let _asking = kept.ask();
        assert!(lives.is_asked(&id(0)) && !lives.is_asked(&id(1)));
    }
}
