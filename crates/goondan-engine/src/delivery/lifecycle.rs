//! Rules for retiring and deleting idle instances (rule C6). Pure functions.
//!
//! An instance that is idle for `ttl` is retired: it no longer counts, is hidden by default and
//! leaves memory. An event or a spawn revives it unchanged.
//!
//! An instance that is retired for `gcGrace` is deleted with its directory. The next event for it
//! begins a new conversation. Without `ttl` no instance is retired, and without `gcGrace` none is
//! deleted.

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
            Some(since) => is_over(since, lifecycle.gc_grace, now).then_some(LifecycleStep::Delete),
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
pub(crate) fn due<Name>(
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

/// Returns `true` if `limit` passed since `since`; `false` without a limit.
fn is_over(since: DateTime<Utc>, limit: Option<Duration>, now: DateTime<Utc>) -> bool {
    // A clock that was set back makes nothing due.
    let elapsed = (now - since).to_std().unwrap_or_default();
    limit.is_some_and(|limit| elapsed >= limit)
}

/// Minimum interval between two checks.
pub(crate) const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the interval between checks; `None` if no instance is ever due.
pub(crate) fn interval(lifecycle: &ConversationRetention) -> Option<Duration> {
    const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(60);
    let shorter = [lifecycle.ttl, lifecycle.gc_grace]
        .into_iter()
        .flatten()
        .min()?;
    Some((shorter / 4).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL))
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIFECYCLE: ConversationRetention = ConversationRetention {
        ttl: Some(Duration::from_secs(10)),
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
    fn idle_instances_retire_and_retired_ones_go() {
        let instances = [
            idle("old", 0),
            idle("fresh", 1),
            retired("long", 5),
            retired("short", 6),
        ];
        let due = due(instances.into_iter(), at(10), &LIFECYCLE);
        assert_eq!(
            due,
            DueInstances {
                retire: vec!["old"],
                delete: vec!["long"]
            }
        );
    }

    #[test]
    fn what_is_not_set_never_comes() {
        let due = due(
            [idle("old", 0), retired("long", 0)].into_iter(),
            at(1_000_000),
            &ConversationRetention::default(),
        );
        assert_eq!(
            due,
            DueInstances {
                retire: vec![],
                delete: vec![]
            }
        );
        assert_eq!(interval(&ConversationRetention::default()), None);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_due() {
        let due = due([idle("old", 0)].into_iter(), at(-100), &LIFECYCLE);
        assert_eq!(
            due,
            DueInstances {
                retire: vec![],
                delete: vec![]
            }
        );
    }

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval(&LIFECYCLE), Some(Duration::from_millis(1_250)));
        let none = Duration::ZERO;
        assert_eq!(
            interval(&ConversationRetention {
                ttl: Some(none),
                gc_grace: None
            }),
            Some(Duration::from_millis(100))
        );
        let day = Duration::from_secs(86_400);
        assert_eq!(
            interval(&ConversationRetention {
                ttl: Some(day),
                gc_grace: None
            }),
            Some(Duration::from_secs(60))
        );
    }
}
