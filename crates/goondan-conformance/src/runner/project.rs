//! Project directory of a test case: its files, and the check for unexpected changes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::case::{CaseFilePath, FileContent};

/// Large directories that are never part of a bundle.
const EXCLUDED_DIRECTORIES: [&str; 2] = [".git", "node_modules"];

/// Project directory with a record of the files that the test case wrote.
#[derive(Debug)]
pub(crate) struct ProjectFolder {
    root: PathBuf,
    written: BTreeMap<PathBuf, Vec<u8>>,
}

impl ProjectFolder {
    /// Creates an empty directory.
    pub(crate) fn create(root: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&root)?;
        Ok(ProjectFolder {
            root,
            written: BTreeMap::new(),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Copies a project. Build output is copied only if the project's bundle needs it.
    pub(crate) fn copy_from(&mut self, source: &Path) -> io::Result<()> {
        for (path, file) in walk(source, &|name| {
            EXCLUDED_DIRECTORIES.contains(&name) || name == "target"
        })? {
            self.copy(&file, &path)?;
        }
        let needed = goondan::load(source)
            .bundle
            .map(|bundle| bundle.files().to_vec())
            .unwrap_or_default();
        for path in needed.iter().map(Path::new) {
            if !self.written.contains_key(path) {
                self.copy(&source.join(path), path)?;
            }
        }
        if goondan::start::project::repository(source).is_some() {
            // Agents may work in the repository of the project, but the copy has only the project.
            std::fs::create_dir_all(self.root.join(".git"))?;
        }
        Ok(())
    }

    /// Copies a file into the project and remembers its content as unchanged.
    fn copy(&mut self, file: &Path, path: &Path) -> io::Result<()> {
        let target = self.root.join(path);
        create_parent(&target)?;
        std::fs::copy(file, &target)?;
        self.written
            .insert(path.to_owned(), std::fs::read(&target)?);
        Ok(())
    }

    /// Writes a file like an editor: the new file replaces the old one atomically.
    pub(crate) fn write(&mut self, path: &CaseFilePath, content: &FileContent) -> io::Result<()> {
        let target = self.root.join(path.as_str());
        create_parent(&target)?;
        let fresh = tempfile::NamedTempFile::new_in(target.parent().unwrap_or(&self.root))?;
        std::fs::write(fresh.path(), &content.bytes)?;
        set_mode(
            fresh.path(),
            content.mode.or_else(|| mode_of(&target)).unwrap_or(0o644),
        )?;
        fresh.persist(&target)?;
        self.written
            .insert(PathBuf::from(path.as_str()), content.bytes.clone());
        Ok(())
    }

    /// Replaces all occurrences of `old` in a file.
    pub(crate) fn replace(
        &mut self,
        path: &CaseFilePath,
        old: &str,
        new: &str,
    ) -> Result<(), String> {
        let text = std::fs::read_to_string(self.root.join(path.as_str()))
            .map_err(|error| error.to_string())?;
        if old.is_empty() || !text.contains(old) {
            return Err(format!("{} does not contain `{old}`", path.as_str()));
        }
        self.write(path, &FileContent::from(text.replace(old, new).as_str()))
            .map_err(|error| error.to_string())
    }

    /// Removes a file, or a directory with its content.
    pub(crate) fn remove(&mut self, path: &CaseFilePath) -> io::Result<()> {
        let target = self.root.join(path.as_str());
        if target.is_dir() {
            std::fs::remove_dir_all(&target)?
        } else {
            std::fs::remove_file(&target)?
        }
        self.written
            .retain(|written, _| !written.starts_with(path.as_str()));
        Ok(())
    }

    /// Returns all differences from the files that the test case wrote.
    pub(crate) fn unexpected_changes(&self) -> io::Result<Vec<String>> {
        let present = walk(&self.root, &|_| false)?;
        let mut changes = Vec::new();
        for (path, file) in &present {
            match self.written.get(path) {
                None => changes.push(format!("{} is new", path.display())),
                Some(content) if std::fs::read(file)? != *content => {
                    changes.push(format!("{} is changed", path.display()))
                }
                Some(_) => {}
            }
        }
        let removed_files = self
            .written
            .keys()
            .filter(|path| !present.contains_key(*path));
        changes.extend(removed_files.map(|path| format!("{} is gone", path.display())));
        Ok(changes)
    }
}

/// Returns all files below `root`, by relative path. Follows symbolic links to files, but not to
/// directories.
pub(crate) fn walk(
    root: &Path,
    skip: &dyn Fn(&str) -> bool,
) -> io::Result<BTreeMap<PathBuf, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if !skip(&entry.file_name().to_string_lossy()) {
                    folders.push(path);
                }
            } else if path.is_file() {
                files.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), path);
            }
        }
    }
    Ok(files)
}

/// Creates the parent directories of a file.
fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Sets the permission bits of a file.
#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Returns the permission bits of a file; `None` if there is no such file.
#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> CaseFilePath {
        CaseFilePath::new(text).expect("a path")
    }

    #[test]
    fn only_changes_outside_the_steps_of_the_case_are_unexpected() {
        let dir = tempfile::tempdir().unwrap();
        let mut project = ProjectFolder::create(dir.path().join("p")).unwrap();
        project
            .write(&path("a/b.txt"), &"one two two".into())
            .unwrap();
        project.write(&path("gone.txt"), &"x".into()).unwrap();
        project.write(&path("c.txt"), &"x".into()).unwrap();
        project.replace(&path("a/b.txt"), "two", "2").unwrap();
        project.remove(&path("c.txt")).unwrap();
        assert_eq!(
            std::fs::read_to_string(project.root().join("a/b.txt")).unwrap(),
            "one 2 2"
        );
        assert_eq!(project.unexpected_changes().unwrap(), Vec::<String>::new());

        std::fs::write(project.root().join("a/b.txt"), "other").unwrap();
        std::fs::write(project.root().join("new.txt"), "").unwrap();
        std::fs::remove_file(project.root().join("gone.txt")).unwrap();
        assert_eq!(
            project.unexpected_changes().unwrap(),
            ["a/b.txt is changed", "new.txt is new", "gone.txt is gone"]
        );
    }

    #[test]
    fn replacing_missing_text_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut project = ProjectFolder::create(dir.path().to_owned()).unwrap();
        project.write(&path("a"), &"x".into()).unwrap();
        assert_eq!(
            project.replace(&path("a"), "y", "z"),
            Err("a does not contain `y`".to_owned())
        );
        assert!(project.replace(&path("b"), "y", "z").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn modes_are_set_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut project = ProjectFolder::create(dir.path().to_owned()).unwrap();
        project
            .write(
                &path("run.sh"),
                &FileContent {
                    mode: Some(0o755),
                    ..FileContent::from("a")
                },
            )
            .unwrap();
        project.replace(&path("run.sh"), "a", "b").unwrap();
        assert_eq!(mode_of(&project.root().join("run.sh")), Some(0o755));
    }
}
