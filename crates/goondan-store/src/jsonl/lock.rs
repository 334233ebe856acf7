//! The lock that limits a workspace to one process (rule C5).

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::layout;
use goondan_core::private_files;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the workspace.
    #[error("the workspace {} is held by {holder}", dir.display())]
    Held {
        dir: PathBuf,
        /// Description of the holder if known, such as `process 4711`.
        holder: String,
    },
    #[error("failed to lock {}: {cause}", path.display())]
    Unusable {
        path: PathBuf,
        cause: std::io::Error,
    },
}

/// A held workspace lock. The operating system releases it when the process dies.
pub struct WorkspaceLock {
    _file: File,
}

impl WorkspaceLock {
    /// Locks the workspace in `dir`, which must exist.
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join(layout::LOCK);
        let unusable = |cause| LockError::Unusable {
            path: path.clone(),
            cause,
        };
        let mut file = private_files::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable)?;
        if !lock(&mut file).map_err(unusable)? {
            return Err(LockError::Held {
                dir: dir.to_owned(),
                holder: describe_holder(&mut file),
            });
        }
        let write_process_id = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        write_process_id(&mut file).map_err(unusable)?;
        Ok(WorkspaceLock { _file: file })
    }
}

/// Returns the process that holds a workspace, with its process id if known; `None` if the
/// workspace is free.
///
/// # Errors
///
/// Fails if the lock file exists and cannot be read.
pub fn holder_of(dir: &Path) -> std::io::Result<Option<Option<u32>>> {
    let mut file = match File::open(dir.join(layout::LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder_pid(&mut file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes the lock; returns false if a living process holds it.
///
/// A process killed while it starts a program leaves a child that holds the lock until that program
/// begins. So the lock of a dead holder is worth waiting for.
fn lock(file: &mut File) -> std::io::Result<bool> {
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(cause)) => return Err(cause),
            Err(TryLockError::WouldBlock) if is_alive(file) || Instant::now() >= end => {
                return Ok(false);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_INTERVAL),
        }
    }
}

/// Time to wait for the lock of a dead process, and the interval between attempts.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Returns true if the process that took the lock is running. Assumes so on systems without
/// `/proc`.
fn is_alive(file: &mut File) -> bool {
    let processes = Path::new("/proc");
    match read_holder_pid(file) {
        Some(process) if processes.join("self").exists() => {
            processes.join(process.to_string()).exists()
        }
        _ => true,
    }
}

/// Returns the process id in the lock file; `None` if the file cannot be read.
fn read_holder_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    // Some systems prevent reading a locked file; the holder is then unknown.
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .ok()?;
    text.trim().parse().ok()
}

/// Describes the process that holds the lock, for messages.
fn describe_holder(file: &mut File) -> String {
    read_holder_pid(file).map_or_else(
        || "another process".to_owned(),
        |process| format!("process {process}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_error_names_the_holding_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = WorkspaceLock::acquire(dir.path()).unwrap();
        let error = WorkspaceLock::acquire(dir.path()).err().unwrap();
        assert!(
            error
                .to_string()
                .ends_with(&format!("held by process {}", std::process::id())),
            "{error}"
        );
        drop(first);
        WorkspaceLock::acquire(dir.path()).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn acquire_waits_for_the_lock_of_a_dead_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(layout::LOCK);
        // No process has this ID, because it is above the maximum.
        std::fs::write(&path, "4194305").unwrap();
        let stale_lock = File::open(&path).unwrap();
        stale_lock.try_lock().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(stale_lock);
        });
        WorkspaceLock::acquire(dir.path()).unwrap();
    }
}
