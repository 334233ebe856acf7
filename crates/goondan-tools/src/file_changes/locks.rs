//! Locks of files, so that calls that change the same file take turns.
//!
//! The locks are shared by all agents and conversations of the process. A call holds them from
//! reading a file until it has replaced it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use goondan_core::ports::tool::HandlerError;

use crate::errors;
use crate::mutex_lock::lock;
use crate::running_programs::{self, ByteLocks};

static LOCKED_FILES: LazyLock<LockedFiles> = LazyLock::new(LockedFiles::default);

/// Files that running calls change.
#[derive(Default)]
struct LockedFiles {
    keys: Mutex<HashSet<FileKey>>,
    /// Notified when keys are removed.
    released: Condvar,
}

/// Identity of a file for locks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FileKey {
    Path(PathBuf),
    /// Device and inode of a file that has several names.
    #[cfg(unix)]
    Inode(u64, u64),
}

impl FileKey {
    /// Returns the key of a file. All paths that lead to one file have an equal key.
    fn from_path(path: &Path) -> FileKey {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            if let Ok(metadata) = std::fs::symlink_metadata(path)
                && metadata.is_file()
                && metadata.nlink() > 1
            {
                return FileKey::Inode(metadata.dev(), metadata.ino());
            }
        }
        // The file systems of these systems usually ignore case.
        if cfg!(any(windows, target_os = "macos")) {
            return FileKey::Path(path.to_string_lossy().to_lowercase().into());
        }
        FileKey::Path(path.to_owned())
    }
}

/// Exclusive right to change files. Dropping it releases the files.
pub(crate) struct FileChangeLock {
    keys: Vec<FileKey>,
    /// Locks that keep other processes from starting calls that were approved with the files being
    /// written.
    written: Option<ByteLocks>,
}

impl FileChangeLock {
    /// Waits until no other call changes one of the files, and no other process starts an approved call
    /// with one of them. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Fails if the start in the other process takes too long.
    pub(crate) fn acquire_to_write<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P> + Clone,
    ) -> Result<FileChangeLock, HandlerError> {
        let files = paths.clone().into_iter();
        let files: Vec<PathBuf> = files.map(|path| path.as_ref().to_owned()).collect();
        let written = running_programs::lock_written_files(&files);
        let written = written.map_err(|error| errors::approved_file(&error))?;
        let mut lock = FileChangeLock::acquire(paths);
        lock.written = written;
        Ok(lock)
    }

    /// Waits until no other call changes one of the files. Blocks the thread.
    pub(crate) fn acquire(paths: impl IntoIterator<Item: AsRef<Path>>) -> FileChangeLock {
        let keys: HashSet<FileKey> = paths
            .into_iter()
            .map(|path| FileKey::from_path(path.as_ref()))
            .collect();
        let mut locked = lock(&LOCKED_FILES.keys);
        // All keys are taken at once, so two calls cannot wait for each other.
        while keys.iter().any(|key| locked.contains(key)) {
            locked = LOCKED_FILES
                .released
                .wait(locked)
                .unwrap_or_else(PoisonError::into_inner);
        }
        locked.extend(keys.iter().cloned());
        FileChangeLock {
            keys: keys.into_iter().collect(),
            written: None,
        }
    }
}

impl Drop for FileChangeLock {
    fn drop(&mut self) {
        let mut locked = lock(&LOCKED_FILES.keys);
        for key in &self.keys {
            locked.remove(key);
        }
        drop(locked);
        LOCKED_FILES.released.notify_all();
        drop(self.written.take());
    }
}
