//! Locks for small files that several processes read, change and write.
//!
//! An atomic replacement protects only readers: of two processes that read the same content, the
//! second one to write undoes the change of the first. So a process holds a lock from reading to
//! writing.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::private_files;

/// Maximum time to wait for a process that changes a small file.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A held lock. Dropping it releases the lock, and so does the end of the process.
#[derive(Debug)]
pub struct FileLock {
    /// `None` on systems that cannot lock a directory.
    _handle: Option<File>,
}

impl FileLock {
    /// Waits up to `limit` for the lock of the file `path`, and creates its directory if needed.
    ///
    /// The lock is a private file next to it, with the extension `lock`. It remains, because two
    /// processes could hold a lock file that is removed and created again.
    ///
    /// # Errors
    /// Fails if the lock can't be opened, or if another process holds it for longer than `limit`.
    pub fn of_file(path: &Path, limit: Duration) -> io::Result<FileLock> {
        let open_file = || {
            private_files::options()
                .create(true)
                .append(true)
                .open(path.with_extension("lock"))
        };
        let file = match open_file() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent()
                    .map_or(Ok(()), private_files::create_directory)?;
                open_file()
            }
            result => result,
        };
        wait(file?, path, limit)
    }

    /// Waits up to `limit` for the lock of an existing directory. Leaves no file, so it is suitable
    /// for directories of users.
    ///
    /// # Errors
    /// Fails if the directory can't be opened, or if another process holds the lock for longer than
    /// `limit`.
    pub fn of_directory(path: &Path, limit: Duration) -> io::Result<FileLock> {
        if cfg!(not(unix)) {
            return Ok(FileLock { _handle: None });
        }
        wait(File::open(path)?, path, limit)
    }
}

/// Locks `file`. Tries repeatedly, because a system call that waits has no limit.
fn wait(file: File, path: &Path, limit: Duration) -> io::Result<FileLock> {
    let deadline = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Ok(()) => {
                return Ok(FileLock {
                    _handle: Some(file),
                });
            }
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "another process has locked {} for {} s",
                        path.display(),
                        limit.as_secs()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_of_a_file_times_out_until_the_first_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/list.json");
        let no_wait = Duration::ZERO;
        let first = FileLock::of_file(&file, no_wait).unwrap();
        let error = FileLock::of_file(&file, no_wait).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(first);
        FileLock::of_file(&file, no_wait).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn locking_a_directory_creates_no_file_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let no_wait = Duration::ZERO;
        let first = FileLock::of_directory(dir.path(), no_wait).unwrap();
        assert!(FileLock::of_directory(dir.path(), no_wait).is_err());
        drop(first);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn concurrent_writers_with_a_lock_lose_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("count");
        std::fs::write(&file, "0").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let _lock = FileLock::of_file(&file, LOCK_TIMEOUT).unwrap();
                        let count: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
                        private_files::replace(&file, (count + 1).to_string().as_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "64");
    }
}
