//! Time and ids, injected so that tests decide them.

use chrono::{DateTime, Utc};

/// Where time and fresh ids come from.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> DateTime<Utc>;
    /// That many fresh lower-case hex digits (at most 32).
    fn hex(&self, digits: usize) -> String;
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
