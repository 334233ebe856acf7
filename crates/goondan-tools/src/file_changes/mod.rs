//! Changes of files: one writer at a time, atomic replacement, and a guard against stale writes.

mod locks;
mod versions;

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::string::FromUtf8Error;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;

use crate::encoding::{FileEncoding, detect_encoding, not_text_error};
use crate::errors;
use crate::paths::{FileRoot, ResolvedPath};
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle, FileOpenMode};

pub(crate) use locks::FileChangeLock;
pub(crate) use versions::{MAX_GUARDED_FILE_BYTES, StaleWriteGuard, StaleWritePolicy};

/// Maximum number of attempts to change a file that another program changes at the same time.
const MAX_CHANGE_ATTEMPTS: usize = 5;

/// A completed change of a text file.
pub(crate) struct TextChange<T> {
    pub(crate) before: String,
    pub(crate) after: String,
    /// Further result of the change function.
    pub(crate) detail: T,
    /// Warning of the stale-write guard.
    pub(crate) warning: Option<String>,
}

/// Changes a text file by `change`, which gets the current text. If another program changes the file
/// in between, the change is applied to the new text.
///
/// # Errors
/// Fails if `change` fails, and with `E_TOOL_STALE` if the file changes at each attempt, or if
/// `guard` refuses the change.
pub(crate) fn change_text<T>(
    root: &FileRoot,
    guard: &StaleWriteGuard,
    resolved: &ResolvedPath,
    mut change: impl FnMut(&str) -> Result<(String, T), HandlerError>,
) -> Result<TextChange<T>, HandlerError> {
    // The guard warns only once, so a warning must survive a repeated attempt.
    let mut warning = None;
    let changed = retry_while_stale(std::slice::from_ref(resolved), || {
        let before = read_text(root, resolved)?;
        warning = guard.check(resolved, &before)?.or(warning.take());
        let (after, detail) = change(&before)?;
        let is_written = replace_if_current(root, resolved, &before, after.as_bytes())?;
        Ok(is_written.then_some((before, after, detail)))
    })?;
    let (before, after, detail) = changed;
    guard.note_written(&resolved.path, &after);
    Ok(TextChange {
        before,
        after,
        detail,
        warning,
    })
}

/// Repeats `attempt` while it returns `None`, because another program changed a file in between.
///
/// # Errors
/// Fails if `attempt` fails, and with `E_TOOL_STALE` if no attempt succeeds. The error names the
/// first of `paths`.
pub(crate) fn retry_while_stale<T>(
    paths: &[ResolvedPath],
    mut attempt: impl FnMut() -> Result<Option<T>, HandlerError>,
) -> Result<T, HandlerError> {
    for _ in 0..MAX_CHANGE_ATTEMPTS {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(changed_by_another_program(&paths[0]))
}

/// Creates the error for a file that another program changes all the time.
fn changed_by_another_program(resolved: &ResolvedPath) -> HandlerError {
    versions::stale_error(format!(
        "another program changed `{}` during the call; nothing was changed",
        resolved.given
    ))
    .suggest("read the file again and repeat the call")
}

/// Replaces the contents of a file, or creates it. Readers see the old or the new contents. The
/// mode of an existing file is kept. The directory must exist.
///
/// A file with several hard links is written in place, so that all names keep the same contents.
pub(crate) fn replace(
    root: &FileRoot,
    resolved: &ResolvedPath,
    content: &[u8],
) -> Result<(), HandlerError> {
    replace_when(root, resolved, content, |_, _| Ok(true)).map(drop)
}

/// Replaces the contents of a file that still has the contents `before`. Returns false if it has
/// others.
pub(crate) fn replace_if_current(
    root: &FileRoot,
    resolved: &ResolvedPath,
    before: &str,
    content: &[u8],
) -> Result<bool, HandlerError> {
    replace_when(root, resolved, content, |folder, name| {
        has_content(folder, name, before)
    })
}

/// Returns true if a file has exactly this content.
fn has_content(folder: &DirectoryHandle, name: &OsStr, content: &str) -> io::Result<bool> {
    let mut current = Vec::new();
    folder
        .open_file(name, FileOpenMode::Read)?
        .take(content.len() as u64 + 1)
        .read_to_end(&mut current)?;
    Ok(current == content.as_bytes())
}

/// Replaces the contents of a file like [`replace`] if `is_current` returns true just before.
fn replace_when(
    root: &FileRoot,
    resolved: &ResolvedPath,
    content: &[u8],
    is_current: impl Fn(&DirectoryHandle, &OsStr) -> io::Result<bool>,
) -> Result<bool, HandlerError> {
    let action = format!("write `{}`", resolved.given);
    let written = root.in_folder(resolved, &action, |folder, name| {
        let check = || is_current(folder, name);
        match folder.look(name)? {
            Some(entry) if entry.kind != DirectoryEntryKind::File => Ok(Err(entry.kind)),
            Some(entry) if entry.links > 1 => {
                let is_current = check()?;
                if is_current {
                    folder.overwrite(name, content)?;
                }
                Ok(Ok(is_current))
            }
            entry => {
                let mode = entry.map(|entry| entry.permissions);
                folder
                    .write_atomically_if(name, content, mode, check)
                    .map(Ok)
            }
        }
    })?;
    let kind = match written {
        Ok(is_written) => return Ok(is_written),
        Err(DirectoryEntryKind::Folder) => "it is a directory",
        Err(_) => "it is not a regular file",
    };
    Err(HandlerError::new(format!("cannot {action}: {kind}")).code(Code::TOOL_WRONG_FILE_TYPE))
}

/// Creates a file; returns false if the name exists. The directory must exist.
pub(crate) fn create(
    root: &FileRoot,
    resolved: &ResolvedPath,
    content: &[u8],
) -> Result<bool, HandlerError> {
    let action = format!("write `{}`", resolved.given);
    root.in_folder(resolved, &action, |folder, name| {
        match folder.put_new(name, content) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    })
}

/// Removes a file.
pub(crate) fn remove(root: &FileRoot, resolved: &ResolvedPath) -> Result<(), HandlerError> {
    root.in_folder(
        resolved,
        &format!("delete `{}`", resolved.given),
        DirectoryHandle::remove_file,
    )
}

/// Removes a file that still has the contents `before`. Returns false if it has others.
pub(crate) fn remove_if_current(
    root: &FileRoot,
    resolved: &ResolvedPath,
    before: &str,
) -> Result<bool, HandlerError> {
    let action = format!("delete `{}`", resolved.given);
    root.in_folder(resolved, &action, |folder, name| {
        let is_current = has_content(folder, name, before)?;
        if is_current {
            folder.remove_file(name)?;
        }
        Ok(is_current)
    })
}

/// Removes a symbolic link that still leads to `target`. Returns false if it does not.
pub(crate) fn remove_symlink(
    root: &FileRoot,
    resolved: &ResolvedPath,
    target: &Path,
) -> Result<bool, HandlerError> {
    let action = format!("delete `{}`", resolved.given);
    root.in_folder_of_name(resolved, &action, |folder, name| {
        let is_current = folder.symlink_target(name)? == target;
        if is_current {
            folder.remove_file(name)?;
        }
        Ok(is_current)
    })
}

/// Creates a symbolic link. Fails if the name exists.
pub(crate) fn create_symlink(
    root: &FileRoot,
    resolved: &ResolvedPath,
    target: &Path,
) -> Result<(), HandlerError> {
    let action = format!("write `{}`", resolved.given);
    root.in_folder_of_name(resolved, &action, |folder, name| {
        folder.make_symlink(target, name)
    })
}

/// Copies the mode of a file to another.
pub(crate) fn copy_mode(
    root: &FileRoot,
    from: &ResolvedPath,
    to: &ResolvedPath,
) -> Result<(), HandlerError> {
    let (_, metadata) = root.open(from)?;
    set_mode(root, to, |_| metadata.permissions())
}

/// Replaces the permissions of a file by those that `mode` returns for them.
fn set_mode(
    root: &FileRoot,
    resolved: &ResolvedPath,
    mode: impl FnOnce(Permissions) -> Permissions,
) -> Result<(), HandlerError> {
    let (file, metadata) = root.open(resolved)?;
    file.set_permissions(mode(metadata.permissions()))
        .map_err(|error| errors::io_error(format_args!("write `{}`", resolved.given), &error))
}

/// Maximum size in bytes of a file that is read as a whole, to change or to search it.
const MAX_TEXT_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a complete text file that is to be changed.
pub(crate) fn read_text(root: &FileRoot, resolved: &ResolvedPath) -> Result<String, HandlerError> {
    let (file, _) = root.open(resolved)?;
    decode_text_file(file, resolved)
}

/// Reads a complete text file that no argument of the call names.
pub(crate) fn read_unnamed_text(
    root: &FileRoot,
    resolved: &ResolvedPath,
) -> Result<String, HandlerError> {
    decode_text_file(root.open_unnamed(resolved)?, resolved)
}

fn decode_text_file(file: File, resolved: &ResolvedPath) -> Result<String, HandlerError> {
    let bytes = read_bytes(file, &resolved.given)?;
    text_of(bytes).map_err(|bytes| not_text_error(&resolved.given, &bytes))
}

/// Reads a complete file. `path` is its path for messages.
///
/// # Errors
/// Fails with `E_TOOL_TOO_LARGE` if the file has more than [`MAX_TEXT_FILE_BYTES`].
pub(crate) fn read_bytes(mut file: File, path: &str) -> Result<Vec<u8>, HandlerError> {
    let failed = |error| errors::io_error(format_args!("read `{path}`"), &error);
    let size = file.metadata().map_err(failed)?.len();
    if size > MAX_TEXT_FILE_BYTES {
        let message =
            format!("`{path}` has {size} bytes; the limit is {MAX_TEXT_FILE_BYTES} bytes");
        return Err(HandlerError::new(message).code(Code::TOOL_TOO_LARGE));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
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
pub(crate) fn make_executable(
    root: &FileRoot,
    resolved: &ResolvedPath,
) -> Result<(), HandlerError> {
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
