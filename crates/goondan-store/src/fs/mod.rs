//! What a store on disk asks of a file system. Real runs use [`RealFs`], a thin layer over `std::fs`; tests use one in
//! memory that fails, is killed and loses power wherever they want.

mod real;
pub mod sim;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use real::RealFs;

/// Files and folders. What is written is on disk once the file is synced; a new or renamed file once its folder is.
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading and writing, and makes it, with the folders above it, where it is missing.
    fn open(&self, path: &Path) -> io::Result<Opened>;
    /// Everything in a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// As [`read`](FileSystem::read), or `None` where there is no such file.
    fn read_if_there(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }
    /// Whether there is such a file or folder.
    fn exists(&self, path: &Path) -> bool;
    /// Gives a file or folder another name. What had that name is gone, in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a folder, and those above it.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Puts the names in a folder on disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The folders in a folder, in any order; none where there is no such folder.
    fn folders(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Deletes a folder with everything in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Whether so many files are open that files which are not needed right now should be closed.
    fn is_crowded(&self) -> bool;
    /// Tells this run of the machine from others. What was written in it is there, synced or not. `None` where nothing tells.
    fn boot(&self) -> Option<String>;
}

/// A file that was just opened.
pub struct Opened {
    /// The file.
    pub file: Box<dyn DataFile>,
    /// It was not there before.
    pub is_new: bool,
}

/// An open file.
#[allow(
    clippy::len_without_is_empty,
    reason = "whether it is empty takes a look at the disk, too"
)]
pub trait DataFile: Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset` on.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. On an error some of them may be there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Puts its contents on disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// Writes `bytes` beside `path` and renames: whoever reads sees the old file or the new one. The new one is on disk afterwards,
/// but for its name: the folder has to be synced.
pub fn replace_durably(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_durably_with(fs, path, |file| file.write_all(bytes))
}

/// As [`replace_durably`], with what `write` writes.
pub fn replace_durably_with(
    fs: &dyn FileSystem,
    path: &Path,
    write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, mut writer) = write_beside(fs, path, write)?;
    writer.file.sync()?;
    drop(writer);
    fs.rename(&temporary, path)
}

/// As [`replace_durably`], for contents that need not survive a power failure.
pub fn replace(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (temporary, writer) = write_beside(fs, path, |file| file.write_all(bytes))?;
    drop(writer);
    fs.rename(&temporary, path)
}

fn write_beside(
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

/// Writes a file from its beginning.
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
