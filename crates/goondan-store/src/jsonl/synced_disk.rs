//! A file system that records which file names are durable.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fs::{DataFile, FileSystem, FileWriter, OpenedDataFile, replace, replace_durably_with};

/// The file system of a store. Syncing a file makes neither its name nor the names of its parent
/// directories durable. Those are synced when a file is created or replaced, and once per process
/// for files that already exist. An earlier process may have been killed before it synced them.
pub(super) struct SyncedDisk {
    fs: Arc<dyn FileSystem>,
    named: Mutex<SyncedNames>,
    /// Duration of the last file sync, in microseconds.
    last_sync: AtomicU64,
}

#[derive(Default)]
struct SyncedNames {
    /// Directories in which every file name is durable.
    folders: HashSet<PathBuf>,
    /// Counts the names created per directory, to detect names that are newer than a sync. Several
    /// directories can share a counter.
    made: [u64; 16],
}

impl SyncedNames {
    /// Returns the counter of created files for a directory. Directories with equal hashes share a
    /// counter.
    fn creation_count(&mut self, folder: &Path) -> &mut u64 {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        let counter = hasher.finish() % self.made.len() as u64;
        &mut self.made[usize::try_from(counter).expect("there are few counters")]
    }
}

/// Maximum number of remembered directories.
const MAX_NAMED_FOLDERS: usize = 4_096;

/// Handing a sync to another thread and being woken again takes about this long. A faster sync may
/// therefore run on a thread that also serves other tasks.
const QUICK_SYNC_TIME: Duration = Duration::from_millis(1);

impl SyncedDisk {
    pub(super) fn new(fs: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(SyncedDisk {
            fs,
            named: Mutex::default(),
            last_sync: AtomicU64::new(u64::MAX),
        })
    }

    /// Syncs a file, and remembers how long that took.
    pub(super) fn sync_file(&self, file: &mut dyn DataFile) -> io::Result<()> {
        let begin = Instant::now();
        file.sync()?;
        self.last_sync.store(
            u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        Ok(())
    }

    /// Returns true if the last sync was too fast to be worth another thread.
    pub(super) fn is_quick(&self) -> bool {
        u128::from(self.last_sync.load(Ordering::Relaxed)) < QUICK_SYNC_TIME.as_micros()
    }

    /// Locks the names that are known to be synced.
    fn lock_synced_names(&self) -> MutexGuard<'_, SyncedNames> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file and creates it if it is missing.
    pub(super) fn open(&self, path: &Path) -> io::Result<OpenedDataFile> {
        let opened = self.fs.open(path)?;
        if opened.is_new {
            self.forget_names(path);
        }
        Ok(opened)
    }

    /// Replaces the contents of a file durably. Its name is not yet durable.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(path, |file| file.write_all(bytes))
    }

    /// Replaces the contents of a file durably with the output of `write`. Its name is not yet
    /// durable.
    pub(super) fn replace_with(
        &self,
        path: &Path,
        write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
    ) -> io::Result<()> {
        let replaced = replace_durably_with(&*self.fs, path, write);
        self.forget_names(path);
        replaced
    }

    /// Replaces a file like [`SyncedDisk::replace`], without a sync.
    pub(super) fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let replaced = replace(&*self.fs, path, bytes);
        self.forget_names(path);
        replaced
    }

    /// Marks the directory of `path` as not synced.
    fn forget_names(&self, path: &Path) {
        if let Some(folder) = path.parent() {
            let mut synced = self.lock_synced_names();
            *synced.creation_count(folder) += 1;
            synced.folders.remove(folder);
        }
    }

    /// Returns true if the file name is durable.
    pub(super) fn has_names(&self, path: &Path) -> bool {
        path.parent()
            .is_some_and(|folder| self.lock_synced_names().folders.contains(folder))
    }

    /// Makes a file name durable if it may not be. The names of up to `depth` parent directories
    /// are synced as well.
    pub(super) fn sync_directories(&self, path: &Path, depth: usize) -> io::Result<()> {
        let Some(folder) = path.parent().filter(|_| !self.has_names(path)) else {
            return Ok(());
        };
        let creations = *self.lock_synced_names().creation_count(folder);
        path.ancestors()
            .skip(1)
            .take(depth)
            .try_for_each(|folder| self.fs.sync_folder(folder))?;
        let mut synced = self.lock_synced_names();
        if synced.folders.len() >= MAX_NAMED_FOLDERS {
            // Forgetting durable names is cheap: each costs one extra sync.
            synced.folders.clear();
        }
        if *synced.creation_count(folder) == creations {
            synced.folders.insert(folder.to_owned());
        }
        Ok(())
    }
}

impl Deref for SyncedDisk {
    type Target = dyn FileSystem;

    fn deref(&self) -> &Self::Target {
        &*self.fs
    }
}
