//! Converts values to and from columns.

use std::io;
use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::session::DbError;

/// A hash that identifies a name in an index.
pub(crate) type Key = Vec<u8>;

/// Hashes the parts of a name.
pub(crate) fn key(parts: &[&str]) -> Key {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize()[..16].to_vec()
}

/// Returns the database key of an instance.
pub(crate) fn instance_key(id: &InstanceId) -> Key {
    key(&[&id.agent, &id.instance_key])
}

/// Returns the id of an advisory lock.
pub(crate) fn lock_key(what: &str, workspace: &str) -> i64 {
    let key = key(&["goondan", what, workspace]);
    key.iter()
        .take(8)
        .fold(0i64, |number, byte| (number << 8) | i64::from(*byte))
}

/// Encodes JSON on one line. PostgreSQL `text` accepts all characters of it.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|cause| StoreError::Other(Arc::new(cause)))
}

/// Decodes a JSON value. `what` names the value in the error.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|cause| StoreError::Damaged {
        what: what.to_owned(),
        cause: Arc::new(cause),
    })
}

/// Converts a database error to a store error.
pub(crate) fn store_error(error: DbError) -> StoreError {
    StoreError::Other(Arc::new(error))
}

/// Creates an error that does not come from the database.
pub(crate) fn other_error(words: impl Into<String>) -> StoreError {
    StoreError::Other(Arc::new(io::Error::other(words.into())))
}
