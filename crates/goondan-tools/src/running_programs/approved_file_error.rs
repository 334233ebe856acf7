//! Reasons why approved files are not run.

#[cfg(target_os = "linux")]
use std::io;
use std::path::PathBuf;

use super::wait_limits::OTHER_PROCESS_TIMEOUT;

/// The reason why approved files are not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovedFileError {
    #[error("`{path}` changed after the approval")]
    Changed { path: String },
    #[error("{program}, which is running in a sandbox, could change `{path}` after the approval")]
    Writer { program: String, path: String },
    #[error("a sandboxed program of another gdn process could change `{path}` after the approval")]
    OtherProcess { path: String },
    #[error(
        "another gdn process has been starting an approved call that uses `{place}` for {} s",
        OTHER_PROCESS_TIMEOUT.as_secs()
    )]
    OtherStart { place: String },
    #[cfg(target_os = "linux")]
    #[error("the directory `{directory}`, which gdn processes share, cannot be used: {cause}")]
    LockFile {
        directory: String,
        #[source]
        cause: io::Error,
    },
}

impl ApprovedFileError {
    /// Creates the error about a program that may write one of the files.
    pub(super) fn of_writer(program: String, files: &[PathBuf]) -> ApprovedFileError {
        ApprovedFileError::Writer {
            program,
            path: first_path_text(files),
        }
    }

    /// Creates the error about the start of a call with files in the first of `places`.
    pub(super) fn of_start(places: &[PathBuf]) -> ApprovedFileError {
        ApprovedFileError::OtherStart {
            place: first_path_text(places),
        }
    }

    /// Returns the remedy.
    pub(crate) fn suggestion(&self) -> &'static str {
        match self {
            ApprovedFileError::Changed { .. } | ApprovedFileError::Writer { .. } => {
                "End the other program, for example with `runtime__process`, or wait for its end. \
                Then call the tool again."
            }
            ApprovedFileError::OtherProcess { .. } => {
                "Wait for the end of the other program, or end it in the other process. Then call \
                the tool again."
            }
            ApprovedFileError::OtherStart { .. } => {
                "If the other process is suspended, continue or end it. Then call the tool again."
            }
            #[cfg(target_os = "linux")]
            ApprovedFileError::LockFile { .. } => {
                "The operator can remove the directory, or make it writable for this user only."
            }
        }
    }
}

pub(super) fn first_path_text(files: &[PathBuf]) -> String {
    let path = files.first().map(|path| path.display().to_string());
    path.unwrap_or_default()
}
