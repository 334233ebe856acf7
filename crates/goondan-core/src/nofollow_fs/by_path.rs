//! Directories as paths, for systems without suitable handles. The caller checks the path again
//! before each use.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{DirectoryEntryKind, EntryMetadata, FileOpenMode};

/// Opens a path. The caller must check that the path contains no link.
///
/// # Errors
/// Fails if the file cannot be opened.
pub fn open_without_links(path: &Path, how: FileOpenMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match how {
        FileOpenMode::Read => options.read(true),
        FileOpenMode::Append => options.append(true).create(true),
        FileOpenMode::Write => options.write(true).create(true).truncate(false),
        FileOpenMode::Create => options.write(true).create_new(true),
    };
    options.open(path)
}

/// A directory as a path.
#[derive(Debug)]
pub struct DirectoryHandle(PathBuf);

impl DirectoryHandle {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// Fails if it is a link or not a directory.
    pub fn open(_base: &Path, path: &Path) -> io::Result<DirectoryHandle> {
        if fs::symlink_metadata(path)?.is_dir() {
            Ok(DirectoryHandle(path.to_owned()))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Opens a directory like [`DirectoryHandle::open`], and creates it with its parents if necessary.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn make(base: &Path, path: &Path) -> io::Result<DirectoryHandle> {
        match fs::create_dir_all(path) {
            // Systems report an obstructing file with different errors.
            Err(_) if path.ancestors().any(Path::is_file) => {
                Err(io::ErrorKind::NotADirectory.into())
            }
            made => made.and_then(|()| DirectoryHandle::open(base, path)),
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Fails if the name exists.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Fails if it cannot be opened.
    pub fn open_file(&self, name: &OsStr, how: FileOpenMode) -> io::Result<File> {
        open_without_links(&self.0.join(name), how)
    }

    /// Opens a directory in this directory.
    ///
    /// # Errors
    /// Fails if the entry is a link or not a directory.
    pub fn open_subdirectory(&self, name: &OsStr) -> io::Result<DirectoryHandle> {
        DirectoryHandle::open(&self.0, &self.0.join(name))
    }

    /// Returns the names of the entries, unsorted.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.0)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }

    /// Returns the metadata of an entry; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the entry cannot be examined.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<EntryMetadata>> {
        let metadata = match fs::symlink_metadata(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let kind = match (metadata.is_file(), metadata.is_dir(), metadata.is_symlink()) {
            (true, _, _) => DirectoryEntryKind::File,
            (_, true, _) => DirectoryEntryKind::Folder,
            (_, _, true) => DirectoryEntryKind::Link,
            _ => DirectoryEntryKind::Other,
        };
        Ok(Some(EntryMetadata {
            kind,
            size: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            permissions: metadata.permissions(),
            links: 1,
        }))
    }

    /// Renames a file, and replaces an existing entry.
    ///
    /// # Errors
    /// Fails if the file cannot be renamed.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Creates a hard link with a new name.
    ///
    /// # Errors
    /// Fails if the new name exists.
    pub fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::hard_link(self.0.join(from), self.0.join(to))
    }

    /// Creates a symbolic link to `target`. Not supported on this system.
    ///
    /// # Errors
    /// Always fails.
    pub fn make_symlink(&self, _target: &Path, _name: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the target of a symbolic link, as it is stored.
    ///
    /// # Errors
    /// Fails if the entry is not a symbolic link.
    pub fn symlink_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        fs::read_link(self.0.join(name))
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// Fails if the entry cannot be removed.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails if the entry is a file, or a directory with entries.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }
}
