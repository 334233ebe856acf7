//! Where the text of a bundle comes from.

mod memory;
mod os;

use std::io;
use std::path::{Path, PathBuf};

pub use memory::MemoryFiles;
pub use os::OsFiles;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, socket, device or the like.
    Other,
}

/// The files that the loader may see. Paths are absolute or relative to the process, as the caller gave the bundle's root.
pub trait Files: Sync {
    /// What stands at `path`, following symbolic links.
    fn kind(&self, path: &Path) -> io::Result<FileKind>;
    /// The whole file, but never more than `limit + 1` bytes of it.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;
    /// The names in a folder, in any order, each with what stands there (links not followed).
    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>>;
    /// The path without links and dots, for the check that nothing leaves the bundle.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
}
