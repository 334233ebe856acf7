//! Copies directories of a workspace. New files are private.

use std::fs;
use std::io;
use std::path::Path;

use goondan_core::private_files;

/// Copies a directory with its contents, as far as `takes` accepts their paths. Entries that
/// disappear during the copy are left out.
pub(super) fn copy_directory(
    from: &Path,
    to: &Path,
    takes: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    private_files::create_directory(to)?;
    let Some(entries) = unless_gone(fs::read_dir(from))? else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| takes(&path)) else {
            continue;
        };
        let target = to.join(name);
        let Some(metadata) = unless_gone(path.symlink_metadata())? else {
            continue;
        };
        if metadata.is_dir() {
            copy_directory(&path, &target, takes)?;
        } else if metadata.is_symlink() {
            unless_gone(copy_link(&path, &target))?;
        } else if metadata.is_file() {
            copy_file(&path, &target)?;
        }
    }
    Ok(())
}

/// Copies a file with its permissions. Returns false if the file is gone.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<bool> {
    if let Some(folder) = to.parent() {
        private_files::create_directory(folder)?;
    }
    Ok(unless_gone(fs::copy(from, to))?.is_some())
}

#[cfg(unix)]
fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(from)?, to)
}

/// Creates the same link. Windows permits links only to administrators and in developer mode. For
/// other users, the target of a link to a file is copied, and a link to a directory is left out.
#[cfg(windows)]
fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::windows::fs::{FileTypeExt as _, symlink_dir, symlink_file};
    let target = fs::read_link(from)?;
    if !from.symlink_metadata()?.file_type().is_symlink_dir() {
        return symlink_file(target, to).or_else(|_| fs::copy(from, to).map(drop));
    }
    if let Err(error) = symlink_dir(target, to) {
        tracing::warn!(path = %from.display(), %error, "left out a link to a directory");
    }
    Ok(())
}

/// Returns `None` if the file or directory does not exist.
pub(super) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_directory_is_copied_as_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("real")).unwrap();
        fs::write(from.join("real/text"), "text").unwrap();
        #[cfg(unix)]
        let linked = std::os::unix::fs::symlink("real", from.join("link"));
        #[cfg(windows)]
        let linked = std::os::windows::fs::symlink_dir("real", from.join("link"));
        copy_directory(&from, &to, &|_| true).unwrap();
        assert_eq!(fs::read_to_string(to.join("real/text")).unwrap(), "text");
        // Windows can refuse links.
        assert_eq!(to.join("link").is_symlink(), linked.is_ok());
    }
}
