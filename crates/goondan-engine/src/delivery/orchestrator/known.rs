//! What is known of an instance, in as little memory as it takes: a swarm may have a hundred thousand of them that have
//! nothing to do. Who it is, is not in it: that is where it is found.

use chrono::{DateTime, Utc};

use goondan_core::ids::InstanceId;
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Spending};

/// An [`InstanceMeta`] without the name.
pub(super) struct Known {
    status: InstanceStatus,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    spending: Spending,
    /// `None` where nothing of it is set.
    more: Option<Box<More>>,
}

/// What instances that were made by an input from outside don't have.
#[derive(Default, PartialEq)]
struct More {
    owner: Option<InstanceId>,
    cwd: Option<String>,
    retired_at: Option<DateTime<Utc>>,
    narrowing: Option<Narrowing>,
}

impl Known {
    /// All of it again.
    pub(super) fn meta(&self, agent: &str, instance_key: &str) -> InstanceMeta {
        let more = self.more.as_deref();
        InstanceMeta {
            status: self.status,
            agent: agent.to_owned(),
            instance_key: instance_key.to_owned(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            owner: more.and_then(|more| more.owner.clone()),
            cwd: more.and_then(|more| more.cwd.clone()),
            retired_at: self.retired_at(),
            narrowing: more.and_then(|more| more.narrowing.clone()),
            spending: self.spending,
        }
    }

    /// Whether it is retired.
    pub(super) fn is_retired(&self) -> bool {
        self.status == InstanceStatus::Retired
    }

    /// When its last turn ended.
    pub(super) fn updated_at(&self) -> DateTime<Utc> {
        self.updated_at
    }

    /// When it was retired.
    pub(super) fn retired_at(&self) -> Option<DateTime<Utc>> {
        self.more.as_deref().and_then(|more| more.retired_at)
    }
}

impl From<InstanceMeta> for Known {
    fn from(meta: InstanceMeta) -> Self {
        let InstanceMeta {
            status,
            created_at,
            updated_at,
            owner,
            cwd,
            retired_at,
            narrowing,
            spending,
            ..
        } = meta;
        let more = More {
            owner,
            cwd,
            retired_at,
            narrowing,
        };
        let more = (more != More::default()).then(|| Box::new(more));
        Known {
            status,
            created_at,
            updated_at,
            spending,
            more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_store::suite::samples::{instance, meta};

    #[test]
    fn nothing_is_lost_on_the_way() {
        let plain = meta(&instance("k"));
        let full = InstanceMeta {
            status: InstanceStatus::Retired,
            updated_at: DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(1),
            owner: Some(instance("owner")),
            cwd: Some("/there".to_owned()),
            retired_at: Some(DateTime::UNIX_EPOCH),
            narrowing: Some(Narrowing::to(["fs__read"])),
            ..plain.clone()
        };
        for meta in [plain, full] {
            assert_eq!(
                Known::from(meta.clone()).meta(&meta.agent, &meta.instance_key),
                meta
            );
        }
    }
}
