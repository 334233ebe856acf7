//! Error constructors that several built-in tools share.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::{Code, reason};

use crate::running_programs::ApprovedFileError;

/// Returns the error of a cancelled call.
pub(crate) fn cancelled_error() -> HandlerError {
    HandlerError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

pub(crate) fn invalid_argument(message: impl Into<String>) -> HandlerError {
    HandlerError::new(message).code(Code::TOOL_INVALID_ARGS)
}

/// Creates the error for a call that did not start because of approved files: its own ones, or those of
/// another call.
pub(crate) fn approved_file(error: &ApprovedFileError) -> HandlerError {
    HandlerError::new(format!("the call was not run: {error}"))
        .code(Code::TOOL_DENIED)
        .suggest(error.suggestion())
}

/// Returns a path as text, with replacement characters if it is not UTF-8. Use it in `json!`, which
/// panics for a path that is not UTF-8.
pub(crate) fn lossy_path(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

/// Converts an I/O error. `what` is the attempted operation, such as "read `a.txt`".
pub(crate) fn io_error(what: impl std::fmt::Display, error: &io::Error) -> HandlerError {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::TOOL_FILE_NOT_FOUND,
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => Code::TOOL_WRONG_FILE_TYPE,
        _ => Code::TOOL_IO,
    };
    let failed = HandlerError::new(format!("cannot {what}: {}", reason(error))).code(code);
    match io_suggestion(error) {
        Some(remedy) => failed.suggest(remedy),
        None => failed,
    }
}

/// Returns a suggestion for an I/O error.
fn io_suggestion(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "use another file, or ask the user to change the permissions"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "write to another directory: this file system is read-only"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "first delete files that are no longer needed"
        }
        io::ErrorKind::IsADirectory => "pass the path of a file",
        io::ErrorKind::NotADirectory => "check the path: one of its directories is a file",
        io::ErrorKind::InvalidFilename => "use a shorter name",
        _ => return None,
    })
}

/// Runs blocking file operations on a thread that may block.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HandlerError> + Send + 'static,
) -> Result<T, HandlerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(
            HandlerError::new(format!("the operation was interrupted: {error}"))
                .code(Code::TOOL_IO),
        ),
    }
}
