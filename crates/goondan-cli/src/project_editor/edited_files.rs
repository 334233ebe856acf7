//! File access with an edited file in place of the file on disk.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use goondan::internal::{FileAccess, FileKind, OsFiles};

/// Maximum number of directory entries that a search examines.
const MAX_SEARCHED_ENTRIES: usize = 20_000;

/// File access that records the files that are read, and replaces one of them with an edited text.
pub(super) struct EditedProjectFiles<'t> {
    edit: Option<(PathBuf, &'t str)>,
    read: Mutex<BTreeSet<PathBuf>>,
}

impl<'t> EditedProjectFiles<'t> {
    /// Returns the files on disk.
    pub(super) fn unchanged() -> Self {
        EditedProjectFiles {
            edit: None,
            read: Mutex::default(),
        }
    }

    /// Returns the files on disk, but `text` as the content of `file`, a path without links.
    pub(super) fn with_edit(file: PathBuf, text: &'t str) -> Self {
        EditedProjectFiles {
            edit: Some((file, text)),
            ..EditedProjectFiles::unchanged()
        }
    }

    /// Returns the files that were read below `root`, relative to it.
    pub(super) fn read_in(&self, root: &Path) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = read.iter().filter_map(|path| path.strip_prefix(root).ok());
        inside.filter_map(slash_path).collect()
    }

    /// Returns the edited text of a file.
    fn edited(&self, path: &Path) -> Option<&'t str> {
        let (file, text) = self.edit.as_ref()?;
        let is_edited = path == file || OsFiles.canonicalize(path).is_ok_and(|real| real == *file);
        is_edited.then_some(*text)
    }
}

impl FileAccess for EditedProjectFiles<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        OsFiles.kind(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(path.to_owned());
        drop(read);
        let Some(text) = self.edited(path) else {
            return OsFiles.read(path, limit);
        };
        let end = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
            .min(text.len());
        Ok(text.as_bytes()[..end].to_vec())
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        OsFiles.list_directory(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        OsFiles.canonicalize(path)
    }

    fn metadata(&self, path: &Path) -> Option<Metadata> {
        OsFiles.metadata(path)
    }
}

/// Returns the regular files below `root` whose names are `wanted`, relative to `root`. Skips hidden
/// directories, and directories with generated or third-party files. Follows no links.
pub(crate) fn find_files_by_name(root: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut examined = 0;
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            examined += 1;
            let name = entry.file_name();
            let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else {
                continue;
            };
            if kind.is_dir() && !is_skipped(name) {
                folders.push(entry.path());
            } else if kind.is_file() && wanted(name) {
                let path = entry.path();
                paths.extend(path.strip_prefix(root).ok().and_then(slash_path));
            }
        }
        if examined > MAX_SEARCHED_ENTRIES {
            break;
        }
    }
    paths
}

/// Returns whether a search skips a directory: it is hidden, or has generated or third-party files.
pub(super) fn is_skipped(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "target" | "node_modules" | "dist")
}

/// Returns a relative path with `/` as the separator; `None` if it is not Unicode.
fn slash_path(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/"))
}
