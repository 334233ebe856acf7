//! What commands read whole, and why a file can't be used, in the words of people.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use goondan::spec::{Code, reason};

use crate::exit::CliError;

/// No command reads more at once (bytes): an event can't hold more.
const LARGEST: u64 = 32 * 1024 * 1024;

/// All that comes; `what` begins the sentence where it is too much or can't be read.
pub(crate) fn whole(reader: impl Read, what: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    reader
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(what, &error))?;
    match bytes.len() as u64 > LARGEST {
        true => Err(CliError::usage(format!(
            "{what} holds more than {} MiB.",
            LARGEST / 1024 / 1024
        ))
        .suggest("Put what is needed of it into a file of the project, and let a tool read that.")),
        false => Ok(bytes),
    }
}

/// As [`whole`], of text.
pub(crate) fn text(reader: impl Read, what: &str) -> Result<String, CliError> {
    let bytes = whole(reader, what)?;
    String::from_utf8(bytes).map_err(|_| CliError::usage(format!("{what} is not UTF-8 text.")))
}

/// A file that is there.
pub(crate) fn open(path: &Path, what: &str) -> Result<File, CliError> {
    File::open(path).map_err(|error| unreadable(what, &error))
}

/// The error of something that can't be read.
pub(crate) fn unreadable(what: &str, error: &io::Error) -> CliError {
    let suggestion = match error.kind() {
        io::ErrorKind::PermissionDenied => "Name a file that you may read.",
        io::ErrorKind::IsADirectory => "Name a file, not a folder.",
        _ => "Check the path: it starts from the folder that you are in.",
    };
    CliError::configuration(format!("{what} can't be read: {}.", reason(error))).suggest(suggestion)
}

/// The error of a file that can't be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::configuration(format!(
        "`{}` can't be written: {}.",
        path.display(),
        reason(error)
    ))
    .suggest("Name a file in a folder that is there and that you may write to.")
}

/// The error of a failed write to `path`, where `error` says no more than that something failed.
pub(crate) fn in_writing(path: &Path, error: CliError) -> CliError {
    match error.code == Code::INTERNAL_ERROR {
        true => CliError {
            message: format!(
                "{} (`{}`).",
                error.message.trim_end_matches('.'),
                path.display()
            ),
            ..error
        },
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = whole(io::repeat(0), "Standard input").unwrap_err();
        assert_eq!(error.message, "Standard input holds more than 32 MiB.");
    }
}
