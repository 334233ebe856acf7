//! When idle instances go (rule C6). Pure.
//!
//! An instance that was idle for `ttl` is retired: it is no longer counted nor listed by default, and nothing of it is kept
//! in memory. An event or a spawn brings it back as it was. One that was retired for `gcGrace` is deleted with its folder;
//! an event for it then begins a new conversation. Without a `ttl` nothing is retired, without a grace nothing is deleted.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::Lifecycle;

/// How long an instance has had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Idle {
    /// When its last turn ended.
    pub since: DateTime<Utc>,
    /// When it was retired.
    pub retired: Option<DateTime<Utc>>,
}

/// What becomes of an instance that has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was idle for too long.
    Retire,
    /// It was retired for too long.
    Delete,
}

impl Idle {
    /// What is due at `now`; `None` where nothing is.
    pub(crate) fn fate(&self, now: DateTime<Utc>, lifecycle: &Lifecycle) -> Option<Fate> {
        match self.retired {
            None => is_over(self.since, lifecycle.ttl, now).then_some(Fate::Retire),
            Some(since) => is_over(since, lifecycle.gc_grace, now).then_some(Fate::Delete),
        }
    }
}

/// What has to be done now, to instances with names of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due<Name> {
    /// Idle for too long.
    pub retire: Vec<Name>,
    /// Retired for too long.
    pub delete: Vec<Name>,
}

/// What is due at `now` among instances without a turn and without events that wait.
pub(crate) fn due<Name>(
    instances: impl Iterator<Item = (Name, Idle)>,
    now: DateTime<Utc>,
    lifecycle: &Lifecycle,
) -> Due<Name> {
    let mut due = Due {
        retire: Vec::new(),
        delete: Vec::new(),
    };
    for (name, idle) in instances {
        match idle.fate(now, lifecycle) {
            Some(Fate::Retire) => due.retire.push(name),
            Some(Fate::Delete) => due.delete.push(name),
            None => {}
        }
    }
    due
}

fn is_over(since: DateTime<Utc>, limit: Option<Duration>, now: DateTime<Utc>) -> bool {
    // A clock that was set back makes nothing due.
    let elapsed = (now - since).to_std().unwrap_or_default();
    limit.is_some_and(|limit| elapsed >= limit)
}

/// It is not worth to look more often.
pub(crate) const SHORTEST: Duration = Duration::from_millis(100);

/// How often it is worth to look; `None` where nothing is ever due.
pub(crate) fn interval(lifecycle: &Lifecycle) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(60);
    let shorter = [lifecycle.ttl, lifecycle.gc_grace]
        .into_iter()
        .flatten()
        .min()?;
    Some((shorter / 4).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIFECYCLE: Lifecycle = Lifecycle {
        ttl: Some(Duration::from_secs(10)),
        gc_grace: Some(Duration::from_secs(5)),
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn idle(name: &str, seconds: i64) -> (&str, Idle) {
        (
            name,
            Idle {
                since: at(seconds),
                retired: None,
            },
        )
    }

    fn retired(name: &str, seconds: i64) -> (&str, Idle) {
        (
            name,
            Idle {
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
            Due {
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
            &Lifecycle::default(),
        );
        assert_eq!(
            due,
            Due {
                retire: vec![],
                delete: vec![]
            }
        );
        assert_eq!(interval(&Lifecycle::default()), None);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_due() {
        let due = due([idle("old", 0)].into_iter(), at(-100), &LIFECYCLE);
        assert_eq!(
            due,
            Due {
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
            interval(&Lifecycle {
                ttl: Some(none),
                gc_grace: None
            }),
            Some(Duration::from_millis(100))
        );
        let day = Duration::from_secs(86_400);
        assert_eq!(
            interval(&Lifecycle {
                ttl: Some(day),
                gc_grace: None
            }),
            Some(Duration::from_secs(60))
        );
    }
}
