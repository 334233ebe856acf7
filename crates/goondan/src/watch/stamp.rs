//! Stamps that detect file changes without reading the file.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// State of a path, with links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStamp {
    /// Missing or inaccessible.
    Nothing,
    /// Directory. Its entries have their own stamps.
    Folder,
    /// File.
    File(FileStamp),
}

/// State of a file. Replacing the file changes its identity; writing in place changes its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    identity: FileIdentity,
}

impl PathStamp {
    /// Returns the stamp of `path`.
    pub(crate) fn of(path: &Path) -> Self {
        PathStamp::from(&fs::metadata(path))
    }
}

impl From<&io::Result<Metadata>> for PathStamp {
    fn from(metadata: &io::Result<Metadata>) -> Self {
        match metadata {
            Err(_) => PathStamp::Nothing,
            Ok(metadata) if metadata.is_dir() => PathStamp::Folder,
            Ok(metadata) => PathStamp::File(FileStamp {
                size: metadata.len(),
                modified: metadata.modified().ok(),
                identity: FileIdentity::of(metadata),
            }),
        }
    }
}

impl FileStamp {
    /// Returns true if the file was unchanged for longer than `age` before `now`. Returns false on
    /// platforms without a change time, because a modification time can be set.
    pub(crate) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let change_times = [self.modified, self.identity.touched()];
        change_times.iter().all(|at| {
            at.and_then(|at| now.duration_since(at).ok())
                .is_some_and(|age_of_change| age_of_change > age)
        })
    }
}

/// Identity of a file or directory, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    /// Time of the last metadata change. Unlike the modification time, it cannot be set back.
    #[cfg(unix)]
    changed: (i64, i64),
}

impl FileIdentity {
    /// Returns the identity of the file.
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the time of the last metadata change; `None` before the Unix epoch.
    #[cfg(unix)]
    fn touched(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = (
            u64::try_from(self.changed.0).ok()?,
            u64::try_from(self.changed.1).ok()?,
        );
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds))
    }

    /// Returns an empty identity, because this platform has none.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        FileIdentity {}
    }

    /// Returns `None`, because this platform records no such time.
    #[cfg(not(unix))]
    fn touched(&self) -> Option<SystemTime> {
        None
    }
}

/// Returns the identity of the directory at `path`, which changes if the directory is replaced.
/// Returns `None` if there is none.
#[cfg(unix)]
pub(crate) fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path)
        .ok()
        .filter(Metadata::is_dir)
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns a constant for a directory at `path`, because this platform has no cheap identity.
#[cfg(not(unix))]
pub(crate) fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    path.is_dir().then_some((0, 0))
}
