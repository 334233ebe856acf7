//! A file system, and which names on it are known to be on disk.

use std::collections::HashSet;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::fs::FileSystem;

/// The file system of a store. Syncing a file does not put its name on disk, nor those of the folders above it: that is done
/// when a file is made, and once in the life of a process for files that it finds. An earlier process may have been killed
/// between making them and this.
pub(super) struct Disk {
    fs: Arc<dyn FileSystem>,
    /// Folders whose files have their names on disk, but for files that were made since.
    named: Mutex<HashSet<PathBuf>>,
}

impl Disk {
    pub(super) fn new(fs: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(Disk { fs, named: Mutex::default() })
    }

    fn named(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the name of a file on disk, where it may not be there. `is_new`: this process has made it, or given it another
    /// name. The names of up to `depth` folders above it may be as new.
    pub(super) fn put_name(&self, path: &Path, is_new: bool, depth: usize) -> io::Result<()> {
        let Some(folder) = path.parent() else { return Ok(()) };
        if !is_new && self.named().contains(folder) {
            return Ok(());
        }
        path.ancestors().skip(1).take(depth).try_for_each(|folder| self.fs.sync_folder(folder))?;
        self.named().insert(folder.to_owned());
        Ok(())
    }
}

impl Deref for Disk {
    type Target = dyn FileSystem;

    fn deref(&self) -> &Self::Target {
        &*self.fs
    }
}
