//! Reads complete text files, replaces contents atomically, and creates and removes files.

use std::fs::Permissions;
use std::io::{ErrorKind, Read as _};
use std::string::FromUtf8Error;

use goondan_core::ports::tool::ToolError;
use goondan_spec::Code;

use crate::encoding::{FileEncoding, detect_encoding, not_text};
use crate::errors;
use crate::paths::{FileRoot, ResolvedPath};
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle};

/// Replaces the contents of a file, or creates it. Readers see the old or the new contents. The
/// mode of an existing file is kept. The directory must exist.
pub(crate) fn replace(
    root: &FileRoot,
    resolved: &ResolvedPath,
    content: &[u8],
) -> Result<(), ToolError> {
    let what = format!("write `{}`", resolved.given);
    let obstacle = root.in_folder(resolved, &what, |folder, name| match folder.look(name)? {
        Some(entry) if entry.kind == DirectoryEntryKind::File => folder
            .write_atomically(name, content, Some(entry.permissions))
            .map(|()| None),
        None => folder.write_atomically(name, content, None).map(|()| None),
        Some(entry) => Ok(Some(entry.kind)),
    })?;
    let kind = match obstacle {
        None => return Ok(()),
        Some(DirectoryEntryKind::Folder) => "it is a directory",
        Some(_) => "it is not a regular file",
    };
    Err(ToolError::new(format!("cannot {what}: {kind}")).code(Code::TOOL_WRONG_FILE_TYPE))
}

/// Creates a file; returns false if the name exists. The directory must exist.
pub(crate) fn create(
    root: &FileRoot,
    resolved: &ResolvedPath,
    content: &[u8],
) -> Result<bool, ToolError> {
    let what = format!("write `{}`", resolved.given);
    root.in_folder(resolved, &what, |folder, name| {
        match folder.put_new(name, content) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    })
}

/// Removes a file.
pub(crate) fn remove(root: &FileRoot, resolved: &ResolvedPath) -> Result<(), ToolError> {
    root.in_folder(
        resolved,
        &format!("delete `{}`", resolved.given),
        DirectoryHandle::remove_file,
    )
}

/// Copies the mode of a file to another.
pub(crate) fn copy_mode(
    root: &FileRoot,
    from: &ResolvedPath,
    to: &ResolvedPath,
) -> Result<(), ToolError> {
    let (_, metadata) = root.open(from)?;
    set_mode(root, to, |_| metadata.permissions())
}

/// Replaces the permissions of a file by those that `mode` returns for them.
fn set_mode(
    root: &FileRoot,
    resolved: &ResolvedPath,
    mode: impl FnOnce(Permissions) -> Permissions,
) -> Result<(), ToolError> {
    let (file, metadata) = root.open(resolved)?;
    file.set_permissions(mode(metadata.permissions()))
        .map_err(|error| errors::io(format_args!("write `{}`", resolved.given), &error))
}

/// Maximum size in bytes of a text file that can be changed.
const MAX_TEXT_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a complete text file that is to be changed.
pub(crate) fn read_text(root: &FileRoot, resolved: &ResolvedPath) -> Result<String, ToolError> {
    let (mut file, metadata) = root.open(resolved)?;
    if metadata.len() > MAX_TEXT_FILE_BYTES {
        let message = format!(
            "`{}` has {} bytes; the limit for edits is {MAX_TEXT_FILE_BYTES} bytes",
            resolved.given,
            metadata.len()
        );
        return Err(ToolError::new(message).code(Code::TOOL_TOO_LARGE));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| errors::io(format_args!("read `{}`", resolved.given), &error))?;
    text_of(bytes).map_err(|bytes| not_text(&resolved.given, &bytes))
}

/// Converts bytes to text. Returns the bytes if they are not text, or are in another encoding that
/// resembles UTF-8.
fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if let FileEncoding::Foreign(_) = detect_encoding(&bytes) {
        return Err(bytes);
    }
    String::from_utf8(bytes).map_err(FromUtf8Error::into_bytes)
}

/// Permits all users with read access to execute the file.
pub(crate) fn make_executable(root: &FileRoot, resolved: &ResolvedPath) -> Result<(), ToolError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        set_mode(root, resolved, |mode| {
            Permissions::from_mode(mode.mode() | (mode.mode() & 0o444) >> 2)
        })?;
    }
    #[cfg(not(unix))]
    let _ = (root, resolved);
    Ok(())
}

/// Returns the changes as a unified diff; empty if the texts are equal.
pub(crate) fn diff(path: &str, before: &str, after: &str) -> String {
    let hunks = crate::diff::unified(before, after, 3);
    if hunks.is_empty() {
        hunks
    } else {
        format!("--- {path}\n+++ {path}\n{hunks}")
    }
}
