//! A file system, and which names on it are known to be on disk.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fs::{DataFile, FileSystem, FileWriter, Opened, replace, replace_durably_with};

/// The file system of a store. Syncing a file does not put its name on disk, nor those of the folders above it: that is done
/// when a file is made or replaced, and once in the life of a process for files that it finds. An earlier process may have
/// been killed between making them and this.
pub(super) struct Disk {
    fs: Arc<dyn FileSystem>,
    named: Mutex<Named>,
    /// How long the last sync of a file took, in microseconds.
    last_sync: AtomicU64,
}

#[derive(Default)]
struct Named {
    /// Folders that hold no file whose name may not be on disk.
    folders: HashSet<PathBuf>,
    /// How often a name was made in a folder: what was synced before that does not hold it. Some folders share a counter.
    made: [u64; 16],
}

impl Named {
    fn made_in(&mut self, folder: &Path) -> &mut u64 {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        let counter = hasher.finish() % self.made.len() as u64;
        &mut self.made[usize::try_from(counter).expect("there are few counters")]
    }
}

/// That many folders are remembered.
const MOST_NAMED: usize = 4_096;

/// To hand a sync to another thread, and to be woken again, costs about as much as a disk takes that syncs faster than this.
/// A thread that serves other tasks, too, may wait that long.
const QUICK: Duration = Duration::from_millis(1);

impl Disk {
    pub(super) fn new(fs: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(Disk {
            fs,
            named: Mutex::default(),
            last_sync: AtomicU64::new(u64::MAX),
        })
    }

    /// Puts the contents of `file` on disk.
    pub(super) fn sync(&self, file: &mut dyn DataFile) -> io::Result<()> {
        let begin = Instant::now();
        file.sync()?;
        self.last_sync.store(
            u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        Ok(())
    }

    /// Whether the last sync took so little time that it is not worth another thread.
    pub(super) fn is_quick(&self) -> bool {
        u128::from(self.last_sync.load(Ordering::Relaxed)) < QUICK.as_micros()
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file, and makes it where it is missing.
    pub(super) fn open(&self, path: &Path) -> io::Result<Opened> {
        let opened = self.fs.open(path)?;
        if opened.is_new {
            self.forget_names(path);
        }
        Ok(opened)
    }

    /// Puts `bytes` in the place of a file, synced but for its name.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(path, |file| file.write_all(bytes))
    }

    /// Puts what `write` writes in the place of a file, synced but for its name.
    pub(super) fn replace_with(
        &self,
        path: &Path,
        write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
    ) -> io::Result<()> {
        let replaced = replace_durably_with(&*self.fs, path, write);
        self.forget_names(path);
        replaced
    }

    /// As [`Disk::replace`], and not synced.
    pub(super) fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let replaced = replace(&*self.fs, path, bytes);
        self.forget_names(path);
        replaced
    }

    fn forget_names(&self, path: &Path) {
        if let Some(folder) = path.parent() {
            let mut named = self.named();
            *named.made_in(folder) += 1;
            named.folders.remove(folder);
        }
    }

    /// Whether the name of a file is on disk.
    pub(super) fn has_names(&self, path: &Path) -> bool {
        path.parent()
            .is_some_and(|folder| self.named().folders.contains(folder))
    }

    /// Puts the name of a file on disk, where it may not be there. The names of up to `depth` folders above it may be as new.
    pub(super) fn put_name(&self, path: &Path, depth: usize) -> io::Result<()> {
        let Some(folder) = path.parent().filter(|_| !self.has_names(path)) else {
            return Ok(());
        };
        let made = *self.named().made_in(folder);
        path.ancestors()
            .skip(1)
            .take(depth)
            .try_for_each(|folder| self.fs.sync_folder(folder))?;
        let mut named = self.named();
        if named.folders.len() >= MOST_NAMED {
            // To put a name on disk once more costs little.
            named.folders.clear();
        }
        if *named.made_in(folder) == made {
            named.folders.insert(folder.to_owned());
        }
        Ok(())
    }
}

impl Deref for Disk {
    type Target = dyn FileSystem;

    fn deref(&self) -> &Self::Target {
        &*self.fs
    }
}
