//! Rate limiter for requests, tokens and cost per minute of a model (`Model.spec.limits`) and of a
//! swarm (`Swarm.spec.limits`). Callers wait in order of arrival.
//!
//! The limiter counts the last minute of this process only. A turn that was waiting when its
//! process ended waits again after it resumes.

use std::collections::VecDeque;
use std::iter::Sum;
use std::ops::SubAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan_core::event::UsageCost;
use goondan_spec::kinds::RateLimits;
use tokio::time::Instant;

use crate::activity::ActivityTracker;

/// Window of the limits.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Interval of heartbeats while a caller waits.
const WAIT_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Usage of the last minute.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// Locked by the first waiting caller; the other callers queue for the lock.
    line: tokio::sync::Mutex<()>,
    taken: Mutex<RateWindow>,
}

#[derive(Debug, Default)]
struct RateWindow {
    requests: VecDeque<Instant>,
    tokens: VecDeque<(Instant, u64)>,
    cost: VecDeque<(Instant, f64)>,
}

/// Limit that prevents a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitHit {
    /// YAML field of the limit.
    pub(crate) limit: &'static str,
    /// Earliest time at which a request may be possible.
    pub(crate) until: Instant,
}

impl RateLimiter {
    /// Waits until another request is allowed, and counts it. Calls `tell` at most once, if the
    /// caller has to wait. While it waits, the turn's clock is paused and heartbeats are recorded
    /// for its callers.
    pub(crate) async fn acquire(
        &self,
        limits: RateLimits,
        tracker: &Arc<ActivityTracker>,
        tell: impl FnOnce(RateLimitHit),
    ) {
        if limits.is_none() {
            return;
        }
        let mut tell = Some(tell);
        let mut waits = None;
        let mut say = |full: RateLimitHit| {
            waits.get_or_insert_with(|| tracker.pause());
            if let Some(tell) = tell.take() {
                tell(full);
            }
        };
        let _line = match self.line.try_lock() {
            Ok(line) => line,
            Err(_) => {
                if let Some(hit) = self.lock_window().exceeded_limit(limits, Instant::now()) {
                    say(hit);
                }
                self.line.lock().await
            }
        };
        loop {
            let now = Instant::now();
            let Some(full) = self.lock_window().take(limits, now) else {
                return;
            };
            say(full);
            tokio::time::sleep_until(full.until.min(now + WAIT_HEARTBEAT_INTERVAL)).await;
            tracker.record_heartbeat();
        }
    }

    /// Records the usage of an answer.
    pub(crate) fn record_usage(&self, limits: RateLimits, tokens: u64, cost: Option<&UsageCost>) {
        let now = Instant::now();
        if limits.tokens_per_minute.is_some() && tokens > 0 {
            self.lock_window().tokens.push_back((now, tokens));
        }
        if let (Some(_), Some(cost)) = (
            limits.cost_per_minute,
            cost.filter(|cost| cost.amount > 0.0),
        ) {
            self.lock_window().cost.push_back((now, cost.amount));
        }
    }

    /// Returns the recorded usage, locked.
    fn lock_window(&self) -> MutexGuard<'_, RateWindow> {
        // A panic cannot leave the lists in an inconsistent state.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateWindow {
    /// Counts a request if the limits allow it; otherwise returns the limit.
    fn take(&mut self, limits: RateLimits, now: Instant) -> Option<RateLimitHit> {
        let exceeded = self.exceeded_limit(limits, now);
        if exceeded.is_none() && limits.requests_per_minute.is_some() {
            self.requests.push_back(now);
        }
        exceeded
    }

    /// Returns the limit that prevents a request now; if several do, the one with the latest end.
    fn exceeded_limit(&mut self, limits: RateLimits, now: Instant) -> Option<RateLimitHit> {
        while self
            .requests
            .front()
            .is_some_and(|at| *at + RATE_WINDOW <= now)
        {
            self.requests.pop_front();
        }
        drop_expired(&mut self.tokens, now);
        drop_expired(&mut self.cost, now);
        let tokens = limits
            .tokens_per_minute
            .and_then(|limit| full_until(&self.tokens, limit));
        let cost = limits
            .cost_per_minute
            .and_then(|limit| full_until(&self.cost, limit));
        let limit_hit =
            |limit, until: Option<Instant>| until.map(|until| RateLimitHit { limit, until });
        [
            self.requests_full(limits),
            limit_hit("tokensPerMinute", tokens),
            limit_hit("costPerMinute", cost),
        ]
        .into_iter()
        .flatten()
        .max_by_key(|hit| hit.until)
    }

    /// Returns the request limit if it prevents a request now; `None` if it does not.
    fn requests_full(&self, limits: RateLimits) -> Option<RateLimitHit> {
        let max_requests = usize::try_from(limits.requests_per_minute?).unwrap_or(usize::MAX);
        let too_many = self.requests.len().checked_sub(max_requests)?;
        self.requests.get(too_many).map(|at| RateLimitHit {
            limit: "requestsPerMinute",
            until: *at + RATE_WINDOW,
        })
    }
}

/// Drops entries older than a minute.
fn drop_expired<T>(used: &mut VecDeque<(Instant, T)>, now: Instant) {
    while used.front().is_some_and(|(at, _)| *at + RATE_WINDOW <= now) {
        used.pop_front();
    }
}

/// Returns the time until which the usage exceeds the limit.
fn full_until<T>(used: &VecDeque<(Instant, T)>, limit: T) -> Option<Instant>
where
    T: Copy + PartialOrd + Sum + SubAssign,
{
    let mut sum: T = used.iter().map(|(_, amount)| *amount).sum();
    let mut end = None;
    for (at, amount) in used {
        if sum < limit {
            break;
        }
        sum -= *amount;
        end = Some(*at + RATE_WINDOW);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::ActiveStopwatch;

    fn limits(requests: Option<u64>, tokens: Option<u64>) -> RateLimits {
        RateLimits {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            cost_per_minute: None,
        }
    }

    async fn acquire(
        rate_limiter: &RateLimiter,
        limits: RateLimits,
        tracker: &Arc<ActivityTracker>,
    ) -> Option<&'static str> {
        let mut reached_limit = None;
        rate_limiter
            .acquire(limits, tracker, |full| reached_limit = Some(full.limit))
            .await;
        reached_limit
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_until_an_earlier_request_is_one_minute_old() {
        let (rate_limiter, tracker, limits) = (
            RateLimiter::default(),
            ActivityTracker::new(),
            limits(Some(2), None),
        );
        let start = Instant::now();
        assert_eq!(acquire(&rate_limiter, limits, &tracker).await, None);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(acquire(&rate_limiter, limits, &tracker).await, None);
        assert_eq!(
            acquire(&rate_limiter, limits, &tracker).await,
            Some("requestsPerMinute")
        );
        assert_eq!(start.elapsed().as_secs(), 60);
        assert_eq!(
            acquire(&rate_limiter, limits, &tracker).await,
            Some("requestsPerMinute")
        );
        assert_eq!(start.elapsed().as_secs(), 80);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_count_from_the_answer_and_may_exceed_the_limit_once() {
        let (rate_limiter, tracker, limits) = (
            RateLimiter::default(),
            ActivityTracker::new(),
            limits(None, Some(100)),
        );
        let start = Instant::now();
        acquire(&rate_limiter, limits, &tracker).await;
        rate_limiter.record_usage(limits, 60, None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(acquire(&rate_limiter, limits, &tracker).await, None);
        rate_limiter.record_usage(limits, 500, None);
        assert_eq!(
            acquire(&rate_limiter, limits, &tracker).await,
            Some("tokensPerMinute")
        );
        assert_eq!(
            start.elapsed().as_secs(),
            70,
            "the second call alone exceeds the limit"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn cost_counts_from_the_answer() {
        let (rate_limiter, tracker) = (RateLimiter::default(), ActivityTracker::new());
        let limits = RateLimits {
            cost_per_minute: Some(0.5),
            ..RateLimits::default()
        };
        let cost = |amount| UsageCost {
            amount,
            currency: "EUR".to_owned(),
        };
        let start = Instant::now();
        rate_limiter.record_usage(limits, 10, Some(&cost(0.3)));
        assert_eq!(acquire(&rate_limiter, limits, &tracker).await, None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        rate_limiter.record_usage(limits, 10, Some(&cost(0.3)));
        assert_eq!(
            acquire(&rate_limiter, limits, &tracker).await,
            Some("costPerMinute")
        );
        assert_eq!(start.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_run_in_order_and_can_be_cancelled() {
        let (rate_limiter, limits) = (Arc::new(RateLimiter::default()), limits(Some(1), None));
        let start = Instant::now();
        acquire(&rate_limiter, limits, &ActivityTracker::new()).await;
        let wait = |rate_limiter: Arc<RateLimiter>| {
            tokio::spawn(async move {
                let reached_limit = acquire(&rate_limiter, limits, &ActivityTracker::new()).await;
                (reached_limit, start.elapsed().as_secs())
            })
        };
        let mut waiters = Vec::new();
        for _ in 0..3 {
            waiters.push(wait(Arc::clone(&rate_limiter)));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // A cancelled request does not delay the others.
        waiters.remove(0).abort();
        let full = Some("requestsPerMinute");
        assert_eq!(waiters.remove(0).await.unwrap(), (full, 60));
        assert_eq!(waiters.remove(0).await.unwrap(), (full, 120));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_limit_wait_pauses_the_turn_clock_and_sends_heartbeats() {
        let (rate_limiter, tracker, parent, limits) = (
            RateLimiter::default(),
            ActivityTracker::new(),
            ActivityTracker::new(),
            limits(Some(1), None),
        );
        let _wait_guard = parent.wait_for(&tracker);
        let watch = ActiveStopwatch::start(&tracker);
        acquire(&rate_limiter, limits, &tracker).await;
        let acquisition = acquire(&rate_limiter, limits, &tracker);
        tokio::select! {
            reached_limit = acquisition => assert_eq!(reached_limit, Some("requestsPerMinute")),
            () = parent.wait_for_silence(Duration::from_secs(30)) => panic!("no heartbeat"),
        }
        assert_eq!(
            (watch.elapsed(&tracker).as_secs(), tracker.is_paused()),
            (0, false)
        );
    }
}
