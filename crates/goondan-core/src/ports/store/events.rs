//! Runtime events of a swarm, for subscribers.

use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;

/// Storage of runtime events. Runtime events are for observation, not for recovery: the last events
/// can be lost in a crash.
#[async_trait]
pub trait RuntimeEventStore: Send + Sync {
    /// Appends an event soon, without blocking.
    fn record(&self, event: &Arc<RuntimeEvent>);

    /// Returns the events of an instance with a [sequence](RuntimeEvent::sequence) greater than
    /// `after`, oldest first. The store determines how many old events it keeps.
    async fn events(&self, id: &InstanceId, after: u64) -> Result<Vec<RuntimeEvent>, StoreError>;
}
