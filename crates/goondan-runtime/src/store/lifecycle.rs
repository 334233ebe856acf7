//! When idle instances go (rule C6). Pure.
//!
//! An instance that was idle for `ttl` is retired: it is no longer counted nor listed by default, and nothing of it is kept
//! in memory. An event or a spawn brings it back as it was. One that was retired for `gcGrace` is deleted with its folder;
//! an event for it then begins a new conversation. Without a `ttl` nothing is retired, without a grace nothing is deleted.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_spec::kinds::Lifecycle;

use crate::ids::InstanceId;
use crate::ports::store::{InstanceMeta, InstanceStatus};

/// What has to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// Idle for too long.
    pub retire: Vec<InstanceId>,
    /// Retired for too long.
    pub delete: Vec<InstanceId>,
}

/// What is due at `now` among instances without a turn and without events that wait.
pub fn due<'a>(idle: impl Iterator<Item = &'a InstanceMeta>, now: DateTime<Utc>, lifecycle: &Lifecycle) -> Due {
    let mut due = Due::default();
    for meta in idle {
        match meta.retired_at.filter(|_| meta.status == InstanceStatus::Retired) {
            None if is_over(meta.updated_at, lifecycle.ttl, now) => due.retire.push(meta.id()),
            Some(since) if is_over(since, lifecycle.gc_grace, now) => due.delete.push(meta.id()),
            _ => {}
        }
    }
    due
}

fn is_over(since: DateTime<Utc>, limit: Option<Duration>, now: DateTime<Utc>) -> bool {
    // A clock that was set back makes nothing due.
    let elapsed = (now - since).to_std().unwrap_or_default();
    limit.is_some_and(|limit| elapsed >= limit)
}

/// How often it is worth to look; `None` where nothing is ever due.
pub fn interval(lifecycle: &Lifecycle) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(60);
    let shorter = [lifecycle.ttl, lifecycle.gc_grace].into_iter().flatten().min()?;
    Some((shorter / 4).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::store::suite::samples::{instance, meta};

    const LIFECYCLE: Lifecycle =
        Lifecycle { ttl: Some(Duration::from_secs(10)), gc_grace: Some(Duration::from_secs(5)) };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn retired(key: &str, seconds: i64) -> InstanceMeta {
        InstanceMeta { status: InstanceStatus::Retired, retired_at: Some(at(seconds)), ..meta(&instance(key)) }
    }

    #[test]
    fn idle_instances_retire_and_retired_ones_go() {
        let fresh = InstanceMeta { updated_at: at(1), ..meta(&instance("fresh")) };
        let metas = [meta(&instance("old")), fresh, retired("long", 5), retired("short", 6)];
        let due = due(metas.iter(), at(10), &LIFECYCLE);
        assert_eq!(due, Due { retire: vec![instance("old")], delete: vec![instance("long")] });
    }

    #[test]
    fn what_is_not_set_never_comes() {
        let metas = [meta(&instance("old")), retired("long", 0)];
        assert_eq!(due(metas.iter(), at(1_000_000), &Lifecycle::default()), Due::default());
        assert_eq!(interval(&Lifecycle::default()), None);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_due() {
        assert_eq!(due([meta(&instance("old"))].iter(), at(-100), &LIFECYCLE), Due::default());
    }

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval(&LIFECYCLE), Some(Duration::from_millis(1_250)));
        let none = Duration::ZERO;
        assert_eq!(interval(&Lifecycle { ttl: Some(none), gc_grace: None }), Some(Duration::from_millis(100)));
        let day = Duration::from_secs(86_400);
        assert_eq!(interval(&Lifecycle { ttl: Some(day), gc_grace: None }), Some(Duration::from_secs(60)));
    }
}
