//! The file system interface of a store on disk. Production code uses [`RealFs`], a thin wrapper
//! over `std::fs`. Tests use an in-memory implementation that can fail, be killed and lose power at
//! any point.

mod real;
pub mod sim;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use real::RealFs;

/// Files and directories. File contents are durable after the file is synced. A new or renamed file
/// is durable after its directory is synced.
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading and writing. Creates the file and its parent directories if they
    /// are missing.
    fn open(&self, path: &Path) -> io::Result<OpenedDataFile>;
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Reads a file like [`read`](FileSystem::read), or returns `None` if it does not exist.
    fn read_if_there(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }
    /// Returns true if the file or directory exists.
    fn exists(&self, path: &Path) -> bool;
    /// Returns the length of a file in bytes without opening it; `None` if it does not exist.
    fn file_len(&self, path: &Path) -> io::Result<Option<u64>>;
    /// Renames a file or directory, and atomically replaces any existing entry of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a directory and its parents.
    fn create_directories(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Lists the subdirectories in any order. A missing directory has none.
    fn subdirectories(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Lists the files of a directory in any order. A missing directory has none.
    fn files(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Returns the time of the last change of a file's contents or of a directory's names, in
    /// nanoseconds since an epoch of the file system; `None` if it is missing or unknown.
    fn modified(&self, path: &Path) -> Option<u64>;
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns true if so many files are open that idle ones should be closed.
    fn is_crowded(&self) -> bool;
    /// Identifies the current boot of the machine. Everything written since this boot is readable,
    /// synced or not. `None` if the platform has no such identifier.
    fn boot_id(&self) -> Option<String>;
}

pub struct OpenedDataFile {
    pub file: Box<dyn DataFile>,
    /// True if this call created the file.
    pub is_new: bool,
}

#[allow(
    clippy::len_without_is_empty,
    reason = "whether it is empty takes a look at the disk, too"
)]
pub trait DataFile: Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` with the bytes that start at `offset`.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. On an error, some of them may be written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Makes the contents durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Writes `bytes` to a temporary file next to `path` and renames it, so that readers see either the
/// old file or the new one. The contents are durable on return. The name is durable only after the
/// directory is synced.
pub fn replace_durably(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_durably_with(fs, path, |file| file.write_all(bytes))
}

/// Replaces a file like [`replace_durably`], with contents that `write` produces.
pub fn replace_durably_with(
    fs: &dyn FileSystem,
    path: &Path,
    write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, mut writer) = write_temporary(fs, path, write)?;
    writer.file.sync()?;
    drop(writer);
    fs.rename(&temporary, path)
}

/// Replaces a file like [`replace_durably`], for contents that need not survive a power failure.
pub fn replace(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (temporary, writer) = write_temporary(fs, path, |file| file.write_all(bytes))?;
    drop(writer);
    fs.rename(&temporary, path)
}

/// Writes the new content to `PATH.tmp` next to `path`. Returns the temporary path and its unsynced
/// file.
fn write_temporary(
    fs: &dyn FileSystem,
    path: &Path,
    write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
) -> io::Result<(PathBuf, FileWriter)> {
    let temporary = path.with_extension("tmp");
    let mut file = fs.open(&temporary)?.file;
    file.set_len(0)?;
    let mut writer = FileWriter { file, at: 0 };
    write(&mut writer)?;
    Ok((temporary, writer))
}

pub struct FileWriter {
    file: Box<dyn DataFile>,
    at: u64,
}

impl io::Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
