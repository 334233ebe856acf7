//! Delays before a process that failed is started again.

use std::time::Duration;

use goondan_spec::Code;
use tokio::time::Instant;

use crate::ports::tool::HandlerError;

/// Consecutive failures of a process, and the time of its next start.
#[derive(Debug)]
pub struct RestartDelay {
    /// Number of consecutive failures after which the process is still restarted at once.
    immediate_restarts: u32,
    max_delay: Duration,
    failures: u32,
    not_before: Option<Instant>,
}

impl RestartDelay {
    /// Creates the state of a process without failures.
    pub const fn new(immediate_restarts: u32, max_delay: Duration) -> Self {
        RestartDelay {
            immediate_restarts,
            max_delay,
            failures: 0,
            not_before: None,
        }
    }

    /// Counts a failure at the time `at`, and returns the number of consecutive failures.
    /// `has_answered`: whether the process had answered a call, which ends the series before.
    pub fn record_failure(&mut self, has_answered: bool, at: Instant) -> u32 {
        self.failures = if has_answered {
            1
        } else {
            self.failures.saturating_add(1)
        };
        let pause = pause_after(self.failures, self.immediate_restarts, self.max_delay);
        self.not_before = Some(at + pause);
        self.failures
    }

    /// Fails with `code` until the pause after the last failure is over. `process` names the process
    /// in the error.
    pub fn check(&self, process: &str, code: Code) -> Result<(), HandlerError> {
        let now = Instant::now();
        let time_left = self
            .not_before
            .and_then(|at| at.checked_duration_since(now));
        let Some(time_left) = time_left.filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        let (failures, seconds) = (self.failures, time_left.as_secs() + 1);
        let error = HandlerError::new(format!(
            "{process} crashed {failures} times in a row; it restarts in {seconds} s"
        ));
        Err(error
            .code(code)
            .suggest("Use another tool, or retry after the restart."))
    }
}

/// Returns the pause after consecutive failures: none for the first `immediate_restarts`, then 1 s,
/// 2 s, 4 s … up to `max_delay`.
pub fn pause_after(failures: u32, immediate_restarts: u32, max_delay: Duration) -> Duration {
    let Some(doublings) = failures.checked_sub(immediate_restarts + 1) else {
        return Duration::ZERO;
    };
    let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(max_delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_double_after_the_immediate_restarts() {
        let max_delay = Duration::from_secs(60);
        let seconds = |failures| pause_after(failures, 3, max_delay).as_secs();
        assert_eq!((0..=3).map(seconds).max(), Some(0));
        assert_eq!(
            (4..=11).map(seconds).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 60, 60]
        );
        assert_eq!(seconds(u32::MAX), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_resets_the_series_of_failures() {
        let mut delay = RestartDelay::new(1, Duration::from_secs(60));
        let code = Code::HOST_DOWN;
        assert_eq!(delay.record_failure(false, Instant::now()), 1);
        delay.check("a process", code).unwrap();
        assert_eq!(delay.record_failure(false, Instant::now()), 2);
        let error = delay.check("a process", code).unwrap_err();
        assert_eq!(
            error.message,
            "a process crashed 2 times in a row; it restarts in 2 s"
        );
        tokio::time::advance(Duration::from_millis(1001)).await;
        delay.check("a process", code).unwrap();
        assert_eq!(delay.record_failure(true, Instant::now()), 1);
        delay.check("a process", code).unwrap();
    }
}
