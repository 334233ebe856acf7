//! Reads `.env` files (rule L8).

use std::io;
use std::path::Path;

use crate::diagnostic::{Code, Diagnostic};
use crate::files::{FileAccess, FileKind};
use crate::paths::MAX_FILE_BYTES;
use crate::secret_files;
use crate::text::reason;
use crate::value::Environment;

/// Environment files that are read if they exist. Earlier files win.
pub const OPTIONAL_ENV_FILES: [&str; 2] = [".env.local", ".env"];

/// Adds the variables of the environment files to `process`.
///
/// Precedence: process, then `explicit` (`--env-file`), then `.env.local`, then `.env`. The last
/// two are read from the directory `root`.
///
/// # Errors
/// Fails if `explicit` is missing, or if a file cannot be read or parsed. The diagnostic never
/// contains a value.
pub fn read_env_files(
    files: &dyn FileAccess,
    root: &Path,
    explicit: Option<&Path>,
    process: Environment,
) -> Result<Environment, Diagnostic> {
    let mut environment = process;
    if let Some(path) = explicit {
        secret_files::declare(path);
        read_into(
            &mut environment,
            files,
            path,
            &path.display().to_string(),
            true,
        )?;
    }
    for name in OPTIONAL_ENV_FILES {
        read_into(&mut environment, files, &root.join(name), name, false)?;
    }
    Ok(environment)
}

/// Adds the variables of a file that are not set yet. A missing file is an error only if
/// `required`. `shown` is its path for messages.
fn read_into(
    environment: &mut Environment,
    files: &dyn FileAccess,
    path: &Path,
    shown: &str,
    required: bool,
) -> Result<(), Diagnostic> {
    match files.kind(path) {
        Ok(FileKind::File) => {}
        // A directory called `.env` is most likely a Python virtual environment.
        Ok(FileKind::Directory) if !required => return Ok(()),
        Ok(_) => return Err(unreadable_file_error(shown, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !required => return Ok(()),
        Err(error) => return Err(unreadable_file_error(shown, &reason(&error))),
    }
    let bytes = files
        .read(path, MAX_FILE_BYTES)
        .map_err(|error| unreadable_file_error(shown, &reason(&error)))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable_file_error(shown, "it is larger than 1 MiB"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable_file_error(shown, "it is not UTF-8 text"))?;
    let text = text.trim_start_matches('\u{feff}');
    for pair in dotenvy::from_read_iter(text.as_bytes()) {
        let (name, value) = pair.map_err(|error| malformed_line_error(shown, text, &error))?;
        environment.set_default(name, value);
    }
    Ok(())
}

/// Creates the error for an environment file that cannot be read.
fn unreadable_file_error(file: &str, why: &str) -> Diagnostic {
    Diagnostic::new(
        Code::PARSE_ERROR,
        format!("The environment file `{file}` cannot be read: {why}."),
    )
    .suggest("check the path and that you may read it")
}

/// Creates the error for an invalid line; hides the parser's message, which quotes the line.
fn malformed_line_error(file: &str, text: &str, error: &dotenvy::Error) -> Diagnostic {
    let line = match error {
        dotenvy::Error::LineParse(wrong, _) => {
            text.lines().position(|line| line.trim() == wrong.trim())
        }
        _ => None,
    };
    let place = line
        .map(|line| format!("Line {} of", line + 1))
        .unwrap_or_else(|| "A line of".to_owned());
    Diagnostic::new(
        Code::PARSE_ERROR,
        format!("{place} the environment file `{file}` is not `NAME=value`."),
    )
    .suggest("put values that contain spaces, `#` or `$` in single quotes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn process(pairs: &[(&str, &str)]) -> Environment {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn process_variables_take_precedence_over_env_files() {
        let files = MemoryFiles::new()
            .file("/p/.env", "A=env\nB=env\nC=env\nD=env\n")
            .file("/p/.env.local", "A=local\nB=local\nC=local\n")
            .file("/p/extra", "export A='explicit'\nB=explicit # why\n");
        let read = read_env_files(
            &files,
            Path::new("/p"),
            Some(Path::new("/p/extra")),
            process(&[("A", "process")]),
        );
        let read = read.unwrap();
        let values: Vec<_> = ["A", "B", "C", "D"]
            .iter()
            .map(|name| read.get(name))
            .collect();
        assert_eq!(
            values,
            [
                Some("process"),
                Some("explicit"),
                Some("local"),
                Some("env")
            ]
        );
    }

    #[test]
    fn an_invalid_env_file_is_an_error_without_values() {
        let files = MemoryFiles::new()
            .file("/p/.env", "A=1\nsk-secret value\n")
            .directory("/q/.env");
        let error =
            read_env_files(&files, Path::new("/p"), None, Environment::default()).unwrap_err();
        assert!(
            error.message.contains("Line 2") && !format!("{error:?}").contains("secret"),
            "{error:?}"
        );
        assert!(read_env_files(&files, Path::new("/q"), None, Environment::default()).is_ok());
        assert!(
            read_env_files(
                &files,
                Path::new("/p"),
                Some(Path::new("/none")),
                Environment::default()
            )
            .is_err()
        );
    }
}
