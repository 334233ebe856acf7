//! Locks of files, so that calls that change the same file take turns.
//!
//! The locks are shared by all agents and conversations of the process. A call holds them from
//! reading a file until it has replaced it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use crate::mutex_lock::lock;

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
    fn of(path: &Path) -> FileKey {
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
}

impl FileChangeLock {
    /// Waits until no other call changes one of the files. Blocks the thread.
    pub(crate) fn acquire(paths: impl IntoIterator<Item: AsRef<Path>>) -> FileChangeLock {
        let keys: HashSet<FileKey> = paths
            .into_iter()
            .map(|path| FileKey::of(path.as_ref()))
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
    }
}
