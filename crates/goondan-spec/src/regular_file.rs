//! Files whose path a project, a package or an agent controls.
//!
//! Opening a pipe would block, and reading a device would never end. So a file is opened without
//! blocking, only regular files are read, and every reader states a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file, following links.
///
/// # Errors
///
/// Fails if the file cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file whose last path component is not a link.
///
/// # Errors
///
/// Fails if the file cannot be opened, or is a link or not a regular file.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    let is_link = path.symlink_metadata()?.file_type().is_symlink();
    if is_link {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link"))
    } else {
        open(path)
    }
}

#[cfg(unix)]
fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY;
    check_regular(options.custom_flags(flags.bits()).open(path)?)
}

#[cfg(not(unix))]
fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    check_regular(options.open(path)?)
}

/// Returns the file if it is a regular one.
fn check_regular(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() => Ok(file),
        () if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        () => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Reads at most `limit` bytes from the start of a regular file.
///
/// # Errors
///
/// Fails if the file cannot be read, or is not a regular file.
pub fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// Fails if the file cannot be read, is not a regular file, or is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, limit)
}

/// Reads an open file of at most `limit` bytes.
///
/// # Errors
///
/// Fails if the file cannot be read, or is larger.
pub fn read_all(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {limit} bytes"),
        ))
    } else {
        Ok(bytes)
    }
}

/// Reads a regular file of at most `limit` bytes of UTF-8 text.
///
/// # Errors
///
/// Fails if the file cannot be read, is not a regular file, is larger, or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        let mkfifo_status = Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(mkfifo_status.success());
        assert_eq!(read(&path("file"), 4).unwrap(), b"text");
        assert_eq!(read_start(&path("file"), 2).unwrap(), b"te");
        assert_eq!(read_text(&path("link"), 4).unwrap(), "text");
        assert!(read(&path("file"), 3).is_err());
        assert!(open_unlinked(&path("file")).is_ok() && open_unlinked(&path("link")).is_err());
        for name in ["pipe", "device", "missing", "."] {
            assert!(open(&path(name)).is_err(), "{name}");
        }
    }
}
