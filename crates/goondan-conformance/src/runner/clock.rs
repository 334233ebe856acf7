//! The time of day of a case.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use goondan::runtime::ports::clock::{Clock, SystemClock};

/// The machine's clock, moved by the case. What waits goes by the machine's clock alone.
#[derive(Debug, Default)]
pub(crate) struct CaseClock {
    /// Seconds.
    ahead: AtomicI64,
}

impl CaseClock {
    /// Moves the clock.
    pub(crate) fn advance(&self, seconds: u32) {
        self.ahead.fetch_add(i64::from(seconds), Ordering::Relaxed);
    }
}

impl Clock for CaseClock {
    fn now(&self) -> DateTime<Utc> {
        let ahead = TimeDelta::try_seconds(self.ahead.load(Ordering::Relaxed)).unwrap_or_default();
        SystemClock.now().checked_add_signed(ahead).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn hex(&self, digits: usize) -> String {
        SystemClock.hex(digits)
    }
}
