//! Access to files and directories below a root, without following links.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use goondan_core::nofollow_fs::{
    DirectoryEntryKind, DirectoryHandle, EntryMetadata, FileOpenMode, metadata_beneath,
    open_beneath, open_regular_file,
};
use goondan_core::ports::tool::HandlerError;
use goondan_core::real_path::real_path;
use goondan_spec::Code;
use goondan_spec::secret_files::is_declared;

use super::{FileRoot, ResolvedPath};
use crate::errors;

impl FileRoot {
    /// Opens a regular file for reading, and returns its metadata.
    pub(crate) fn open(&self, resolved: &ResolvedPath) -> Result<(File, Metadata), HandlerError> {
        let action = format!("read `{}`", resolved.given);
        let kind = std::fs::symlink_metadata(&resolved.path)
            .map_err(|error| errors::io_error(&action, &error))?;
        expect_file(&kind, &action)?;
        let file = self.open_with(resolved, &action, FileOpenMode::Read)?;
        let metadata = file
            .metadata()
            .map_err(|error| errors::io_error(&action, &error))?;
        expect_file(&metadata, &action)?;
        Ok((file, metadata))
    }

    /// Opens a regular file that a walk below a resolved path has found. No argument of the call names
    /// the file, so no rule has decided about it.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, if another name of it is that of a file with keys, or if
    /// it is a declared one.
    pub(crate) fn open_found(&self, path: &Path) -> io::Result<File> {
        let file = open_regular_file(self.base_of(path), path)?;
        if is_declared(path) || self.secrets.contains_link(&file.metadata()?) {
            Err(secret_file_error())
        } else {
            Ok(file)
        }
    }

    /// Opens a resolved file that no argument of the call names, so no rule has decided about it.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or if it or another name of it is a file with keys.
    pub(crate) fn open_unnamed(&self, resolved: &ResolvedPath) -> Result<File, HandlerError> {
        let (file, metadata) = self.open(resolved)?;
        if self.secrets.contains(&resolved.path, &metadata) {
            Err(errors::io_error(
                format_args!("read `{}`", resolved.given),
                &secret_file_error(),
            ))
        } else {
            Ok(file)
        }
    }

    /// Opens the regular file of a resolved path, which an argument of the call names.
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<File> {
        open_regular_file(self.base_of(path), path)
    }

    /// Returns the metadata of a regular file that a walk has found. Returns `None` if a link was
    /// inserted during the walk, so that it found a file outside.
    pub(crate) fn look_at_found(&self, path: &Path) -> Option<EntryMetadata> {
        metadata_beneath(self.base_of(path), path)
            .ok()
            .flatten()
            .filter(|metadata| metadata.kind == DirectoryEntryKind::File)
    }

    pub(crate) fn open_directory(&self, resolved: &ResolvedPath) -> io::Result<DirectoryHandle> {
        DirectoryHandle::open(self.base_of(&resolved.path), &resolved.path)
    }

    /// Opens a file for appending, and creates it if necessary.
    pub(crate) fn open_to_append(&self, resolved: &ResolvedPath) -> Result<File, HandlerError> {
        self.open_to_change(
            resolved,
            &format!("append to `{}`", resolved.given),
            FileOpenMode::Append,
        )
    }

    /// Opens a file for writing, and truncates or creates it.
    pub(crate) fn open_to_write(&self, resolved: &ResolvedPath) -> Result<File, HandlerError> {
        let action = format!("write `{}`", resolved.given);
        let file = self.open_to_change(resolved, &action, FileOpenMode::Write)?;
        let emptied = file.metadata().map(|metadata| {
            expect_file(&metadata, &action).and_then(|()| {
                file.set_len(0)
                    .map_err(|error| errors::io_error(&action, &error))
            })
        });
        emptied.map_err(|error| errors::io_error(&action, &error))??;
        Ok(file)
    }

    /// Opens a file for a change. Fails if the path is not a regular file. `what` is the operation,
    /// for messages.
    fn open_to_change(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        how: FileOpenMode,
    ) -> Result<File, HandlerError> {
        if let Ok(metadata) = std::fs::symlink_metadata(&resolved.path) {
            expect_file(&metadata, what)?;
        }
        self.open_with(resolved, what, how)
    }

    /// Creates the parent directories of `resolved`. Succeeds if they exist.
    pub(crate) fn create_parents(&self, resolved: &ResolvedPath) -> Result<(), HandlerError> {
        let parent = resolved
            .path
            .parent()
            .filter(|_| !self.is_base(resolved))
            .unwrap_or(&resolved.path);
        self.create_folder_path(resolved, parent)
    }

    /// Creates the directory `resolved` and its parents. Succeeds if it exists.
    pub(crate) fn create_folders(&self, resolved: &ResolvedPath) -> Result<(), HandlerError> {
        self.create_folder_path(resolved, &resolved.path)
    }

    /// Creates the directory `path` and its parents. `resolved` is the path in messages.
    fn create_folder_path(&self, resolved: &ResolvedPath, path: &Path) -> Result<(), HandlerError> {
        self.check_again(resolved)?;
        let created = DirectoryHandle::make(self.base_of(path), path);
        self.explain_failure(
            resolved,
            format_args!("create the parent directories of `{}`", resolved.given),
            created,
        )
        .map(drop)
    }

    /// Runs `work` with the open parent directory of `resolved` and the file name. `what` is the
    /// operation for messages, such as "write `a.txt`".
    pub(crate) fn in_folder<T>(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> Result<T, HandlerError> {
        self.check_again(resolved)?;
        let done = self.with_parent(resolved, work);
        self.explain_failure(resolved, what, done)
    }

    /// Works like [`FileRoot::in_folder`], but does not follow a link in the last component. The
    /// path comes from [`FileRoot::resolve_name`].
    pub(crate) fn in_folder_of_name<T>(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> Result<T, HandlerError> {
        self.with_parent(resolved, work)
            .map_err(|error| errors::io_error(what, &error))
    }

    /// Opens the parent directory of `resolved` without following links, and runs `work` with it.
    fn with_parent<T>(
        &self,
        resolved: &ResolvedPath,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> io::Result<T> {
        let name = resolved
            .path
            .file_name()
            .filter(|_| !self.is_base(resolved));
        let name = name.ok_or(io::ErrorKind::IsADirectory)?;
        let folder = DirectoryHandle::open_parent(self.base_of(&resolved.path), &resolved.path)?;
        work(&folder, name)
    }

    /// If a path now leads elsewhere, reports that as the cause of a failure.
    fn explain_failure<T>(
        &self,
        resolved: &ResolvedPath,
        what: impl std::fmt::Display,
        done: io::Result<T>,
    ) -> Result<T, HandlerError> {
        done.map_err(|error| {
            self.check_again(resolved)
                .err()
                .unwrap_or_else(|| errors::io_error(what, &error))
        })
    }

    /// Returns true if `resolved` is a root itself.
    fn is_base(&self, resolved: &ResolvedPath) -> bool {
        self.base_of(&resolved.path) == resolved.path
    }

    /// Fails if `resolved` now leads elsewhere.
    pub(crate) fn check_again(&self, resolved: &ResolvedPath) -> Result<(), HandlerError> {
        match real_path(&resolved.path) {
            Ok(path) if path == resolved.path => Ok(()),
            _ => Err(self.escape_error(&resolved.given)),
        }
    }

    /// Opens the resolved path without following a link in its last component, and without waiting
    /// for the other end of a pipe.
    fn open_with(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        options: FileOpenMode,
    ) -> Result<File, HandlerError> {
        let opened = open_beneath(self.base_of(&resolved.path), &resolved.path, options);
        // If the path now leads elsewhere, that is the cause of a failure.
        self.check_again(resolved)?;
        opened.map_err(|error| errors::io_error(what, &error))
    }
}

/// Returns the error for a file that can contain keys.
fn secret_file_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it may contain keys of the project",
    )
}

/// Fails for anything but a regular file, with its actual type.
fn expect_file(metadata: &Metadata, what: &str) -> Result<(), HandlerError> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() {
        "it is a directory"
    } else {
        "it is not a regular file"
    };
    Err(HandlerError::new(format!("cannot {what}: {kind}")).code(Code::TOOL_WRONG_FILE_TYPE))
}
