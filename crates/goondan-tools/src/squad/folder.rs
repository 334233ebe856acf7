//! The `.squad/` directory: its layout, and its confinement (rules S2 and S5).

#[cfg(unix)]
use std::fs::{File, TryLockError};
use std::path::{Component, Path, PathBuf};
#[cfg(unix)]
use std::time::{Duration, Instant};

use goondan_core::ports::tool::ToolError;

use super::told;
use crate::errors;
use crate::paths::{Place, Root};
use crate::write::{create, read_text, remove, replace};

/// Maximum time that a writer waits for the lock.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of trying the lock.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub(super) struct Folder {
    project: PathBuf,
    dir: String,
}

impl Folder {
    /// Returns the directory `dir` of a project. It need not exist.
    pub(super) fn new(project: PathBuf, dir: String) -> Folder {
        Folder { project, dir }
    }

    /// Resolves a file in the directory, such as `agents/fenster/charter.md`.
    pub(super) fn place(&self, path: &str) -> Result<(Root, Place), String> {
        let project = Root::at(&self.project).map_err(told)?;
        let squad = without_links(&project, &self.dir)?;
        project.create_folders(&squad).map_err(told)?;
        let root = Root::at(&squad.path).map_err(told)?;
        let place = without_links(&root, path)?;
        Ok((root, place))
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(&self, path: &str) -> Result<Option<String>, String> {
        let (root, place) = self.place(path)?;
        if place.path.symlink_metadata().is_err() {
            return Ok(None);
        }
        read_text(&root, &place).map(Some).map_err(told)
    }

    pub(super) fn write(&self, path: &str, content: &str) -> Result<(), String> {
        let (root, place) = self.place(path)?;
        root.create_parents(&place)
            .and_then(|()| replace(&root, &place, content.as_bytes()))
            .map_err(told)
    }

    /// Creates a file; returns false if it exists.
    pub(super) fn create(&self, path: &str, content: &str) -> Result<bool, String> {
        let (root, place) = self.place(path)?;
        root.create_parents(&place)
            .and_then(|()| create(&root, &place, content.as_bytes()))
            .map_err(told)
    }

    /// Updates a file under a lock that also applies to other programs. `change` converts the old
    /// contents to the new ones.
    pub(super) fn update(
        &self,
        path: &str,
        change: impl FnOnce(Option<String>) -> String,
    ) -> Result<(), String> {
        let (root, place) = self.place(path)?;
        root.create_parents(&place).map_err(told)?;
        let _lock = lock(place.path.parent().unwrap_or(root.folder()))?;
        let content = change(self.read(path)?);
        self.write(path, &content)
    }

    /// Removes a file. Succeeds if it does not exist.
    pub(super) fn remove(&self, path: &str) -> Result<(), String> {
        let (root, place) = self.place(path)?;
        if place.path.symlink_metadata().is_err() {
            return Ok(());
        }
        remove(&root, &place).map_err(told)
    }

    /// Returns the sorted names of the files in `path` with that extension.
    pub(super) fn files(&self, path: &str, extension: &str) -> Result<Vec<String>, String> {
        let (_, place) = self.place(path)?;
        let entries = std::fs::read_dir(&place.path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let wanted = entries.filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|found| found == extension)
        });
        let mut names: Vec<String> = wanted
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Returns the sorted names of the directories below `path` that contain the file.
    pub(super) fn folders_with(&self, path: &str, file: &str) -> Result<Vec<String>, String> {
        let (_, place) = self.place(path)?;
        let entries = std::fs::read_dir(&place.path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let with_file = entries.filter(|entry| entry.path().join(file).is_file());
        let mut names: Vec<String> = with_file
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Resolves `path` and refuses links in it. These writes need no approval, so they must stay in the
/// directory that the project has configured.
fn without_links(root: &Root, path: &str) -> Result<Place, String> {
    let place = root.resolve(path).map_err(told)?;
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
            "`{path}` leads elsewhere by a link. A squad has its files in its own folder."
        ));
    }
    Ok(place)
}

/// Locks a directory, also against other programs. The lock ends with the handle, and leaves no
/// file.
#[cfg(unix)]
fn lock(folder: &Path) -> Result<File, String> {
    let failed = |reason: &dyn std::fmt::Display| {
        format!(
            "The folder {} cannot be locked: {reason}.",
            folder.display()
        )
    };
    let handle = File::open(folder).map_err(|error| failed(&error))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match handle.try_lock() {
            Ok(()) => return Ok(handle),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOOK),
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// Directories cannot be locked on this platform.
#[cfg(not(unix))]
fn lock(_folder: &Path) -> Result<(), String> {
    Ok(())
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
        "\"{name}\" cannot be the name of {what}: use letters, digits, hyphens and underscores."
    ))
}

/// Runs blocking file operations on a thread that may block.
pub(super) async fn blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<Result<String, String>, ToolError> {
    errors::blocking(move || Ok(work())).await
}
