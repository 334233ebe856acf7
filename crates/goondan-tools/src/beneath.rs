//! Opens files below a folder without following links, so that nobody can slip one in between a check and its use.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// To read it.
    Read,
    /// To add to it; it is made where it does not exist.
    Append,
}

/// Opens a resolved path part by part from `base` on, each from the folder that was opened before it, and follows no link:
/// whoever slips one in meanwhile only makes this fail.
#[cfg(unix)]
pub(crate) fn open_beneath(base: &Path, path: &Path, how: How) -> io::Result<File> {
    use std::path::Component;

    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::Mode;
    let below = path.strip_prefix(base).map_err(io::Error::other)?;
    let mut parts: Vec<Component<'_>> = below.components().collect();
    let flags = match how {
        How::Read => OFlag::O_RDONLY,
        How::Append => OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT,
    };
    let common = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let Some(last) = parts.pop() else { return OpenOptions::new().read(true).open(path) };
    let mut folder = std::os::fd::OwnedFd::from(File::open(base)?);
    for part in parts {
        folder = openat(&folder, part.as_os_str(), common | OFlag::O_DIRECTORY, Mode::empty())?;
    }
    Ok(File::from(openat(&folder, last.as_os_str(), common | flags, Mode::from_bits_truncate(0o666))?))
}

#[cfg(not(unix))]
pub(crate) fn open_beneath(_base: &Path, path: &Path, how: How) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match how {
        How::Read => options.read(true),
        How::Append => options.append(true).create(true),
    };
    options.open(path)
}
