//! Error type of package operations, with code and suggestion.

use std::fmt;
use std::io;
use std::path::Path;

use goondan_spec::{Code, untrusted_text};

pub type Result<T, E = PackageError> = std::result::Result<T, E>;

/// An error with a code, a complete sentence, and a suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageError {
    pub code: Code,
    /// The message. It contains no control characters.
    pub message: String,
    /// The command or change that fixes the error.
    pub suggestion: Option<String>,
}

impl PackageError {
    pub(crate) fn new(code: Code, message: impl AsRef<str>) -> Self {
        PackageError {
            code,
            message: escape_line(message.as_ref()),
            suggestion: None,
        }
    }

    /// Creates an error of a package source, such as a registry.
    pub(crate) fn source(message: impl AsRef<str>) -> Self {
        PackageError::new(Code::PACKAGE_SOURCE, message)
    }

    /// Creates an error for an invalid archive.
    pub(crate) fn archive(message: impl AsRef<str>) -> Self {
        PackageError::new(Code::PACKAGE_ARCHIVE, message)
    }

    /// Creates the error for a file that cannot be read or written; `what` is a participle such as
    /// "written".
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        PackageError::new(
            Code::CONFIG_ERROR,
            format!("{} cannot be {what}: {error}.", path.display()),
        )
    }

    /// Adds a suggestion; control characters are removed.
    #[must_use]
    pub(crate) fn suggest(mut self, suggestion: impl AsRef<str>) -> Self {
        self.suggestion = Some(escape_line(suggestion.as_ref()));
        self
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PackageError {}

/// Escapes untrusted text and makes it one line.
pub(crate) fn escape_line(text: &str) -> String {
    untrusted_text::line(text.replace(['\n', '\r', '\t'], " ")).to_string()
}
