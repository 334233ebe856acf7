//! The operating system's file system.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use super::{DataFile, FileSystem, OpenedDataFile};
use goondan_core::private_files;

/// Conversations may use one quarter of the process's file limit. Above that share, files are
/// closed after each use, so that the number of turns is unlimited.
#[cfg(unix)]
const OPEN_FILES_DIVISOR: u64 = 4;

/// Upper bound for open files, even if the process limit allows more.
#[cfg(unix)]
const OPEN_FILES_CAP: usize = 4_096;

/// Number of open files. The count is global because the limit applies to the process.
static OPEN_FILE_COUNT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl FileSystem for RealFs {
    fn open(&self, path: &Path) -> io::Result<OpenedDataFile> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match open(path, false) {
            Err(error) if is_missing(&error) => {}
            opened => {
                return opened.map(|file| OpenedDataFile {
                    file,
                    is_new: false,
                });
            }
        }
        let mut made = open(path, true);
        if made.as_ref().is_err_and(is_missing)
            && let Some(folder) = path.parent()
        {
            private_files::create_directory(folder)?;
            made = open(path, true);
        }
        Ok(OpenedDataFile {
            file: made?,
            is_new: true,
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            metadata => metadata.map(|metadata| Some(metadata.len())),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        private_files::create_directory(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Windows cannot sync a directory and does not need it.
        if cfg!(windows) {
            Ok(())
        } else {
            File::open(path)?.sync_all()
        }
    }

    fn subdirectories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        entries(path, |kind| kind.is_dir())
    }

    fn files(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        entries(path, |kind| kind.is_file())
    }

    fn modified(&self, path: &Path) -> Option<u64> {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since_epoch.as_nanos()).ok()
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn is_crowded(&self) -> bool {
        static COMFORTABLE: OnceLock<usize> = OnceLock::new();
        OPEN_FILE_COUNT.load(Ordering::Relaxed) > *COMFORTABLE.get_or_init(open_file_threshold)
    }

    fn boot_id(&self) -> Option<String> {
        boot_id()
    }
}

/// Returns the paths of the entries of a directory with a matching type; none if the directory does
/// not exist.
fn entries(path: &Path, matches: impl Fn(fs::FileType) -> bool) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        if matches(entry.file_type()?) {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// The kernel generates a new boot id at each start.
#[cfg(target_os = "linux")]
fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<String> {
    None
}

/// Returns the number of open files above which the file system counts as crowded.
#[cfg(unix)]
fn open_file_threshold() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(OPEN_FILES_CAP, |limit| {
        usize::try_from(limit / OPEN_FILES_DIVISOR)
            .unwrap_or(OPEN_FILES_CAP)
            .min(OPEN_FILES_CAP)
    })
}

/// Returns the number of files that may stay open without risking the process limit.
#[cfg(not(unix))]
fn open_file_threshold() -> usize {
    256
}

/// Opens a file for reading and writing. With `new`, fails if the file exists.
fn open(path: &Path, new: bool) -> io::Result<Box<dyn DataFile>> {
    let file = private_files::options()
        .read(true)
        .write(true)
        .create_new(new)
        .open(path)?;
    OPEN_FILE_COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(Box::new(RealFile(file)))
}

struct RealFile(File);

impl Drop for RealFile {
    fn drop(&mut self) {
        OPEN_FILE_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DataFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.read_exact(buffer)
    }

    #[cfg(unix)]
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, offset)
    }

    #[cfg(not(unix))]
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset))?;
        io::Write::write_all(&mut self.0, bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
