//! Error of a store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::InstanceId;

/// Error of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A file can't be read or written.
    #[error("failed to {doing} {}: {cause}", path.display())]
    File {
        /// The failed operation, such as `append to`.
        doing: String,
        /// The file or directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Another process has claimed the instance, so writes of this process are rejected.
    #[error("another process has taken over {0}")]
    Fenced(InstanceId),
    /// A record can't be decoded, so its turn can't continue.
    #[error("the store can't decode {what}: {cause}")]
    Damaged {
        /// Name of the record.
        what: String,
        /// Cause of the failure.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store is closed, or this process is about to end.
    #[error("the store is closed")]
    Closed,
    /// Any other error, such as a lost connection.
    #[error("{0}")]
    Other(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// I/O errors that last until a user removes the cause.
const LASTING_ERRORS: [io::ErrorKind; 5] = [
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::FileTooLarge,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ReadOnlyFilesystem,
];

impl StoreError {
    /// Returns true if the operation can succeed later without a user, for example when the
    /// database is available again. A full disk needs a user.
    pub fn is_passing(&self) -> bool {
        match self {
            StoreError::File { cause, .. } => !cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| LASTING_ERRORS.contains(&error.kind())),
            StoreError::Other(_) => true,
            StoreError::Fenced(_) | StoreError::Damaged { .. } | StoreError::Closed => false,
        }
    }

    /// Returns an error of a file operation.
    pub fn file(
        doing: &str,
        path: &Path,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        StoreError::File {
            doing: doing.to_owned(),
            path: path.to_owned(),
            cause: cause.into().into(),
        }
    }
}
