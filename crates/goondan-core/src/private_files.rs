//! Files and directories that only their user can access.
//!
//! Conversations and all data about them are private, regardless of the user's umask. So all files
//! below a state root are made here, and so are cassettes, histories and exports. Files of a
//! project are made with the user's umask. Systems other than Unix have no modes; there the user's
//! home directory is private.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
const PRIVATE_DIRECTORY_MODE: u32 = 0o700;
#[cfg(unix)]
const PRIVATE_FILE_MODE: u32 = 0o600;

/// Permissions of group and others.
#[cfg(unix)]
const OTHERS_MODE_BITS: u32 = 0o077;

/// Sticky bit of a directory such as `/tmp`, in which all users can make files.
#[cfg(unix)]
const STICKY_MODE_BIT: u32 = 0o1000;

/// Makes a directory and its missing parents. An existing directory is unchanged.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, PRIVATE_DIRECTORY_MODE);
    builder.recursive(true).create(path)
}

/// Returns open options that make new files private.
pub fn options() -> OpenOptions {
    #[allow(unused_mut, reason = "other systems than Unix have no modes")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, PRIVATE_FILE_MODE);
    options
}

/// Writes a complete file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?
        .write_all(content)
}

/// Replaces a file atomically. Readers see the old or the new content; of several writers, one
/// wins.
///
/// # Errors
/// The file can't be written; the old content is unchanged.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, |draft| write(draft, content))
}

/// Replaces a file like [`replace`], and syncs it, so that it survives a power loss. Returns the
/// open file, positioned after its content.
///
/// # Errors
/// The file can't be written; the old content is unchanged.
pub fn replace_durably(path: &Path, content: &[u8]) -> io::Result<File> {
    let file = replace_with(path, |draft| {
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(file)
    })?;
    if let Some(folder) = path.parent() {
        // If a directory can't be synced, the file is still visible, but can be lost in a power
        // loss.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(file)
}

/// Replaces `path` with the file that `write` creates at a temporary path. Returns the value of
/// `write`. Removes the temporary file if it fails.
fn replace_with<T>(path: &Path, write: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let draft = temporary_path(path);
    let replaced = write(&draft).and_then(|value| fs::rename(&draft, path).map(|()| value));
    if replaced.is_err() {
        let _ = fs::remove_file(&draft);
    }
    replaced
}

/// Returns a temporary path in the same directory. It is unique because other threads and processes
/// write the same files.
fn temporary_path(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}-{}.new",
        std::process::id(),
        DRAFTS.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

/// Removes the access of other users to an existing directory, and so to all its content.
///
/// # Errors
/// The directory belongs to another user, or is shared by all users.
#[cfg(unix)]
pub fn tighten(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(folder)?.permissions();
    let mode = permissions.mode();
    if mode & OTHERS_MODE_BITS == 0 {
        return Ok(());
    }
    if mode & STICKY_MODE_BIT != 0 {
        return Err(io::Error::other("it is a directory that all users share"));
    }
    permissions.set_mode(mode & !OTHERS_MODE_BITS);
    fs::set_permissions(folder, permissions)
}

/// Users with access to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryAccess {
    /// Only the owner can access the directory.
    Owner,
    /// Other users can also access the directory; [`tighten`] removes their access.
    Others,
    /// All users share the directory, such as `/tmp`.
    Everybody,
}

/// Returns the users with access to an existing directory. Changes nothing.
///
/// # Errors
/// The directory does not exist.
#[cfg(unix)]
pub fn access(folder: &Path) -> io::Result<DirectoryAccess> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(match fs::metadata(folder)?.permissions().mode() {
        mode if mode & OTHERS_MODE_BITS == 0 => DirectoryAccess::Owner,
        mode if mode & STICKY_MODE_BIT != 0 => DirectoryAccess::Everybody,
        _ => DirectoryAccess::Others,
    })
}

/// Returns [`DirectoryAccess::Owner`] for an existing directory: this system has no modes.
///
/// # Errors
/// The directory does not exist.
#[cfg(not(unix))]
pub fn access(folder: &Path) -> io::Result<DirectoryAccess> {
    fs::metadata(folder).map(|_| DirectoryAccess::Owner)
}

/// Does nothing: this system has no modes.
///
/// # Errors
/// The directory does not exist.
#[cfg(not(unix))]
pub fn tighten(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file_mode(path: &Path) -> u32 {
        fs::metadata(path)
            .expect("the file exists")
            .permissions()
            .mode()
            & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .expect("the test user owns the file");
    }

    #[test]
    fn created_files_and_directories_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        create_directory(&folder).unwrap();
        write(&folder.join("f"), b"x").unwrap();
        assert_eq!(
            [&dir.path().join("a"), &folder, &folder.join("f")].map(|path| file_mode(path)),
            [0o700, 0o700, 0o600]
        );
        write(&folder.join("f"), b"").unwrap();
        assert_eq!(fs::read(folder.join("f")).unwrap(), b"");
    }

    #[test]
    fn tightening_removes_access_of_other_users() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        tighten(dir.path()).unwrap();
        assert_eq!(file_mode(dir.path()), 0o700);
        set_mode(dir.path(), 0o1777);
        assert!(
            tighten(dir.path()).is_err(),
            "a directory with a sticky bit is shared"
        );
        assert_eq!(file_mode(dir.path()), 0o1777);
        assert!(tighten(&dir.path().join("missing")).is_err());
    }
}
