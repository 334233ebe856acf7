//! Replacement for `other_processes` on systems without sandboxes. There is no lock file.

use std::path::PathBuf;
use std::sync::Arc;

use super::ApprovedFileError;

/// The lock file of a user.
#[derive(Debug)]
pub(crate) enum LockFile {}

/// Locked bytes. The type has no values, because this system has no lock file.
#[derive(Debug)]
pub(crate) enum ByteLocks {}

impl LockFile {
    pub(crate) fn of_user() -> Result<Option<Arc<LockFile>>, ApprovedFileError> {
        Ok(None)
    }

    pub(crate) fn duplicate_descriptor(&self) -> std::io::Result<std::fs::File> {
        match *self {}
    }

    pub(super) fn lock_program(
        self: &Arc<Self>,
        _writable: &[PathBuf],
    ) -> Result<Option<ByteLocks>, ApprovedFileError> {
        match **self {}
    }

    pub(super) fn lock_stopped_program(
        self: &Arc<Self>,
        _writable: &[PathBuf],
    ) -> Result<Option<ByteLocks>, ApprovedFileError> {
        match **self {}
    }

    pub(super) fn started_in(
        &self,
        _writable: &[PathBuf],
    ) -> Result<Vec<PathBuf>, ApprovedFileError> {
        match *self {}
    }

    pub(super) fn lock_start(
        self: &Arc<Self>,
        _files: &[PathBuf],
    ) -> Result<ByteLocks, ApprovedFileError> {
        match **self {}
    }

    pub(super) fn has_writer(&self, _files: &[PathBuf]) -> Result<bool, ApprovedFileError> {
        match *self {}
    }
}

pub(crate) fn protect_lock_directory() {}
