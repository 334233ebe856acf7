//! Time and ids, injected so that tests decide them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;

/// Where time and fresh ids come from.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> DateTime<Utc>;
    /// That many fresh lower-case hex digits (at most 32).
    fn hex(&self, digits: usize) -> String;

    /// Waits until it is `at`, but not much longer than a minute: a clock may be set meanwhile, so whoever waits looks again.
    fn sleep_until(&self, at: DateTime<Utc>) -> BoxFuture<'static, ()> {
        // A time that has passed is no time to wait.
        let wait = (at - self.now()).to_std().unwrap_or_default();
        Box::pin(tokio::time::sleep(wait.min(Duration::from_secs(60))))
    }
}

/// The machine's clock and its random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn hex(&self, digits: usize) -> String {
        let mut text = format!("{:032x}", rand::random::<u128>());
        text.truncate(digits);
        text
    }
}
