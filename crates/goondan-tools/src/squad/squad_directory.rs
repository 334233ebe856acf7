//! The `.squad/` directory: its layout, and its confinement (rules S2 and S5).

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use goondan_core::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle};
use goondan_core::ports::tool::{HandlerError, WrittenFile};

use super::failure_text;
use crate::errors;
use crate::file_changes::{create, read_unnamed_text, remove, replace};
use crate::paths::{FileRoot, ResolvedPath};

#[derive(Clone)]
pub(super) struct SquadDirectory {
    project: PathBuf,
    dir: String,
}

impl SquadDirectory {
    /// Returns the directory `dir` of a project. It need not exist.
    pub(super) fn new(project: PathBuf, dir: String) -> SquadDirectory {
        SquadDirectory { project, dir }
    }

    /// Resolves a file in the directory, such as `agents/fenster/charter.md`.
    pub(super) fn resolve_file(&self, path: &str) -> Result<(FileRoot, ResolvedPath), String> {
        let project = FileRoot::from_directory(&self.project).map_err(failure_text)?;
        let squad = without_links(&project, &self.dir)?;
        project.create_folders(&squad).map_err(failure_text)?;
        let root = project.narrowed(squad.path);
        let place = without_links(&root, path)?;
        Ok((root, place))
    }

    /// Returns a file that a call writes because of `argument`. It need not exist.
    pub(super) fn written_file(&self, argument: Option<&str>, path: &str) -> WrittenFile {
        WrittenFile {
            argument: argument.map(str::to_owned),
            path: self.project.join(&self.dir).join(path),
        }
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(&self, path: &str) -> Result<Option<String>, String> {
        let (root, place) = self.resolve_file(path)?;
        if place.path.symlink_metadata().is_err() {
            return Ok(None);
        }
        read_unnamed_text(&root, &place)
            .map(Some)
            .map_err(failure_text)
    }

    /// Replaces or creates a file and its parent directories.
    pub(super) fn write(&self, path: &str, content: &str) -> Result<(), String> {
        let (root, place) = self.resolve_file(path)?;
        // No approval request shows the other names, and one of them can be protected.
        if root
            .look_at_found(&place.path)
            .is_some_and(|metadata| metadata.links > 1)
        {
            return Err(format!(
                "`{path}` has several hard links. Replace it with a copy."
            ));
        }
        root.create_parents(&place)
            .and_then(|()| replace(&root, &place, content.as_bytes()))
            .map_err(failure_text)
    }

    /// Creates a file; returns false if it exists.
    pub(super) fn create(&self, path: &str, content: &str) -> Result<bool, String> {
        let (root, place) = self.resolve_file(path)?;
        root.create_parents(&place)
            .and_then(|()| create(&root, &place, content.as_bytes()))
            .map_err(failure_text)
    }

    /// Updates a file under a lock that also applies to other programs. `change` converts the old
    /// contents to the new ones.
    pub(super) fn update(
        &self,
        path: &str,
        change: impl FnOnce(Option<String>) -> String,
    ) -> Result<(), String> {
        let (root, place) = self.resolve_file(path)?;
        root.create_parents(&place).map_err(failure_text)?;
        let _lock = lock(place.path.parent().unwrap_or(root.folder()))?;
        let content = change(self.read(path)?);
        self.write(path, &content)
    }

    /// Removes a file. Succeeds if it does not exist.
    pub(super) fn remove(&self, path: &str) -> Result<(), String> {
        let (root, place) = self.resolve_file(path)?;
        if place.path.symlink_metadata().is_err() {
            return Ok(());
        }
        remove(&root, &place).map_err(failure_text)
    }

    /// Returns the sorted names of the files in `path` with that extension.
    pub(super) fn files(&self, path: &str, extension: &str) -> Result<Vec<String>, String> {
        self.sorted_names(path, |_, name| {
            Path::new(name)
                .extension()
                .is_some_and(|actual| actual == extension)
        })
    }

    /// Returns the sorted names of the directories below `path` that contain the file.
    pub(super) fn folders_with(&self, path: &str, file: &str) -> Result<Vec<String>, String> {
        self.sorted_names(path, |directory, name| {
            let found = directory
                .open_subdirectory(name)
                .and_then(|below| below.look(file.as_ref()));
            found.is_ok_and(|found| {
                found.is_some_and(|found| found.kind == DirectoryEntryKind::File)
            })
        })
    }

    /// Returns the sorted names of the entries of `path` for which `matches` is true; none if the
    /// directory does not exist.
    fn sorted_names(
        &self,
        path: &str,
        matches: impl Fn(&DirectoryHandle, &OsStr) -> bool,
    ) -> Result<Vec<String>, String> {
        let (root, place) = self.resolve_file(path)?;
        let Ok(directory) = root.open_directory(&place) else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> = directory
            .entries()
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, _)| matches(&directory, name))
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Resolves `path` and refuses links in it. These writes need no approval, so they must stay in the
/// directory that the project has configured.
fn without_links(root: &FileRoot, path: &str) -> Result<ResolvedPath, String> {
    let place = root.resolve(path).map_err(failure_text)?;
    let mut written = root.folder().to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                written.pop();
            }
            other => written.push(other),
        }
    }
    if place.path != written {
        return Err(format!(
            "`{path}` leads through a symbolic link. Squad files must be in the squad directory."
        ));
    }
    Ok(place)
}

/// Locks a directory, including against other programs.
fn lock(folder: &Path) -> Result<FileLock, String> {
    FileLock::of_directory(folder, LOCK_TIMEOUT).map_err(|error| {
        format!(
            "The directory {} cannot be locked: {error}.",
            folder.display()
        )
    })
}

/// Checks that an external name is a single plain path component.
pub(super) fn plain_name<'a>(what: &str, name: &'a str) -> Result<&'a str, String> {
    let plain = name.len() <= 64
        && name.starts_with(|c: char| c.is_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !name.contains("..");
    if plain {
        return Ok(name);
    }
    Err(format!(
        "\"{name}\" is not a valid name for {what}: use letters, digits, hyphens and underscores."
    ))
}

/// Runs blocking file operations on a thread that may block.
pub(super) async fn run_blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<Result<String, String>, HandlerError> {
    errors::run_blocking(move || Ok(work())).await
}
