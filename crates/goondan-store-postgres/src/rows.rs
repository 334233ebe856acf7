//! How values become columns, and columns values.

use std::io;
use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::session::DbError;

/// A hash that stands for a name in an index.
pub(crate) type Key = Vec<u8>;

/// The key of a name that has these parts.
pub(crate) fn key(parts: &[&str]) -> Key {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize()[..16].to_vec()
}

/// The key of an instance.
pub(crate) fn instance_key(id: &InstanceId) -> Key {
    key(&[&id.agent, &id.instance_key])
}

/// The number of an advisory lock.
pub(crate) fn lock_key(what: &str, workspace: &str) -> i64 {
    let key = key(&["goondan", what, workspace]);
    key.iter()
        .take(8)
        .fold(0i64, |number, byte| (number << 8) | i64::from(*byte))
}

/// JSON in one line. PostgreSQL takes every character of it.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|cause| StoreError::Other(Arc::new(cause)))
}

/// The value of a column.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|cause| StoreError::Damaged {
        what: what.to_owned(),
        cause: Arc::new(cause),
    })
}

/// A failure of the database, for the engine.
pub(crate) fn failed(error: DbError) -> StoreError {
    StoreError::Other(Arc::new(error))
}

/// A failure that the database does not know of.
pub(crate) fn other(words: impl Into<String>) -> StoreError {
    StoreError::Other(Arc::new(io::Error::other(words.into())))
}
