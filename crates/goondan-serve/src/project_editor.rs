//! Interface for editing files of the project.

use std::fmt;

use futures::future::BoxFuture;
use goondan::spec::Diagnostic;

use crate::wire::{
    CheckedFileBody, EditedFileBody, ProjectFilesBody, ProjectTextBody, SavedFileBody,
};

/// Reads, checks and saves the text files that the project loads. The calling program implements
/// it; this crate does not access the project directory.
pub trait ProjectEditor: fmt::Debug + Send + Sync {
    /// Returns the files that can be edited, sorted by path.
    fn list(&self) -> BoxFuture<'_, Result<ProjectFilesBody, Diagnostic>>;

    /// Returns the content of a file.
    fn read(&self, path: String) -> BoxFuture<'_, Result<ProjectTextBody, Diagnostic>>;

    /// Loads the project with the edited text in place of the file, without saving the text.
    fn check(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<CheckedFileBody, Diagnostic>>;

    /// Saves a file.
    ///
    /// # Errors
    /// Fails with `E_SERVE_FILE_CHANGED` if the file on disk does not have the hash of the edit.
    fn save(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<SavedFileBody, Diagnostic>>;
}
