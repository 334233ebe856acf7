//! Time and ids, injected so that tests can control them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;

/// Source of the time and of fresh ids.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> DateTime<Utc>;
    /// Returns `digits` random lower-case hex digits (at most 32).
    fn random_hex(&self, digits: usize) -> String;

    /// Waits until `at`, but at most a minute. The clock can be set during the wait, so callers
    /// check the time again.
    fn sleep_until(&self, at: DateTime<Utc>) -> BoxFuture<'static, ()> {
        // A negative duration, for a time already reached, becomes zero.
        let wait = (at - self.now()).to_std().unwrap_or_default();
        Box::pin(tokio::time::sleep(wait.min(Duration::from_secs(60))))
    }
}

/// System clock and random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn random_hex(&self, digits: usize) -> String {
        let mut text = format!("{:032x}", rand::random::<u128>());
        text.truncate(digits);
        text
    }
}
