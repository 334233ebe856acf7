//! Folders by open handles: one that is swapped for a link afterwards changes nothing.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use super::{How, Kind};

/// No link in the last part, no waiting for the other end of a pipe.
const COMMON: OFlag = OFlag::O_NOFOLLOW
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);
/// A folder rather than anything else.
const FOLDER: OFlag = COMMON.union(OFlag::O_DIRECTORY);

/// The mode of a new file, before the umask.
const MODE: Mode = Mode::from_bits_truncate(0o666);

fn flags(how: How) -> OFlag {
    COMMON
        | match how {
            How::Read => OFlag::O_RDONLY,
            How::Append => OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT,
            How::Write => OFlag::O_WRONLY | OFlag::O_CREAT,
            How::Create => OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL,
        }
}

/// Opens an absolute path wherever it lies, and follows no link: in its last part on any system, on Linux nowhere. A terminal
/// does not become that of this program.
pub(crate) fn open_without_links(path: &Path, how: How) -> io::Result<File> {
    let flags = flags(how) | OFlag::O_NOCTTY;
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{AT_FDCWD, OpenHow, ResolveFlag, openat2};
        // The mode belongs to files that may be made; with any other it is an error.
        let mode = if flags.contains(OFlag::O_CREAT) {
            MODE
        } else {
            Mode::empty()
        };
        let exactly = OpenHow::new()
            .flags(flags)
            .mode(mode)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        match openat2(AT_FDCWD, path, exactly) {
            // The kernel is older, or a container hides the call.
            Err(Errno::ENOSYS | Errno::EPERM) => {}
            opened => return Ok(File::from(opened?)),
        }
    }
    Ok(File::from(nix::fcntl::open(path, flags, MODE)?))
}

/// A folder that was opened. It stays the same whatever becomes of its path.
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// The folder `path`, which lies below `base` or is it.
    pub(crate) fn open(base: &Path, path: &Path) -> io::Result<Folder> {
        walk(base, path, |folder, part| {
            Ok(openat(folder, part, FOLDER, Mode::empty())?)
        })
    }

    /// The same, made where it does not exist, with the folders above it.
    pub(crate) fn make(base: &Path, path: &Path) -> io::Result<Folder> {
        walk(base, path, |folder, part| {
            match openat(folder, part, FOLDER, Mode::empty()) {
                Err(Errno::ENOENT) => {
                    match mkdirat(folder, part, Mode::from_bits_truncate(0o777)) {
                        // Somebody else was faster.
                        Ok(()) | Err(Errno::EEXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    Ok(openat(folder, part, FOLDER, Mode::empty())?)
                }
                opened => Ok(opened?),
            }
        })
    }

    /// Makes the folder `name` in it.
    pub(crate) fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_bits_truncate(0o777))?)
    }

    /// Opens the file `name` in it.
    pub(crate) fn open_file(&self, name: &OsStr, how: How) -> io::Result<File> {
        Ok(File::from(openat(&self.0, name, flags(how), MODE)?))
    }

    /// What is under a name, and its mode; nothing where there is nothing.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Option<(Kind, Permissions)>> {
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((kind(&stat), permissions(&stat)))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file another name, in the place of what has it.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Gives a file a second name, which must be free.
    pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    /// Removes a file, or a link as such.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }
}

/// Goes from `base` along the parts of `path`.
fn walk(
    base: &Path,
    path: &Path,
    step: impl Fn(&OwnedFd, &OsStr) -> io::Result<OwnedFd>,
) -> io::Result<Folder> {
    let below = path.strip_prefix(base).map_err(io::Error::other)?;
    let mut folder = OwnedFd::from(File::open(base)?);
    for part in below.components() {
        folder = step(&folder, part.as_os_str())?;
    }
    Ok(Folder(folder))
}

fn kind(stat: &FileStat) -> Kind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Folder,
        _ => Kind::Other,
    }
}

fn permissions(stat: &FileStat) -> Permissions {
    // The width of a mode differs between systems.
    #[allow(clippy::useless_conversion)]
    Permissions::from_mode(u32::from(stat.st_mode & 0o7777))
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
    fn a_folder_that_was_opened_stays_the_same_when_its_path_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(base.join("a")).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(base.join("a/old"), "old").unwrap();
        fs::write(out.join("old"), "theirs").unwrap();
        let folder = Folder::above(&base, &base.join("a/old")).unwrap();
        fs::rename(base.join("a"), base.join("aside")).unwrap();
        symlink(&out, base.join("a")).unwrap();

        folder.put("new".as_ref(), b"new", None).unwrap();
        folder.put("old".as_ref(), b"newer", None).unwrap();
        folder.put_new("made".as_ref(), b"made").unwrap();
        folder
            .open_file("old".as_ref(), How::Append)
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
    fn links_are_not_gone_along() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(&base).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("file"), "theirs").unwrap();
        symlink(&out, base.join("leave")).unwrap();
        symlink(out.join("file"), base.join("link")).unwrap();

        assert!(Folder::open(&base, &base.join("leave")).is_err());
        assert!(Folder::make(&base, &base.join("leave/new")).is_err());
        assert!(Folder::open(&base, &out).is_err());
        let folder = Folder::open(&base, &base).unwrap();
        assert!(folder.open_file("link".as_ref(), How::Read).is_err());
        assert!(folder.open_file("link".as_ref(), How::Append).is_err());
        assert!(folder.put_new("link".as_ref(), b"mine").is_err());
        // A link is replaced and removed as such.
        folder.put("link".as_ref(), b"mine", None).unwrap();
        assert_eq!(fs::read_to_string(base.join("link")).unwrap(), "mine");
        folder.remove_file("leave".as_ref()).unwrap();
        assert_eq!(
            (names(&base), names(&out)),
            (vec!["link".to_owned()], vec!["file".to_owned()])
        );
        assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "theirs");
    }
}
