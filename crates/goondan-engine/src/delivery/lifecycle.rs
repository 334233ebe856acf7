//! Rules for retiring and deleting idle instances (rule C6). Pure functions.
//!
//! An instance that is idle for `ttl` is retired: it no longer counts, is hidden by default and
//! leaves memory. An event or a spawn revives it unchanged.
//!
//! An instance that is retired for `gcGrace` is deleted with its directory. The next event for it
//! begins a new conversation. Without `gcGrace` no instance is deleted.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::ConversationRetention;

/// Idle time of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdleTime {
    /// End of the last turn.
    pub since: DateTime<Utc>,
    /// Time of retirement, if retired.
    pub retired: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifecycleStep {
    Retire,
    Delete,
}

impl IdleTime {
    /// Returns the step that is due at `now`: retirement, or deletion of a retired instance; `None`
    /// if nothing is due.
    pub(crate) fn next_step(
        &self,
        now: DateTime<Utc>,
        lifecycle: &ConversationRetention,
    ) -> Option<LifecycleStep> {
        match self.retired {
            None => is_over(self.since, lifecycle.ttl, now).then_some(LifecycleStep::Retire),
            Some(since) => lifecycle
                .gc_grace
                .is_some_and(|grace| is_over(since, grace, now))
                .then_some(LifecycleStep::Delete),
        }
    }
}

/// Instances to retire or delete now, under any kind of name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueInstances<Name> {
    pub retire: Vec<Name>,
    pub delete: Vec<Name>,
}

/// Returns the instances that are due at `now`. `instances` must have no turn and no queued events.
pub(crate) fn due_instances<Name>(
    instances: impl Iterator<Item = (Name, IdleTime)>,
    now: DateTime<Utc>,
    lifecycle: &ConversationRetention,
) -> DueInstances<Name> {
    let mut due = DueInstances {
        retire: Vec::new(),
        delete: Vec::new(),
    };
    for (name, idle) in instances {
        match idle.next_step(now, lifecycle) {
            Some(LifecycleStep::Retire) => due.retire.push(name),
            Some(LifecycleStep::Delete) => due.delete.push(name),
            None => {}
        }
    }
    due
}

/// Returns true if `limit` passed since `since`.
fn is_over(since: DateTime<Utc>, limit: Duration, now: DateTime<Utc>) -> bool {
    // A clock that was set back makes nothing due.
    let elapsed = (now - since).to_std().unwrap_or_default();
    elapsed >= limit
}

/// Minimum interval between two checks.
pub(crate) const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum interval between two checks. A check can read the metadata of all conversations.
pub(crate) const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Returns the interval between checks for due instances: a quarter of the shorter limit, between
/// [`MIN_CHECK_INTERVAL`] and [`MAX_CHECK_INTERVAL`]. A step is late by at most one interval.
pub(crate) fn check_interval(lifecycle: &ConversationRetention) -> Duration {
    let shorter = lifecycle
        .gc_grace
        .map_or(lifecycle.ttl, |grace| grace.min(lifecycle.ttl));
    (shorter / 4).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIFECYCLE: ConversationRetention = ConversationRetention {
        ttl: Duration::from_secs(10),
        gc_grace: Some(Duration::from_secs(5)),
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn idle(name: &str, seconds: i64) -> (&str, IdleTime) {
        (
            name,
            IdleTime {
                since: at(seconds),
                retired: None,
            },
        )
    }

    fn retired(name: &str, seconds: i64) -> (&str, IdleTime) {
        (
            name,
            IdleTime {
                since: at(0),
                retired: Some(at(seconds)),
            },
        )
    }

    #[test]
    fn idle_instances_retire_and_retired_instances_are_deleted() {
        let instances = [
            idle("old", 0),
            idle("fresh", 1),
            retired("long", 5),
            retired("short", 6),
        ];
        let due = due_instances(instances.into_iter(), at(10), &LIFECYCLE);
        assert_eq!(
            due,
            DueInstances {
                retire: vec!["old"],
                delete: vec!["long"]
            }
        );
    }

    #[test]
    fn by_default_conversations_retire_after_90_days_and_are_never_deleted() {
        let days = |days: i64| days * 24 * 60 * 60;
        let instances = [idle("old", 0), idle("fresh", 1), retired("long", 0)];
        let due = due_instances(
            instances.into_iter(),
            at(days(90)),
            &ConversationRetention::default(),
        );
        assert_eq!(
            due,
            DueInstances {
                retire: vec!["old"],
                delete: vec![]
            }
        );
    }

    #[test]
    fn no_instance_is_due_after_the_clock_is_set_back() {
        let due = due_instances([idle("old", 0)].into_iter(), at(-100), &LIFECYCLE);
        assert_eq!(
            due,
            DueInstances {
                retire: vec![],
                delete: vec![]
            }
        );
    }

    #[test]
    fn check_intervals_are_bounded() {
        let interval_of = |ttl, gc_grace| check_interval(&ConversationRetention { ttl, gc_grace });
        let day = Duration::from_secs(86_400);
        assert_eq!(check_interval(&LIFECYCLE), Duration::from_millis(1_250));
        assert_eq!(interval_of(day, Some(Duration::ZERO)), MIN_CHECK_INTERVAL);
        assert_eq!(interval_of(day, None), MAX_CHECK_INTERVAL);
    }
}
