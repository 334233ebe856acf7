//! Access to the files of a bundle.

mod memory;
mod os;

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

pub use memory::MemoryFiles;
pub use os::OsFiles;

/// Kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link, socket, device or similar.
    Other,
    /// Entry of any kind whose name is not Unicode. No path leads to it.
    NonUnicodeName,
}

/// File access of the loader. Paths are absolute or relative to the process, as in the bundle's
/// root that the caller passed.
pub trait FileAccess: Sync {
    /// Returns the file kind at `path`, following symbolic links.
    fn kind(&self, path: &Path) -> io::Result<FileKind>;
    /// Reads the whole file, but never more than `limit + 1` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;
    /// Lists a directory in any order. Symbolic links are not followed. A name that is not Unicode
    /// has replacement characters.
    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>>;
    /// Resolves links and dots, for the check that no path leaves the bundle.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Returns the identity and the number of hard links of a file, following symbolic links. `None`
    /// if the file is not on disk.
    fn metadata(&self, _path: &Path) -> Option<Metadata> {
        None
    }
}
