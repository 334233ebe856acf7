//! Compact metadata of an instance: a swarm may have a hundred thousand idle instances. The agent
//! and the key are not stored again; they are the keys of the map that contains it.

use chrono::{DateTime, Utc};

use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{AccumulatedUsage, InstanceMeta, InstanceStatus};
use goondan_core::tool_allowlist::ToolAllowlist;

/// An [`InstanceMeta`] without agent and key.
pub(super) struct CompactInstanceMeta {
    status: InstanceStatus,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    spending: AccumulatedUsage,
    /// `None` if all fields have their defaults.
    more: Option<Box<OptionalInstanceFields>>,
}

/// Fields that instances created by an external input do not use.
#[derive(Default, PartialEq)]
struct OptionalInstanceFields {
    owner: Option<InstanceId>,
    released_at: Option<DateTime<Utc>>,
    cwd: Option<String>,
    retired_at: Option<DateTime<Utc>>,
    narrowing: Option<ToolAllowlist>,
}

impl CompactInstanceMeta {
    /// Returns the complete metadata; the names are not stored here.
    pub(super) fn meta(&self, agent: &str, instance_key: &str) -> InstanceMeta {
        let optional_fields = self.more.as_deref();
        InstanceMeta {
            status: self.status,
            agent: agent.to_owned(),
            instance_key: instance_key.to_owned(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            owner: optional_fields.and_then(|fields| fields.owner.clone()),
            released_at: self.released_at(),
            cwd: optional_fields.and_then(|fields| fields.cwd.clone()),
            retired_at: self.retired_at(),
            narrowing: optional_fields.and_then(|fields| fields.narrowing.clone()),
            spending: self.spending,
        }
    }

    /// Returns true if another instance started this one and may access it.
    pub(super) fn has_owner(&self) -> bool {
        self.owner().is_some()
    }

    /// Returns the instance that started this one and may access it.
    pub(super) fn owner(&self) -> Option<&InstanceId> {
        self.more.as_ref()?.owner.as_ref()
    }

    /// Returns true if the event ends the ownership: an input from outside, or a call whose whole
    /// chain has the key of its target while the owner has another key.
    pub(super) fn is_released_by(&self, event: &AgentEvent) -> bool {
        let Some(owner) = self.owner() else {
            return false;
        };
        let key = &event.target.instance_key;
        let is_of_key = |caller: &InstanceId| caller.instance_key == *key;
        let is_call_of_key = !event.callers.is_empty() && event.callers.iter().all(is_of_key);
        event.is_from_outside() || (is_call_of_key && !is_of_key(owner))
    }

    /// Ends the ownership and the use of the owner's directory at `now`. Returns true if there was
    /// an owner.
    pub(super) fn release_from_owner(&mut self, now: DateTime<Utc>) -> bool {
        let Some(more) = &mut self.more else {
            return false;
        };
        let is_owned = more.owner.take().is_some();
        if is_owned {
            more.cwd = None;
            more.released_at = Some(now);
        }
        is_owned
    }

    /// Returns the time at which the owner lost its access to this instance. Returns `None` if the
    /// owner still has access, or if there never was one.
    pub(super) fn released_at(&self) -> Option<DateTime<Utc>> {
        self.more.as_deref().and_then(|more| more.released_at)
    }

    /// Returns true for a retired instance.
    pub(super) fn is_retired(&self) -> bool {
        self.status == InstanceStatus::Retired
    }

    /// Time at which the last turn ended.
    pub(super) fn updated_at(&self) -> DateTime<Utc> {
        self.updated_at
    }

    /// Returns the time of the retirement; `None` if the instance was never retired.
    pub(super) fn retired_at(&self) -> Option<DateTime<Utc>> {
        self.more.as_deref().and_then(|more| more.retired_at)
    }
}

impl From<InstanceMeta> for CompactInstanceMeta {
    fn from(meta: InstanceMeta) -> Self {
        let InstanceMeta {
            status,
            created_at,
            updated_at,
            owner,
            released_at,
            cwd,
            retired_at,
            narrowing,
            spending,
            ..
        } = meta;
        let more = OptionalInstanceFields {
            owner,
            released_at,
            cwd,
            retired_at,
            narrowing,
        };
        let more = (more != OptionalInstanceFields::default()).then(|| Box::new(more));
        CompactInstanceMeta {
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
    fn compact_metadata_converts_back_without_loss() {
        let plain = meta(&instance("k"));
        let full = InstanceMeta {
            status: InstanceStatus::Retired,
            updated_at: DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(1),
            owner: Some(instance("owner")),
            released_at: Some(DateTime::UNIX_EPOCH),
            cwd: Some("/there".to_owned()),
            retired_at: Some(DateTime::UNIX_EPOCH),
            narrowing: Some(ToolAllowlist::of_exports(["fs__read"])),
            ..plain.clone()
        };
        for meta in [plain, full] {
            assert_eq!(
                CompactInstanceMeta::from(meta.clone()).meta(&meta.agent, &meta.instance_key),
                meta
            );
        }
    }
}
