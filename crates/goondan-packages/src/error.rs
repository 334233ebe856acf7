//! Why something about packages failed.

use std::fmt;
use std::io;
use std::path::Path;

use goondan_spec::{Code, shown};

/// What comes back from most functions here.
pub type Result<T, E = PackageError> = std::result::Result<T, E>;

/// A failure with its code, a sentence that stands alone, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageError {
    /// One of the table.
    pub code: Code,
    /// What is wrong. It holds nothing that could change how a terminal looks.
    pub message: String,
    /// What to type next.
    pub suggestion: Option<String>,
}

impl PackageError {
    pub(crate) fn new(code: Code, message: impl AsRef<str>) -> Self {
        PackageError {
            code,
            message: plain(message.as_ref()),
            suggestion: None,
        }
    }

    pub(crate) fn source(message: impl AsRef<str>) -> Self {
        PackageError::new(Code::PACKAGE_SOURCE, message)
    }

    pub(crate) fn archive(message: impl AsRef<str>) -> Self {
        PackageError::new(Code::PACKAGE_ARCHIVE, message)
    }

    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        PackageError::new(
            Code::CONFIG_ERROR,
            format!("{} cannot be {what}: {error}.", path.display()),
        )
    }

    #[must_use]
    pub(crate) fn suggest(mut self, suggestion: impl AsRef<str>) -> Self {
        self.suggestion = Some(plain(suggestion.as_ref()));
        self
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PackageError {}

/// What strangers wrote is shown in one line, whatever is in it.
pub(crate) fn plain(text: &str) -> String {
    shown::line(text.replace(['\n', '\r', '\t'], " ")).to_string()
}
