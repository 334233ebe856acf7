//! What commands read whole, and why a file can't be used, in the words of people.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use goondan::spec::Code;

use crate::exit::CliError;

/// No command reads more at once (bytes): an event can't hold more.
const LARGEST: u64 = 32 * 1024 * 1024;

/// All that comes; `what` begins the sentence where it is too much or can't be read.
pub(crate) fn whole(reader: impl Read, what: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    reader.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(what, &error))?;
    match bytes.len() as u64 > LARGEST {
        true => Err(CliError::usage(format!("{what} holds more than {} MiB.", LARGEST / 1024 / 1024))
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
    CliError::configuration(format!("`{}` can't be written: {}.", path.display(), reason(error)))
        .suggest("Name a file in a folder that is there and that you may write to.")
}

/// The error of a failed write to `path`, where `error` says no more than that something failed.
pub(crate) fn in_writing(path: &Path, error: CliError) -> CliError {
    match error.code == Code::INTERNAL_ERROR {
        true => {
            CliError { message: format!("{} (`{}`).", error.message.trim_end_matches('.'), path.display()), ..error }
        }
        false => error,
    }
}

/// Why a file can't be used, as the end of a sentence; without the number that the system has for it.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is not a folder".to_owned(),
        io::ErrorKind::AlreadyExists => "there is a file of that name already".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::InvalidFilename => "the name is too long".to_owned(),
        io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
        _ => {
            let words = error.to_string();
            let words = words.split(" (os error").next().unwrap_or_default();
            let words = words.strip_prefix("Too many levels of symbolic links").map_or(words, |_| LOOP);
            let mut letters = words.chars();
            letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
        }
    }
}

const LOOP: &str = "a link leads back to itself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_in_words() {
        for (number, words) in
            [(2, "there is no such file or folder"), (13, "permission denied"), (5, "input/output error")]
        {
            assert_eq!(reason(&io::Error::from_raw_os_error(number)), words);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(reason(&io::Error::from_raw_os_error(40)), LOOP);
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = whole(io::repeat(0), "Standard input").unwrap_err();
        assert_eq!(error.message, "Standard input holds more than 32 MiB.");
    }
}
