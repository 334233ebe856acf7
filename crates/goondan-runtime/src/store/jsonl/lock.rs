//! One process at a time holds a workspace (rule C5).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Why the workspace could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds it.
    #[error("the workspace {} is held by {holder}", dir.display())]
    Held {
        /// The workspace.
        dir: PathBuf,
        /// Who, as far as that is known: `process 4711`.
        holder: String,
    },
    /// The lock file can't be used.
    #[error("failed to lock {}: {cause}", path.display())]
    Unusable {
        /// The lock file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
}

/// Held until dropped; the operating system lets go of it when the process dies.
pub(super) struct WorkspaceLock {
    _file: File,
}

impl WorkspaceLock {
    pub(super) fn acquire(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let unusable = |cause| LockError::Unusable { path: path.clone(), cause };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { dir: dir.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(cause)) => return Err(unusable(cause)),
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        note(&mut file).map_err(unusable)?;
        Ok(WorkspaceLock { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // On some systems a locked file can't be read; the holder then stays unknown.
    match file.read_to_string(&mut text).map(|_| text.trim().parse::<u32>()) {
        Ok(Ok(process)) => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = WorkspaceLock::acquire(dir.path()).unwrap();
        let error = WorkspaceLock::acquire(dir.path()).err().unwrap();
        assert!(error.to_string().ends_with(&format!("held by process {}", std::process::id())), "{error}");
        drop(first);
        WorkspaceLock::acquire(dir.path()).unwrap();
    }
}
