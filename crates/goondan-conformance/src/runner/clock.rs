//! Clock of a test case: starts at the configured time, runs, and is advanced by `advance`.

use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use goondan::ports::clock::{Clock, SystemClock};
use tokio::sync::watch;

/// Clock that survives `kill` and `restart`. Clones share the time.
#[derive(Clone)]
pub(super) struct CaseClock {
    begin: DateTime<Utc>,
    begun: Instant,
    ahead: Arc<watch::Sender<TimeDelta>>,
}

impl CaseClock {
    /// Creates a clock that starts at `begin`, or now.
    pub(super) fn new(begin: Option<DateTime<Utc>>) -> Self {
        CaseClock {
            begin: begin.unwrap_or_else(Utc::now),
            begun: Instant::now(),
            ahead: Arc::new(watch::Sender::new(TimeDelta::zero())),
        }
    }

    /// Advances the clock and wakes all sleepers.
    pub(super) fn advance(&self, by: TimeDelta) {
        self.ahead.send_modify(|ahead| *ahead += by);
    }
}

impl Clock for CaseClock {
    fn now(&self) -> DateTime<Utc> {
        let elapsed = TimeDelta::from_std(self.begun.elapsed()).unwrap_or_default();
        self.begin + elapsed + *self.ahead.borrow()
    }

    fn random_hex(&self, digits: usize) -> String {
        SystemClock.random_hex(digits)
    }

    fn sleep_until(&self, at: DateTime<Utc>) -> futures::future::BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            let mut ahead = clock.ahead.subscribe();
            loop {
                let wait = (at - clock.now()).to_std().unwrap_or_default();
                tokio::select! {
                    () = tokio::time::sleep(wait) => return,
                    // The sender exists as long as `clock`.
                    _ = ahead.changed() => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn advancing_the_clock_wakes_a_sleeping_task() {
        let clock = CaseClock::new(Some(DateTime::UNIX_EPOCH));
        let waiting = clock.sleep_until(DateTime::UNIX_EPOCH + TimeDelta::days(1));
        let (other, day) = (clock.clone(), TimeDelta::days(1));
        let (_, ()) = tokio::join!(waiting, async move { other.advance(day) });
        assert!(clock.now() >= DateTime::UNIX_EPOCH + day);
    }
}
