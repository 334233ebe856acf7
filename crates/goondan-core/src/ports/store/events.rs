//! What happened in a swarm, for those who watch.

use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;

/// Keeps runtime events. They are for watching, not for recovery: the last ones may be lost in a crash.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Appends an event, soon. Nobody waits for it.
    fn record(&self, event: &Arc<RuntimeEvent>);

    /// The events of an instance whose [sequence](RuntimeEvent::sequence) is greater than `after`, oldest first. How far back they
    /// go is the store's choice.
    async fn events(&self, id: &InstanceId, after: u64) -> Result<Vec<RuntimeEvent>, StoreError>;
}
