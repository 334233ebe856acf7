//! Directories as open handles: replacing a directory with a link afterwards has no effect.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::{DirectoryEntryKind, EntryMetadata, FileOpenMode};

/// Refuses links in the last component, and does not wait for the other end of a pipe.
const COMMON_OPEN_FLAGS: OFlag = OFlag::O_NOFOLLOW
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);
/// Accepts only a directory.
const DIRECTORY_OPEN_FLAGS: OFlag = COMMON_OPEN_FLAGS.union(OFlag::O_DIRECTORY);

/// The mode of a new file, before the umask.
const NEW_FILE_MODE: Mode = Mode::from_bits_truncate(0o666);

fn open_flags(how: FileOpenMode) -> OFlag {
    COMMON_OPEN_FLAGS
        | match how {
            FileOpenMode::Read => OFlag::O_RDONLY,
            FileOpenMode::Append => OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT,
            FileOpenMode::Write => OFlag::O_WRONLY | OFlag::O_CREAT,
            FileOpenMode::Create => OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL,
        }
}

/// Opens any absolute path without following links: in its last component on all systems, in no
/// component on Linux. A terminal does not become the controlling terminal of this program.
///
/// # Errors
/// Fails if a component is a link, or if the file cannot be opened.
pub fn open_without_links(path: &Path, how: FileOpenMode) -> io::Result<File> {
    let flags = open_flags(how) | OFlag::O_NOCTTY;
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{AT_FDCWD, OpenHow, ResolveFlag, openat2};
        // A mode is only permitted together with `O_CREAT`.
        let mode = if flags.contains(OFlag::O_CREAT) {
            NEW_FILE_MODE
        } else {
            Mode::empty()
        };
        let exactly = OpenHow::new()
            .flags(flags)
            .mode(mode)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        match openat2(AT_FDCWD, path, exactly) {
            // The kernel is too old, or a container blocks the call.
            Err(Errno::ENOSYS | Errno::EPERM) => {}
            opened => return Ok(File::from(opened?)),
        }
    }
    Ok(File::from(nix::fcntl::open(path, flags, NEW_FILE_MODE)?))
}

/// An open directory. The handle refers to the same directory even if the path changes.
#[derive(Debug)]
pub struct DirectoryHandle(OwnedFd);

impl DirectoryHandle {
    /// Opens the directory `path`, which is `base` or below it.
    ///
    /// # Errors
    /// Fails if a component is a link or not a directory.
    pub fn open(base: &Path, path: &Path) -> io::Result<DirectoryHandle> {
        walk(base, path, |folder, part| {
            Ok(openat(folder, part, DIRECTORY_OPEN_FLAGS, Mode::empty())?)
        })
    }

    /// Opens a directory like [`DirectoryHandle::open`], and creates it with its parents if necessary.
    ///
    /// # Errors
    /// Fails if a component is a link or not a directory, or cannot be created.
    pub fn make(base: &Path, path: &Path) -> io::Result<DirectoryHandle> {
        walk(base, path, |folder, part| {
            match openat(folder, part, DIRECTORY_OPEN_FLAGS, Mode::empty()) {
                Err(Errno::ENOENT) => {
                    match mkdirat(folder, part, Mode::from_bits_truncate(0o777)) {
                        // Another process was faster.
                        Ok(()) | Err(Errno::EEXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    Ok(openat(folder, part, DIRECTORY_OPEN_FLAGS, Mode::empty())?)
                }
                opened => Ok(opened?),
            }
        })
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Fails if the name exists.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_bits_truncate(0o777))?)
    }

    /// Opens a file without following a link.
    ///
    /// # Errors
    /// Fails if the entry is a link or cannot be opened.
    pub fn open_file(&self, name: &OsStr, how: FileOpenMode) -> io::Result<File> {
        Ok(File::from(openat(
            &self.0,
            name,
            open_flags(how),
            NEW_FILE_MODE,
        )?))
    }

    /// Opens a directory in this directory.
    ///
    /// # Errors
    /// Fails if the entry is a link or not a directory.
    pub fn open_subdirectory(&self, name: &OsStr) -> io::Result<DirectoryHandle> {
        let opened = openat(&self.0, name, DIRECTORY_OPEN_FLAGS, Mode::empty())?;
        Ok(DirectoryHandle(opened))
    }

    /// Returns the names of the entries, unsorted.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        // A new description, because reading moves its position.
        let mut directory = Dir::openat(&self.0, ".", DIRECTORY_OPEN_FLAGS, Mode::empty())?;
        let mut names = Vec::new();
        for entry in directory.iter() {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns the metadata of an entry; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the entry cannot be examined.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<EntryMetadata>> {
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(EntryMetadata {
                kind: kind(&stat),
                permissions: permissions(&stat),
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified: modified_time(&stat),
                links: link_count(&stat),
            })),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a file, and replaces an existing entry.
    ///
    /// # Errors
    /// Fails if the file cannot be renamed.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Creates a hard link with a new name.
    ///
    /// # Errors
    /// Fails if the new name exists.
    pub fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    /// Creates a symbolic link to `target`.
    ///
    /// # Errors
    /// Fails if the name exists.
    pub fn make_symlink(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Returns the target of a symbolic link, as it is stored.
    ///
    /// # Errors
    /// Fails if the entry is not a symbolic link.
    pub fn symlink_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        Ok(readlinkat(&self.0, name)?.into())
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// Fails if the entry cannot be removed.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails if the entry is a link, a file, or a directory with entries.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::RemoveDir)?)
    }
}

/// Opens the components of `path` one by one, starting at `base`, which is a resolved path.
fn walk(
    base: &Path,
    path: &Path,
    step: impl Fn(&OwnedFd, &OsStr) -> io::Result<OwnedFd>,
) -> io::Result<DirectoryHandle> {
    let below = path.strip_prefix(base).map_err(io::Error::other)?;
    let mut folder = OwnedFd::from(open_without_links(base, FileOpenMode::Read)?);
    for part in below.components() {
        folder = step(&folder, part.as_os_str())?;
    }
    Ok(DirectoryHandle(folder))
}

/// Returns the number of hard links.
#[allow(
    clippy::useless_conversion,
    reason = "the type of the field differs between systems"
)]
fn link_count(stat: &FileStat) -> u64 {
    stat.st_nlink.into()
}

/// Returns the type of a directory entry. Links are not followed.
fn kind(stat: &FileStat) -> DirectoryEntryKind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => DirectoryEntryKind::File,
        SFlag::S_IFDIR => DirectoryEntryKind::Folder,
        SFlag::S_IFLNK => DirectoryEntryKind::Link,
        _ => DirectoryEntryKind::Other,
    }
}

/// Returns the permission bits of a file.
fn permissions(stat: &FileStat) -> Permissions {
    // The width of a mode differs between systems.
    #[allow(clippy::useless_conversion)]
    Permissions::from_mode(u32::from(stat.st_mode & 0o7777))
}

/// Returns the time of the last change. The types of the fields differ between systems.
#[allow(clippy::useless_conversion)]
fn modified_time(stat: &FileStat) -> SystemTime {
    let seconds = Duration::from_secs(i64::from(stat.st_mtime).unsigned_abs());
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    if stat.st_mtime < 0 {
        SystemTime::UNIX_EPOCH - seconds
    } else {
        SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(u64::from(nanos))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_open_directory_stays_the_same_after_its_path_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(base.join("a")).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(base.join("a/old"), "old").unwrap();
        fs::write(out.join("old"), "theirs").unwrap();
        let folder = DirectoryHandle::open_parent(&base, &base.join("a/old")).unwrap();
        fs::rename(base.join("a"), base.join("aside")).unwrap();
        symlink(&out, base.join("a")).unwrap();

        folder
            .write_atomically("new".as_ref(), b"new", None)
            .unwrap();
        folder
            .write_atomically("old".as_ref(), b"newer", None)
            .unwrap();
        folder.put_new("made".as_ref(), b"made").unwrap();
        folder
            .open_file("old".as_ref(), FileOpenMode::Append)
            .unwrap()
            .write_all(b"!")
            .unwrap();
        folder.make_folder("below".as_ref()).unwrap();
        folder.remove_file("new".as_ref()).unwrap();

        assert_eq!(names(&base.join("aside")), ["below", "made", "old"]);
        assert_eq!(
            fs::read_to_string(base.join("aside/old")).unwrap(),
            "newer!"
        );
        assert_eq!(
            (names(&out), fs::read_to_string(out.join("old")).unwrap()),
            (vec!["old".to_owned()], "theirs".to_owned())
        );
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(&base).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("file"), "theirs").unwrap();
        symlink(&out, base.join("leave")).unwrap();
        symlink(out.join("file"), base.join("link")).unwrap();

        assert!(DirectoryHandle::open(&base, &base.join("leave")).is_err());
        assert!(DirectoryHandle::make(&base, &base.join("leave/new")).is_err());
        assert!(DirectoryHandle::open(&base, &out).is_err());
        let folder = DirectoryHandle::open(&base, &base).unwrap();
        assert!(
            folder
                .open_file("link".as_ref(), FileOpenMode::Read)
                .is_err()
        );
        assert!(
            folder
                .open_file("link".as_ref(), FileOpenMode::Append)
                .is_err()
        );
        assert!(folder.put_new("link".as_ref(), b"mine").is_err());
        // A link itself is replaced and removed.
        folder
            .write_atomically("link".as_ref(), b"mine", None)
            .unwrap();
        assert_eq!(fs::read_to_string(base.join("link")).unwrap(), "mine");
        folder.remove_file("leave".as_ref()).unwrap();
        assert_eq!(
            (names(&base), names(&out)),
            (vec!["link".to_owned()], vec!["file".to_owned()])
        );
        assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "theirs");
    }
}
