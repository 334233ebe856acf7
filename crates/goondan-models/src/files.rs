//! Files that a Model's options name: they lie inside the bundle.

use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::reason;

use crate::errors::configuration;

/// The text of the file at `path`, relative to `root`, which it must not leave.
pub(crate) fn read_inside(root: &Path, path: &str, limit: u64) -> Result<String, ModelError> {
    let file = inside(root, path)?;
    let unreadable = |error: std::io::Error| unreadable(path, &error);
    // A pipe would be waited for.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(configuration(
            format!("{path} is not a file"),
            "name a file in the project",
        ));
    }
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .map_err(unreadable)?
        .take(limit + 1)
        .read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > limit {
        return Err(configuration(
            format!("{path} is larger than {limit} bytes"),
            "split or shorten the file",
        ));
    }
    Ok(text)
}

/// `path` below `root`, links followed. The file must exist.
fn inside(root: &Path, path: &str) -> Result<PathBuf, ModelError> {
    let leaves = || {
        configuration(
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
        .map_err(|error| unreadable(path, &error))?;
    let file = root
        .join(path)
        .canonicalize()
        .map_err(|error| unreadable(path, &error))?;
    if file.starts_with(&root) {
        Ok(file)
    } else {
        Err(leaves())
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> ModelError {
    match error.kind() {
        ErrorKind::NotFound => configuration(
            format!("there is no file {path}"),
            "create the file, or correct the path; it is relative to the directory of goondan.yaml",
        ),
        ErrorKind::InvalidData => configuration(
            format!("{path} is not UTF-8 text"),
            "name another file, or save the file as UTF-8",
        ),
        _ => configuration(
            format!("{path} cannot be read: {}", reason(error)),
            "check the file permissions",
        ),
    }
}

/// The files that planning a Model reads, relative to the bundle's root: a script or a cassette.
pub fn files_of(model: &Model) -> impl Iterator<Item = &str> {
    model.files()
}
