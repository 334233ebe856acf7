//! Time of schedules. It ignores a system clock that is set back: otherwise no schedule would be due
//! until the clock reaches the old time again.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// A forward step of the clock above this size corrects an earlier step back.
const MIN_FORWARD_STEP: TimeDelta = TimeDelta::minutes(1);

/// Time that never goes back. It is the system clock until that clock is set back.
#[derive(Debug, Default)]
pub struct ScheduleTime(Mutex<Option<ClockReading>>);

/// Last reading of the system clock.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    clock: DateTime<Utc>,
    at: Instant,
    /// Lead over the system clock.
    ahead: TimeDelta,
}

impl ScheduleTime {
    /// Returns the time of schedules; `clock` is the system clock.
    pub fn now(&self, clock: DateTime<Utc>) -> DateTime<Utc> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = last.map_or(TimeDelta::zero(), |last| last.ahead_at(clock));
        *last = Some(ClockReading {
            clock,
            at: Instant::now(),
            ahead,
        });
        clock + ahead
    }

    /// Returns the time of the system clock at the schedule's time `at`.
    pub fn on_clock(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        at - last.map_or(TimeDelta::zero(), |last| last.ahead)
    }
}

impl ClockReading {
    /// Returns the lead over the system clock, which now shows `clock`.
    fn ahead_at(self, clock: DateTime<Utc>) -> TimeDelta {
        let elapsed = TimeDelta::from_std(self.at.elapsed()).unwrap_or_default();
        let expected = self.clock + elapsed;
        if clock < self.clock {
            self.ahead + (expected - clock)
        } else if clock - expected > MIN_FORWARD_STEP {
            (self.ahead - (clock - expected)).max(TimeDelta::zero())
        } else {
            self.ahead
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn clock(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(1_000_000 + seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn schedule_time_advances_when_the_clock_is_set_back() {
        let time = ScheduleTime::default();
        assert_eq!(time.now(clock(0)), clock(0));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(time.now(clock(30)), clock(30));
        tokio::time::advance(Duration::from_secs(30)).await;
        // The clock is set back by one hour.
        assert_eq!(time.now(clock(60 - 3_600)), clock(60));
        assert_eq!(time.on_clock(clock(90)), clock(90 - 3_600));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(time.now(clock(90 - 3_600)), clock(90));
        // The clock is corrected and then set forward by a day.
        assert_eq!(time.now(clock(90)), clock(90));
        assert_eq!(time.now(clock(86_400)), clock(86_400));
    }
}
