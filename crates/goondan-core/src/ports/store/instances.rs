//! What is known of instances without their conversations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::event::Cost;
use crate::ids::InstanceId;
use crate::narrowing::Narrowing;
use crate::ports::model::TokenUsage;

/// Keeps what is known of each instance.
#[async_trait]
pub trait Instances: Send + Sync {
    /// Every instance, in any order. One that has a conversation is among them even if what was known of it is lost.
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError>;

    /// Some instances at a time: those behind `after`, or the first ones, in an order of the store's own that does not change.
    /// None are behind the last.
    async fn instances_behind(
        &self,
        after: Option<&InstanceId>,
    ) -> Result<Vec<InstanceMeta>, StoreError> {
        let mut all = self.instances().await?;
        all.retain(|meta| after.is_none_or(|after| meta.id() > *after));
        all.sort_by_cached_key(InstanceMeta::id);
        Ok(all)
    }

    /// What is known of one instance, as it was put last, or with the end of a turn; `None` where there is none.
    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError>;

    /// How many instances that have nothing to do whoever runs a swarm should remember by itself; it asks for the others with
    /// [`Instances::instance`]. `None` for all, where to ask takes too long.
    fn remembered_outside(&self) -> Option<usize> {
        None
    }

    /// Keeps what is known of an instance, and makes the instance with the first call.
    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError>;

    /// Deletes everything of an instance that is not open; false where there is none.
    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError>;
}

/// What is known of an instance without its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMeta {
    /// `idle`, `processing` or `retired`.
    pub status: InstanceStatus,
    /// Who it is.
    #[serde(rename = "agentName")]
    pub agent: String,
    /// Under which key.
    pub instance_key: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When its last turn ended.
    pub updated_at: DateTime<Utc>,
    /// Who made it; `None` for an input from outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<InstanceId>,
    /// Where its tools work, if a spawn said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// When it was retired (rule C6); `None` for any other status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retired_at: Option<DateTime<Utc>>,
    /// The only tools that may run in its turns, if whoever made it said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub narrowing: Option<Narrowing>,
    /// What its turns have used up.
    #[serde(skip_serializing_if = "Spending::is_nothing", default)]
    pub spending: Spending,
}

/// What turns have used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// Tokens, as the providers report them.
    pub usage: TokenUsage,
    /// What they cost by the prices that the Model resources declare; `None` while none did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<f64>,
}

impl Spending {
    /// One more turn.
    pub fn add(&mut self, usage: TokenUsage, cost: Option<&Cost>) {
        self.usage += usage;
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or_default() + cost.amount);
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Spending::default()
    }
}

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceStatus {
    /// Nothing.
    Idle,
    /// A turn runs, or was cut off.
    Processing,
    /// It was idle for so long that it is about to be deleted; an event makes it idle again (rule C6).
    Retired,
}

impl InstanceMeta {
    /// The instance's identity.
    pub fn id(&self) -> InstanceId {
        InstanceId::new(&*self.agent, &*self.instance_key)
    }
}
