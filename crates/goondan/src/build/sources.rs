//! Search for the source files of tools.

use std::path::{Path, PathBuf};

use goondan_spec::build_sources::OUTPUT_DIRECTORIES;

/// Collects possible source files and their directories in `folder`. Skips build output and
/// everything below `ignored`.
pub(super) fn walk(folder: &Path, ignored: &Path, tree: &mut SourceTree) {
    if folder.starts_with(ignored) || !tree.folders.insert(folder.to_owned()) {
        return;
    }
    // An unreadable directory has no sources that a build could read.
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        match entry.file_type() {
            // Links to directories are not followed, so the walk is finite.
            Ok(kind) if kind.is_dir() => {
                if !name.starts_with('.') && !OUTPUT_DIRECTORIES.contains(&&*name) {
                    walk(&entry.path(), ignored, tree);
                }
            }
            Ok(_) => tree.files.push(entry.path()),
            Err(_) => {}
        }
    }
}

/// Possible source files and their directories.
#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    /// Absolute paths.
    pub(crate) files: Vec<PathBuf>,
    /// Absolute paths.
    pub(crate) folders: std::collections::BTreeSet<PathBuf>,
}
