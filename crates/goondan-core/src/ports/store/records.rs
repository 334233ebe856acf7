//! Small values that are kept with an instance, each under a name.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use crate::event::TurnError;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;

/// The record with the [`DeadLetter`]s of an instance, oldest first.
pub const DEAD_LETTERS: &str = "gdn.dead-letters";

/// Tells one value of a record from another.
pub type Version = u64;

/// A value as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The value.
    pub value: Value,
    /// What [`Records::put`] has to expect to replace just this value.
    pub version: Version,
}

/// Keeps values by instance and name. They go with their instance.
#[async_trait]
pub trait Records: Send + Sync {
    /// The value of that name.
    async fn get(&self, id: &InstanceId, name: &str) -> Result<Option<Record>, StoreError>;

    /// Puts a value in place of the one that is expected; `None` where nothing is. False where something else was found: then
    /// nothing has changed. The value is durable once this is back.
    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<Version>,
    ) -> Result<bool, StoreError>;

    /// The records of that name, of all instances that have one.
    async fn all(&self, name: &str) -> Result<Vec<(InstanceId, Record)>, StoreError>;
}

/// Changes a record, whatever others do to it meanwhile: `change` makes the new value of the one that is found, or `None` to
/// leave it alone. It runs again where somebody else was quicker.
pub async fn update<R: Records + ?Sized>(
    records: &R,
    id: &InstanceId,
    name: &str,
    mut change: impl FnMut(Option<Value>) -> Option<Value> + Send,
) -> Result<(), StoreError> {
    loop {
        let (found, version) = match records.get(id, name).await? {
            Some(record) => (Some(record.value), Some(record.version)),
            None => (None, None),
        };
        let Some(value) = change(found) else {
            return Ok(());
        };
        if records.put(id, name, &value, version).await? {
            return Ok(());
        }
    }
}

/// An event whose turn failed. It waits for somebody who has it tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The event.
    pub event: AgentEvent,
    /// Why its turn failed.
    pub error: TurnError,
    /// When.
    pub failed_at: DateTime<Utc>,
}
