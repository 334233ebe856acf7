//! Directories as paths, for systems without suitable handles. The caller checks the path again
//! before each use.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::{How, Kind};

/// Opens a path. The caller must check that it contains no link.
pub(crate) fn open_without_links(path: &Path, how: How) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match how {
        How::Read => options.read(true),
        How::Append => options.append(true).create(true),
        How::Write => options.write(true).create(true).truncate(false),
        How::Create => options.write(true).create_new(true),
    };
    options.open(path)
}

/// A directory as a path.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn open(_base: &Path, path: &Path) -> io::Result<Folder> {
        match fs::symlink_metadata(path)?.is_dir() {
            true => Ok(Folder(path.to_owned())),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Opens a directory like [`Folder::open`], and creates it with its parents if necessary.
    pub(crate) fn make(base: &Path, path: &Path) -> io::Result<Folder> {
        match fs::create_dir_all(path) {
            // Systems report an obstructing file with different errors.
            Err(_) if path.ancestors().any(Path::is_file) => {
                Err(io::ErrorKind::NotADirectory.into())
            }
            made => made.and_then(|()| Folder::open(base, path)),
        }
    }

    pub(crate) fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    pub(crate) fn open_file(&self, name: &OsStr, how: How) -> io::Result<File> {
        open_without_links(&self.0.join(name), how)
    }

    /// Returns the type and the mode of an entry; `None` if it does not exist.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Option<(Kind, Permissions)>> {
        let metadata = match fs::symlink_metadata(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let kind = match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => Kind::File,
            (_, true) => Kind::Folder,
            _ => Kind::Other,
        };
        Ok(Some((kind, metadata.permissions())))
    }

    /// Renames a file, and replaces an existing entry.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Creates a hard link with a new name.
    pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::hard_link(self.0.join(from), self.0.join(to))
    }

    /// Removes a file, or a link itself.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }
}
