//! What tells whether a file is still the one that was read, without reading it again.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What stands at a path, links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Nothing, or nothing that can be looked at.
    Nothing,
    /// A folder. What is in it has stamps of its own.
    Folder,
    /// A file.
    File(FileStamp),
}

/// A file as it was. An editor that puts a new file in the place of an old one changes its identity, one that writes in
/// place its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    identity: Identity,
}

impl Stamp {
    /// Looks at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        Stamp::from(&fs::metadata(path))
    }
}

impl From<&io::Result<Metadata>> for Stamp {
    fn from(looked: &io::Result<Metadata>) -> Self {
        match looked {
            Err(_) => Stamp::Nothing,
            Ok(metadata) if metadata.is_dir() => Stamp::Folder,
            Ok(metadata) => Stamp::File(FileStamp {
                size: metadata.len(),
                modified: metadata.modified().ok(),
                identity: Identity::of(metadata),
            }),
        }
    }
}

impl FileStamp {
    /// Whether the file was left alone for longer than `age` before `now`. False where the system does not tell when a file
    /// was touched whatever its modification time was set to.
    pub(crate) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let touched = [self.modified, self.identity.touched()];
        touched.iter().all(|at| {
            at.and_then(|at| now.duration_since(at).ok())
                .is_some_and(|past| past > age)
        })
    }
}

/// Which file or folder it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    /// When anything about it changed, its modification time included: that can be set back.
    #[cfg(unix)]
    changed: (i64, i64),
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    #[cfg(unix)]
    fn touched(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = (
            u64::try_from(self.changed.0).ok()?,
            u64::try_from(self.changed.1).ok()?,
        );
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds))
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Identity {}
    }

    #[cfg(not(unix))]
    fn touched(&self) -> Option<SystemTime> {
        None
    }
}

/// Which folder stands at `path`; another one may take its place under the same name. `None` where there is none.
#[cfg(unix)]
pub(crate) fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path)
        .ok()
        .filter(Metadata::is_dir)
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Which folder stands at `path`. The platform does not tell one from another cheaply.
#[cfg(not(unix))]
pub(crate) fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    path.is_dir().then_some((0, 0))
}
