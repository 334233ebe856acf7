//! Metadata of instances, without their conversations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::event::UsageCost;
use crate::ids::InstanceId;
use crate::ports::model::TokenUsage;
use crate::tool_allowlist::ToolAllowlist;

/// Storage of instance metadata.
#[async_trait]
pub trait InstanceStore: Send + Sync {
    /// Returns every instance, in any order. Includes instances that lost their metadata but have a
    /// conversation.
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError>;

    /// Returns the next page of instances after `after`, or the first page for `None`, in a stable
    /// order of the store. Returns an empty page after the last instance. By default, one page
    /// contains all remaining instances, sorted by id.
    async fn instances_behind(
        &self,
        after: Option<&InstanceId>,
    ) -> Result<Vec<InstanceMeta>, StoreError> {
        let mut instances = self.instances().await?;
        instances.retain(|meta| after.is_none_or(|after| meta.id() > *after));
        instances.sort_by_cached_key(InstanceMeta::id);
        Ok(instances)
    }

    /// Returns the metadata of one instance from the last write or the last end of a turn; `None`
    /// if the instance does not exist.
    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError>;

    /// Returns how many idle instances a running swarm should cache; it reads the others with
    /// [`InstanceStore::instance`]. `None` to cache all, if reads are slow.
    fn remembered_outside(&self) -> Option<usize> {
        None
    }

    /// Returns the number of instances that are not retired, if the store knows it without reading
    /// all instances, and no instance has the status `processing`.
    fn idle_instances(&self) -> Option<usize> {
        None
    }

    /// Writes the metadata of an instance, and creates the instance if necessary.
    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError>;

    /// Deletes all data of an instance that is not open. Returns false if it does not exist.
    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError>;
}

/// Metadata of an instance, without its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMeta {
    /// Status: `idle`, `processing` or `retired`.
    pub status: InstanceStatus,
    /// Name of the agent.
    #[serde(rename = "agentName")]
    pub agent: String,
    /// Key of the conversation.
    pub instance_key: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// End of the last turn.
    pub updated_at: DateTime<Utc>,
    /// Instance that created this instance; `None` for an input from outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<InstanceId>,
    /// Time at which the owner lost its access, because the user of the conversation took the
    /// instance over. Absent if the owner still has access.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub released_at: Option<DateTime<Utc>>,
    /// Working directory of the instance's tools, if its creator set a directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// Time of retirement (rule C6); `None` for any other status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retired_at: Option<DateTime<Utc>>,
    /// Allowlist of tools for the instance's turns, if its creator set a list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub narrowing: Option<ToolAllowlist>,
    /// Accumulated usage of the instance's turns.
    #[serde(skip_serializing_if = "AccumulatedUsage::is_nothing", default)]
    pub spending: AccumulatedUsage,
}

/// Accumulated usage of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccumulatedUsage {
    /// Tokens, as reported by the providers.
    pub usage: TokenUsage,
    /// Cost at the prices of the Model resources; `None` if none declares prices.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<f64>,
}

impl AccumulatedUsage {
    /// Adds the usage of a turn.
    pub fn add(&mut self, usage: TokenUsage, cost: Option<&UsageCost>) {
        self.usage += usage;
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or_default() + cost.amount);
        }
    }

    fn is_nothing(&self) -> bool {
        *self == AccumulatedUsage::default()
    }
}

/// Status of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceStatus {
    /// No turn runs or is pending.
    Idle,
    /// A turn runs, or was interrupted.
    Processing,
    /// Idle for so long that it is about to be deleted; an event makes it idle again (rule C6).
    Retired,
}

impl InstanceMeta {
    /// Returns the id of the instance.
    pub fn id(&self) -> InstanceId {
        InstanceId::new(&*self.agent, &*self.instance_key)
    }
}
