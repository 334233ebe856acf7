//! A file system, and which names on it are known to be on disk.

use std::collections::HashSet;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::fs::{FileSystem, Opened, replace_durably};

/// The file system of a store. Syncing a file does not put its name on disk, nor those of the folders above it: that is done
/// when a file is made or replaced, and once in the life of a process for files that it finds. An earlier process may have
/// been killed between making them and this.
pub(super) struct Disk {
    fs: Arc<dyn FileSystem>,
    /// Folders that hold no file whose name may not be on disk.
    named: Mutex<HashSet<PathBuf>>,
}

impl Disk {
    pub(super) fn new(fs: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(Disk { fs, named: Mutex::default() })
    }

    fn named(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
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
        self.forget_names(path);
        replace_durably(&*self.fs, path, bytes)
    }

    fn forget_names(&self, path: &Path) {
        if let Some(folder) = path.parent() {
            self.named().remove(folder);
        }
    }

    /// Whether the name of a file is on disk.
    pub(super) fn has_names(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| self.named().contains(folder))
    }

    /// Puts the name of a file on disk, where it may not be there. The names of up to `depth` folders above it may be as new.
    /// One thread at a time does this in a folder.
    pub(super) fn put_name(&self, path: &Path, depth: usize) -> io::Result<()> {
        if self.has_names(path) {
            return Ok(());
        }
        path.ancestors().skip(1).take(depth).try_for_each(|folder| self.fs.sync_folder(folder))?;
        self.named().extend(path.parent().map(Path::to_owned));
        Ok(())
    }
}

impl Deref for Disk {
    type Target = dyn FileSystem;

    fn deref(&self) -> &Self::Target {
        &*self.fs
    }
}
