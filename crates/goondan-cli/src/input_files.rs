//! Bounded reading of input files, and errors for unusable files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use goondan::spec::{Code, reason};

use crate::exit::CliError;

/// Maximum size of an input in bytes. An event cannot contain more.
const MAX_INPUT_BYTES: u64 = 32 * 1024 * 1024;

/// Reads everything up to the limit. `what` is the subject of the error message.
pub(crate) fn read_bytes(reader: impl Read, what: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable_input_error(what, &error))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        Err(CliError::usage(format!(
            "{what} is larger than {} MiB.",
            MAX_INPUT_BYTES / 1024 / 1024
        ))
        .suggest("Put the needed part into a file of the project, and let a tool read that file."))
    } else {
        Ok(bytes)
    }
}

/// Reads everything as UTF-8 text, like [`read_bytes`]. Fails if it is not valid UTF-8.
pub(crate) fn read_text(reader: impl Read, what: &str) -> Result<String, CliError> {
    let bytes = read_bytes(reader, what)?;
    String::from_utf8(bytes).map_err(|_| CliError::usage(format!("{what} is not UTF-8 text.")))
}

/// Limit in bytes of a file of the project that a command edits.
pub(crate) const MAX_PROJECT_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Opens a file. `what` is the subject of the error message.
pub(crate) fn open(path: &Path, what: &str) -> Result<File, CliError> {
    File::open(path).map_err(|error| unreadable_input_error(what, &error))
}

/// Returns the error of an input that can't be read.
pub(crate) fn unreadable_input_error(what: &str, error: &io::Error) -> CliError {
    let suggestion = match error.kind() {
        io::ErrorKind::PermissionDenied => "Name a file that you may read.",
        io::ErrorKind::IsADirectory => "Name a file, not a directory.",
        _ => "Check the path; it is relative to the current directory.",
    };
    CliError::configuration(format!("{what} can't be read: {}.", reason(error))).suggest(suggestion)
}

/// Returns the error of a file that can't be written.
pub(crate) fn unwritable_file_error(path: &Path, error: &io::Error) -> CliError {
    CliError::configuration(format!(
        "`{}` can't be written: {}.",
        path.display(),
        reason(error)
    ))
    .suggest("Name a file in an existing directory that you may write to.")
}

/// Adds `path` to the message of an internal write error; other errors stay unchanged.
pub(crate) fn add_written_path(path: &Path, error: CliError) -> CliError {
    if error.code == Code::INTERNAL_ERROR {
        CliError {
            message: format!(
                "{} (`{}`).",
                error.message.trim_end_matches('.'),
                path.display()
            ),
            ..error
        }
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_an_endless_file_stops_at_the_size_limit() {
        let error = read_bytes(io::repeat(0), "Standard input").unwrap_err();
        assert_eq!(error.message, "Standard input is larger than 32 MiB.");
    }
}
