//! Directories of code that a variable or an option names, such as that of `PYTHONPATH`.
//!
//! A program may load any file in such a directory, including one that appears later. So an
//! approval covers the directory as a whole.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::started_files::is_data;

/// Maximum number of entries of a directory of code.
const MAX_ENTRIES: usize = 2000;

/// Suffixes of files in such a directory that are not loaded as code.
const TEXT_SUFFIXES: [&str; 11] = [
    "csv", "html", "jpg", "json", "md", "pdf", "png", "svg", "txt", "xml", "yaml",
];

/// Files with a suffix of data that determine which code is loaded.
const CODE_FILES: [&str; 2] = ["package.json", "deno.json"];

/// Content of a directory of code.
#[derive(Debug, Default)]
pub struct CodeDirectory {
    /// Files that a program may load.
    pub files: BTreeSet<PathBuf>,
    /// The directory and all directories below it.
    pub folders: BTreeSet<PathBuf>,
}

impl CodeDirectory {
    /// Reads a directory and all directories below it, also through links. `None` if it has too many
    /// entries, or cannot be read. Accesses the file system.
    pub fn read(path: &Path) -> Option<CodeDirectory> {
        let mut directory = CodeDirectory::default();
        let mut visited = BTreeSet::new();
        let (mut todo, mut count) = (vec![path.to_owned()], 0);
        while let Some(folder) = todo.pop() {
            if !visited.insert(folder.canonicalize().ok()?) {
                continue;
            }
            for entry in folder.read_dir().ok()? {
                let path = entry.ok()?.path();
                count += 1;
                if count > MAX_ENTRIES {
                    return None;
                }
                if path.is_dir() {
                    todo.push(path);
                } else if is_code(&path) {
                    directory.files.insert(path);
                }
            }
            directory.folders.insert(folder);
        }
        Some(directory)
    }
}

/// Returns the files directly in a directory that a program may load.
pub(crate) fn direct_code_files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| is_code(path))
        .take(MAX_ENTRIES)
        .collect()
}

fn is_code(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let suffix = path.extension().map(|suffix| suffix.to_ascii_lowercase());
    let is_text = suffix.is_some_and(|suffix| TEXT_SUFFIXES.iter().any(|text| suffix == *text));
    let is_named = CODE_FILES.iter().any(|file| name == *file);
    path.is_file() && (is_named || !is_text && !is_data(path))
}
