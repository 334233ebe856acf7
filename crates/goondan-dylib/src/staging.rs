//! Copies libraries to new paths before they are loaded.
//!
//! The build output itself is never loaded. For the same inode, glibc returns the already loaded
//! object, and writing to a mapped file changes running code. So each load uses a new file with a
//! new path and a new inode.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use goondan_core::ids::hex;
use goondan_core::private_files;
use goondan_spec::regular_file;
use sha2::{Digest, Sha256};

use crate::failure::LibraryFailure;

/// Maximum number of attempts to read a file that changes during reading, and the interval between
/// them.
const MAX_READ_ATTEMPTS: u32 = 20;
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Size in bytes of the pieces in which files are read. Reading libraries of many megabytes as a
/// whole would leave that much memory in the allocator pool of each thread.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A library's file, identified by its hash.
pub(crate) struct LibraryImage {
    /// Path of the file.
    pub(crate) source: PathBuf,
    /// SHA-256 in hexadecimal.
    pub(crate) hash: String,
}

/// A directory of this process for copies. Its lock shows other processes that it is in use.
pub(crate) struct StagingDirectory {
    folder: PathBuf,
    _lock: File,
    next: AtomicU64,
}

impl LibraryImage {
    /// Hashes `source` after its size and modification time have stopped changing.
    pub(crate) fn read(source: &Path) -> Result<LibraryImage, LibraryFailure> {
        let unreadable_failure = |cause: io::Error| LibraryFailure::Unreadable {
            name: source.display().to_string(),
            cause,
        };
        for _ in 0..MAX_READ_ATTEMPTS {
            let before = fs::metadata(source).map_err(unreadable_failure)?;
            let (hash, length) =
                hash_while_copying(source, &mut io::sink()).map_err(unreadable_failure)?;
            let after = fs::metadata(source).map_err(unreadable_failure)?;
            let steady =
                before.len() == after.len() && before.modified().ok() == after.modified().ok();
            if steady && after.len() == length {
                return Ok(LibraryImage {
                    source: source.to_owned(),
                    hash,
                });
            }
            std::thread::sleep(READ_RETRY_INTERVAL);
        }
        Err(changing_file_failure(source))
    }

    /// Returns the file's name, for messages.
    pub(crate) fn name(&self) -> String {
        file_name(&self.source)
    }
}

/// Returns the last part of `path`; empty if it has none.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Copies `source` to `target`. Returns its SHA-256 in hexadecimal and its length.
fn hash_while_copying(source: &Path, target: &mut impl Write) -> io::Result<(String, u64)> {
    let mut hashed = HashingWriter {
        target,
        hasher: Sha256::new(),
    };
    let length = io::copy(
        &mut BufReader::with_capacity(READ_CHUNK_BYTES, regular_file::open(source)?),
        &mut hashed,
    )?;
    Ok((hex(&hashed.hasher.finalize()), length))
}

/// Hashes all bytes written to `target`.
struct HashingWriter<'t, W> {
    target: &'t mut W,
    hasher: Sha256,
}

impl<W: Write> Write for HashingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.target.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Returns the error of a file that changes while it is copied.
fn changing_file_failure(source: &Path) -> LibraryFailure {
    LibraryFailure::Changing {
        name: source.display().to_string(),
    }
}

impl StagingDirectory {
    /// Creates a directory under `root`. Removes directories of ended processes.
    pub(crate) fn new(root: &Path) -> io::Result<StagingDirectory> {
        private_files::create_directory(root)?;
        remove_leftovers(root);
        let (folder, lock) = claim(root)?;
        Ok(StagingDirectory {
            folder,
            _lock: lock,
            next: AtomicU64::new(1),
        })
    }

    /// Copies `image` to a path that no process has loaded before.
    pub(crate) fn copy_verified(&self, image: &LibraryImage) -> Result<PathBuf, LibraryFailure> {
        let (path, hash) = self
            .copy(image)
            .map_err(|cause| LibraryFailure::NotCopied {
                name: image.name(),
                cause,
            })?;
        if hash == image.hash {
            Ok(path)
        } else {
            Err(changing_file_failure(&image.source))
        }
    }

    /// Copies `image` to a new directory. Returns the copy's path and its SHA-256 in hexadecimal.
    fn copy(&self, image: &LibraryImage) -> io::Result<(PathBuf, String)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let hash = image.hash.get(..12).unwrap_or(&image.hash);
        // One directory per copy, so that messages and backtraces contain the library's own name.
        let folder = self.folder.join(format!("{number}-{hash}"));
        // Create the parents as well: cleaners of temporary directories may have removed them.
        private_files::create_directory(&folder)?;
        let path = folder.join(image.name());
        let (hash, _) = hash_while_copying(&image.source, &mut create_new(&path)?)?;
        Ok((path, hash))
    }
}

/// Creates a unique directory with a lock file next to it. The lock is taken before other processes
/// can see it.
fn claim(root: &Path) -> io::Result<(PathBuf, File)> {
    let unique = unique_name();
    let (draft, lock_path) = (
        root.join(format!(".{unique}.lock")),
        root.join(format!("{unique}.lock")),
    );
    let lock = create_new(&draft)?;
    lock.lock()?;
    fs::rename(&draft, &lock_path)?;
    let folder = root.join(&unique);
    private_files::create_directory(&folder)?;
    Ok((folder, lock))
}

/// Creates a file that must not exist yet.
fn create_new(path: &Path) -> io::Result<File> {
    private_files::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}

/// Returns a name that is unique among living processes and this process's directories.
fn unique_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let time_since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "run-{}-{:x}-{}",
        std::process::id(),
        time_since_epoch.as_nanos(),
        MADE.fetch_add(1, Ordering::Relaxed)
    )
}

/// Removes each directory `X` whose lock file `X.lock` no process has locked. The next start tries
/// again if this fails.
fn remove_leftovers(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_lock = path
            .extension()
            .is_some_and(|extension| extension == "lock");
        // The lock files of directories that are being created are hidden.
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_lock || is_hidden {
            continue;
        }
        // No process locks the file again, because each process uses its own directory.
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
            && fs::remove_dir_all(path.with_extension("")).is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_is_a_separate_file() {
        let root = tempfile::tempdir().expect("a folder");
        let source = root.path().join("libx.so");
        fs::write(&source, b"one").expect("written");
        let staging =
            StagingDirectory::new(&root.path().join("staging")).expect("a staging folder");
        let image = LibraryImage::read(&source).expect("read");
        let (first, second) = (
            staging.copy_verified(&image).expect("copied"),
            staging.copy_verified(&image).expect("copied"),
        );
        assert_ne!(first, second);
        fs::write(&source, b"two").expect("written");
        assert_eq!(fs::read(&first).expect("the file exists"), b"one");
        assert_ne!(LibraryImage::read(&source).expect("read").hash, image.hash);
        assert!(
            staging
                .copy_verified(&image)
                .expect_err("another content")
                .to_string()
                .contains("changed repeatedly")
        );
    }

    #[cfg(unix)]
    #[test]
    fn copies_are_private_to_the_user() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a folder");
        let source = root.path().join("libx.so");
        fs::write(&source, b"one").expect("written");
        let staging =
            StagingDirectory::new(&root.path().join("staging")).expect("a staging folder");
        let copy = staging
            .copy_verified(&LibraryImage::read(&source).expect("read"))
            .expect("copied");
        let directories = copy.ancestors().take_while(|path| *path != root.path());
        let modes: Vec<u32> = directories
            .map(|path| {
                fs::metadata(path)
                    .expect("the file exists")
                    .permissions()
                    .mode()
                    & 0o777
            })
            .collect();
        assert_eq!(modes, [0o600, 0o700, 0o700, 0o700]);
    }

    #[test]
    fn only_unused_staging_directories_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let in_use = StagingDirectory::new(root.path()).expect("a staging folder");
        let unused = StagingDirectory::new(root.path())
            .expect("a staging folder")
            .folder
            .clone();
        let _newer = StagingDirectory::new(root.path()).expect("a staging folder");
        assert!(in_use.folder.exists());
        assert!(!unused.exists());
    }
}
