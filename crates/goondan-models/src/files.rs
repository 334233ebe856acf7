//! Files that a Model's options name: they lie inside the bundle.

use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::{reason, regular_file};

use crate::errors::configuration_error;

/// The text of the file at `path`, relative to `root`, which it must not leave.
pub(crate) fn read_inside(root: &Path, path: &str, limit: u64) -> Result<String, ModelError> {
    let file = resolve_inside(root, path)?;
    let read_error = |error: std::io::Error| unreadable_file_error(path, &error);
    if !file.metadata().map_err(read_error)?.is_file() {
        return Err(configuration_error(
            format!("{path} is not a file"),
            "name a file in the project",
        ));
    }
    let mut text = String::new();
    let read = regular_file::open(&file)
        .map_err(read_error)?
        .take(limit + 1)
        .read_to_string(&mut text);
    read.map_err(read_error)?;
    if text.len() as u64 > limit {
        return Err(configuration_error(
            format!("{path} is larger than {limit} bytes"),
            "split or shorten the file",
        ));
    }
    Ok(text)
}

/// Resolves `path` below `root` with its links. The file must exist.
fn resolve_inside(root: &Path, path: &str) -> Result<PathBuf, ModelError> {
    let leaves = || {
        configuration_error(
            format!("the path {path} leaves the project directory"),
            "name a file in the project; the path is relative to the directory of goondan.yaml",
        )
    };
    let plain = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain {
        return Err(leaves());
    }
    let root = root
        .canonicalize()
        .map_err(|error| unreadable_file_error(path, &error))?;
    let file = root
        .join(path)
        .canonicalize()
        .map_err(|error| unreadable_file_error(path, &error))?;
    if file.starts_with(&root) {
        Ok(file)
    } else {
        Err(leaves())
    }
}

/// Returns the error for a file that cannot be read.
fn unreadable_file_error(path: &str, error: &std::io::Error) -> ModelError {
    match error.kind() {
        ErrorKind::NotFound => configuration_error(
            format!("there is no file {path}"),
            "create the file, or correct the path; it is relative to the directory of goondan.yaml",
        ),
        ErrorKind::InvalidData => configuration_error(
            format!("{path} is not UTF-8 text"),
            "name another file, or save the file as UTF-8",
        ),
        _ => configuration_error(
            format!("{path} cannot be read: {}", reason(error)),
            "check the file permissions",
        ),
    }
}

/// The files that planning a Model reads, relative to the bundle's root: a script or a cassette.
pub fn files_of(model: &Model) -> impl Iterator<Item = &str> {
    model.files()
}
