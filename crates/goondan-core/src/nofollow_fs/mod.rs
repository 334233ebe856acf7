//! Accesses files below a directory without following links, so that no link can be inserted
//! between a check and its use.
//!
//! A path is opened component by component from its base, each from the previously opened
//! directory. All operations then use the resulting directory and the plain file name.

#[cfg(unix)]
mod by_handle;
#[cfg(not(unix))]
mod by_path;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::real_path::real_path;

#[cfg(unix)]
pub use by_handle::{DirectoryHandle, open_without_links};
#[cfg(not(unix))]
pub use by_path::{DirectoryHandle, open_without_links};

/// The purpose of opening a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileOpenMode {
    /// Reads an existing file.
    Read,
    /// Appends to a file, and creates it if necessary.
    Append,
    /// Overwrites a file from its beginning, and creates it if necessary.
    Write,
    /// Creates a new file.
    Create,
}

/// The type of a directory entry. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// Metadata of a directory entry.
#[derive(Debug, Clone)]
pub struct EntryMetadata {
    /// The type, without following a link.
    pub kind: DirectoryEntryKind,
    /// The mode.
    pub permissions: Permissions,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change.
    pub modified: SystemTime,
    /// Number of hard links. Always 1 where the system does not report it.
    pub links: u64,
}

/// Opens a resolved path below `base` without following links. A link inserted at the same time
/// only makes this fail.
///
/// # Errors
/// Fails if a component of the path is a link, or if the file cannot be opened.
pub fn open_beneath(base: &Path, path: &Path, how: FileOpenMode) -> io::Result<File> {
    match path.file_name() {
        Some(name) if path != base => {
            DirectoryHandle::open_parent(base, path)?.open_file(name, how)
        }
        _ => open_without_links(path, FileOpenMode::Read),
    }
}

/// Opens a resolved path below `base` for reading, like [`open_beneath`].
///
/// # Errors
/// Fails like [`open_beneath`], and if the path is not a regular file.
pub fn open_regular_file(base: &Path, path: &Path) -> io::Result<File> {
    let file = open_beneath(base, path, FileOpenMode::Read)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Returns the metadata of a resolved path below `base`; `None` if it does not exist.
///
/// # Errors
/// Fails if a directory of the path is a link or cannot be opened.
pub fn metadata_beneath(base: &Path, path: &Path) -> io::Result<Option<EntryMetadata>> {
    match path.file_name() {
        Some(name) if path != base => DirectoryHandle::open_parent(base, path)?.look(name),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// Removes the directory `path`, which is absolute and without links, and everything in it. Removes the
/// entry `first` before all others. Links are removed, and not followed.
///
/// # Errors
/// Fails if a component of the path is a link, or if an entry cannot be removed.
pub fn remove_tree(path: &Path, first: &OsStr) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = DirectoryHandle::open(parent, parent)?;
    let directory = parent.open_subdirectory(name)?;
    if directory.look(first)?.is_some() {
        directory.remove_file(first)?;
    }
    remove_entries(&directory)?;
    parent.remove_folder(name)
}

/// Removes everything in a directory.
fn remove_entries(directory: &DirectoryHandle) -> io::Result<()> {
    for (name, metadata) in directory.entries()? {
        if metadata.kind == DirectoryEntryKind::Folder {
            remove_entries(&directory.open_subdirectory(&name)?)?;
            directory.remove_folder(&name)?;
        } else {
            directory.remove_file(&name)?;
        }
    }
    Ok(())
}

/// Writes the file `path`, and creates its directories. Links that stay in `base` are followed.
/// `is_new`: an existing file is an error.
///
/// # Errors
/// Fails if `path` is not in `base` or leads out of it, or if the file cannot be written.
pub fn write_inside(base: &Path, path: &Path, content: &[u8], is_new: bool) -> io::Result<()> {
    let (base, path) = (real_path(base)?, real_path(path)?);
    let outside_error = || io::Error::other(format!("it leads to {}", path.display()));
    if !path.starts_with(&base) || path == base {
        return Err(outside_error());
    }
    let name = path.file_name().ok_or_else(outside_error)?;
    let directory = DirectoryHandle::make(&base, path.parent().unwrap_or(&base))?;
    if is_new {
        return directory.put_new(name, content);
    }
    let mode = directory.look(name)?.map(|existing| existing.permissions);
    directory.write_atomically(name, content, mode)
}

impl DirectoryHandle {
    /// Returns the entries of the directory with their metadata, unsorted. Entries that disappear
    /// during the call are left out.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn entries(&self) -> io::Result<Vec<(OsString, EntryMetadata)>> {
        let names = self.names()?;
        Ok(names
            .into_iter()
            .filter_map(|name| {
                let metadata = self.look(&name).ok().flatten()?;
                Some((name, metadata))
            })
            .collect())
    }

    /// Opens the parent directory of `path`, which is below `base`.
    ///
    /// # Errors
    /// Fails if a component is a link or not a directory.
    pub fn open_parent(base: &Path, path: &Path) -> io::Result<DirectoryHandle> {
        DirectoryHandle::open(base, path.parent().unwrap_or(base))
    }

    /// Writes `content` to `name` atomically: readers see the old or the new file.
    ///
    /// # Errors
    /// Fails if the file cannot be written or renamed.
    pub fn write_atomically(
        &self,
        name: &OsStr,
        content: &[u8],
        mode: Option<Permissions>,
    ) -> io::Result<()> {
        self.write_atomically_if(name, content, mode, || Ok(true))
            .map(drop)
    }

    /// Writes a file like [`DirectoryHandle::write_atomically`] if `is_current` returns true. The
    /// check runs just before the file gets its name. Returns true if the file was written.
    ///
    /// # Errors
    /// Fails if the check fails, or if the file cannot be written or renamed.
    pub fn write_atomically_if(
        &self,
        name: &OsStr,
        content: &[u8],
        mode: Option<Permissions>,
        is_current: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<bool> {
        let (mut draft, file) = TemporaryFile::new(self)?;
        write_contents(file, content, mode)?;
        if !is_current()? {
            return Ok(false);
        }
        self.rename(draft.name.as_ref(), name)?;
        draft.gone = true;
        Ok(true)
    }

    /// Replaces the contents of an existing file in place, so that its other hard links also see
    /// them. Readers can see a part of the new contents.
    ///
    /// # Errors
    /// Fails if the entry is a symbolic link, or if it cannot be written. The file then keeps its
    /// contents.
    pub fn overwrite(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        let old_file = self.open_file(name, FileOpenMode::Read)?;
        let old_size = old_file.metadata()?.len();
        // Later bytes are only cut off at the end, after all writes.
        let mut overwritten = Vec::new();
        old_file
            .take(content.len() as u64)
            .read_to_end(&mut overwritten)?;
        let mut file = self.open_file(name, FileOpenMode::Write)?;
        let written = file.write_all(content);
        written
            .and_then(|()| file.set_len(content.len() as u64))
            .inspect_err(|_| {
                // The file already had room for these bytes, so this also works on a full disk.
                let _ = file
                    .rewind()
                    .and_then(|()| file.write_all(&overwritten))
                    .and_then(|()| file.set_len(old_size));
            })
    }

    /// Writes a file like [`DirectoryHandle::write_atomically`].
    ///
    /// # Errors
    /// Fails if the name exists, or if the file cannot be written.
    pub fn put_new(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        let (draft, file) = TemporaryFile::new(self)?;
        write_contents(file, content, None)?;
        // The draft keeps its temporary name, which is removed when it is dropped.
        self.link(draft.name.as_ref(), name)
    }
}

/// Writes a complete file. The mode is set before the contents, which may be confidential.
fn write_contents(mut file: File, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.write_all(content)
}

/// A temporary file. Dropping it before the file is renamed removes the file.
struct TemporaryFile<'a> {
    folder: &'a DirectoryHandle,
    name: String,
    gone: bool,
}

impl<'a> TemporaryFile<'a> {
    /// Creates an empty file with a unique name.
    fn new(folder: &'a DirectoryHandle) -> io::Result<(TemporaryFile<'a>, File)> {
        static NEXT_FILE_NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT_FILE_NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".tmp-{}-{number}", std::process::id());
            match folder.open_file(name.as_ref(), FileOpenMode::Create) {
                Ok(file) => {
                    return Ok((
                        TemporaryFile {
                            folder,
                            name,
                            gone: false,
                        },
                        file,
                    ));
                }
                // A program with the same process id left this file behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.gone {
            let _ = self.folder.remove_file(self.name.as_ref());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_is_removed_without_its_link_targets() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (tree, out) = (base.join("tree"), base.join("out"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&out).unwrap();
        for file in [tree.join("first"), tree.join("a/b/file"), out.join("file")] {
            fs::write(file, "x").unwrap();
        }
        symlink(&out, tree.join("a/link")).unwrap();
        symlink(&tree, base.join("to-tree")).unwrap();
        assert!(remove_tree(&base.join("to-tree"), "first".as_ref()).is_err());
        assert!(remove_tree(&base.join("to-tree/a"), "first".as_ref()).is_err());
        assert!(tree.join("first").is_file());
        remove_tree(&tree, "first".as_ref()).unwrap();
        assert!(!tree.exists() && out.join("file").is_file());
    }
}
