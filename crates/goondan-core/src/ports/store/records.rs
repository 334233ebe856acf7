//! Small named values of an instance.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use crate::agent_event::AgentEvent;
use crate::event::TurnError;
use crate::ids::InstanceId;

/// Name of the record with the [`DeadLetter`]s of an instance, oldest first.
pub const DEAD_LETTERS_RECORD: &str = "gdn.dead-letters";

/// Version of a record's value.
pub type RecordVersion = u64;

/// A stored value with its version.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionedRecord {
    /// The value.
    pub value: Value,
    /// Version to pass to [`RecordStore::put`] in order to replace exactly this value.
    pub version: RecordVersion,
}

/// Storage of values by instance and name. They are deleted with their instance.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Returns the value with this name.
    async fn get(&self, id: &InstanceId, name: &str)
    -> Result<Option<VersionedRecord>, StoreError>;

    /// Writes a value if the current version is `expected`; `None` expects that there is no value.
    /// Returns false, without changes, on any other version. The value is durable on return.
    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<RecordVersion>,
    ) -> Result<bool, StoreError>;

    /// Returns the records with this name of all instances.
    async fn all_records(
        &self,
        name: &str,
    ) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError>;
}

/// Changes a record atomically. `change` returns the new value, or `None` to change nothing.
/// `change` runs again after a concurrent change.
pub async fn update<R: RecordStore + ?Sized>(
    records: &R,
    id: &InstanceId,
    name: &str,
    mut change: impl FnMut(Option<Value>) -> Option<Value> + Send,
) -> Result<(), StoreError> {
    loop {
        let (current, version) = match records.get(id, name).await? {
            Some(record) => (Some(record.value), Some(record.version)),
            None => (None, None),
        };
        let Some(value) = change(current) else {
            return Ok(());
        };
        if records.put(id, name, &value, version).await? {
            return Ok(());
        }
    }
}

/// An event whose turn failed. The event is kept until a user retries or deletes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The event.
    pub event: AgentEvent,
    /// Error of its turn.
    pub error: TurnError,
    /// Time of the failure.
    pub failed_at: DateTime<Utc>,
}
