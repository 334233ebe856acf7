//! Directories of code that a variable or an option names, such as that of `PYTHONPATH`.
//!
//! A program may load any file in such a directory, including one that appears later. So an
//! approval covers the directory as a whole. The same applies to the directory of a script, from
//! which an interpreter imports modules.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::started_files::is_data;

/// Maximum number of entries of a directory whose files are read and locked one by one.
pub(crate) const MAX_ENTRIES: usize = 2000;

/// Maximum number of entries of a directory of code.
pub(crate) const MAX_CODE_ENTRIES: usize = 50_000;

/// Directories of version control. Any program can start the version control, which runs programs that
/// its settings name. So these directories also count, without the data of commits.
pub const REPOSITORY_DIRECTORIES: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// Directories with data of commits in a directory of version control.
const COMMIT_DIRECTORIES: [&str; 14] = [
    "cache",
    "index",
    "lfs",
    "logs",
    "objects",
    "op_heads",
    "op_store",
    "pristine",
    "refs",
    "store",
    "strip-backup",
    "tmp",
    "wcache",
    "working_copy",
];

/// Files with data of commits in a directory of version control, next to those whose names are in
/// upper case, such as `HEAD`.
const COMMIT_FILES: [&str; 10] = [
    "bookmarks",
    "branch",
    "description",
    "dirstate",
    "gc.log",
    "index",
    "last-message.txt",
    "packed-refs",
    "shallow",
    "wc.db",
];

/// Suffixes of data files in a directory of code, which are not loaded as code.
const TEXT_SUFFIXES: [&str; 11] = [
    "csv", "html", "jpg", "json", "md", "pdf", "png", "svg", "txt", "xml", "yaml",
];

/// Names, or parts of names, of files with a suffix of data that determine which code runs.
const CODE_NAMES: [&str; 42] = [
    ".conf.",
    ".tf.json",
    "angular.json",
    "build.xml",
    "capacitor.json",
    "cmakelists",
    "cmakepresets",
    "cmakeuserpresets",
    "compose",
    "composer.json",
    "config",
    "constraints",
    "cypress.json",
    "deno.",
    "docker-bake",
    "firebase.json",
    "global.json",
    "import_map",
    "karma.json",
    "launchsettings",
    "lerna.json",
    "manifest",
    "modules.txt",
    "netlify.",
    "nightwatch.json",
    "nodemon",
    "now.json",
    "npm-shrinkwrap",
    "nx.json",
    "package",
    "pom.xml",
    "project.json",
    "requirements",
    "rush.json",
    "serverless.",
    "stryker.",
    "taskfile",
    "turbo.json",
    "typedoc.json",
    "vercel.json",
    "workspace",
    "wrangler.",
];

/// Real paths of directories whose files count as no part of the directories around them.
static LEFT_OUT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Leaves out the state directory of `gdn`, which changes all the time, from the directories around
/// it. No tool may write in it, and no program loads code from it.
pub fn leave_out(real_path: &Path) {
    let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    left_out.insert(real_path.to_owned());
}

pub(crate) fn is_left_out(path: &Path) -> bool {
    let left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = |real: PathBuf| left_out.contains(&real);
    !left_out.is_empty() && path.canonicalize().is_ok_and(is_known)
}

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
        CodeDirectory::read_up_to(path, MAX_ENTRIES)
    }

    /// Reads a directory like [`CodeDirectory::read`], with at most `max_entries` entries.
    pub(crate) fn read_up_to(path: &Path, max_entries: usize) -> Option<CodeDirectory> {
        let mut directory = CodeDirectory::default();
        let mut visited = BTreeSet::new();
        let is_own = path
            .components()
            .any(|part| is_repository_name(part.as_os_str()));
        let mut todo = vec![(path.to_owned(), is_own)];
        let mut count = 0;
        while let Some((folder, is_repository)) = todo.pop() {
            if !visited.insert(folder.canonicalize().ok()?) {
                continue;
            }
            for entry in folder.read_dir().ok()? {
                let path = entry.ok()?.path();
                count += 1;
                if count > max_entries {
                    return None;
                }
                let name = path.file_name().unwrap_or_default().to_owned();
                if path.is_dir() {
                    let is_data = is_repository && has_commit_data(&path);
                    let path = Some(path).filter(|path| !is_data && !is_left_out(path));
                    let is_repository = is_repository || is_repository_name(&name);
                    todo.extend(path.map(|path| (path, is_repository)));
                } else if is_repository && is_setting(&path) || !is_repository && is_code(&path) {
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

fn is_repository_name(name: &OsStr) -> bool {
    REPOSITORY_DIRECTORIES.iter().any(|folder| name == *folder)
}

/// Returns true for a directory with data of commits. A submodule can have the same name.
fn has_commit_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_in_modules = path
        .parent()
        .is_some_and(|folder| folder.ends_with("modules"));
    let is_submodule = is_in_modules || path.join("config").exists();
    !is_submodule && COMMIT_DIRECTORIES.iter().any(|data| name == *data)
}

/// Returns true for a file in a directory of version control that can determine which programs it
/// runs: settings, hooks, attributes, paths of other repositories, and commands of a rebase.
fn is_setting(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_state = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let is_temporary =
        name.starts_with("undo.") || name.ends_with(".lock") || name.ends_with(".sample");
    path.is_file() && !is_state && !is_temporary && !COMMIT_FILES.contains(&&*name)
}

/// Returns true if the path is an existing file that a program may load.
fn is_code(path: &Path) -> bool {
    is_code_name(path) && path.is_file()
}

/// Returns true if a program may load a file with this name. A hidden file may be a configuration,
/// such as `.mocharc.json`. The test runner of Python runs examples in `test*.txt`.
pub fn is_code_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let suffix = path.extension().map(|suffix| suffix.to_ascii_lowercase());
    let is_text = suffix.is_some_and(|suffix| TEXT_SUFFIXES.iter().any(|text| suffix == *text));
    let is_text_test = name.starts_with("test") && name.ends_with(".txt");
    let is_named = || is_text_test || CODE_NAMES.iter().any(|part| name.contains(part));
    !is_text && !is_data(path) || is_text && (name.starts_with('.') || is_named())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_version_control_and_task_runners_count_as_code() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let code_files = [
            ".git/config",
            ".git/commondir",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/modules/cache/config",
            ".git/rebase-merge/git-rebase-todo",
            ".hg/hgrc",
            ".jj/repo/config.toml",
            "embedded/.git/config",
            "linked/.git",
            "bare/config",
            "docker-bake.json",
            "nx.json",
            "stryker.conf.json",
            "turbo.json",
            "vercel.json",
            "wrangler.json",
            "test_notes.txt",
        ];
        let other_files = [
            ".git/HEAD",
            ".git/index",
            ".git/index.lock",
            ".git/logs/HEAD",
            ".git/objects/ab/c",
            ".git/refs/heads/main",
            ".svn/wc.db",
            "notes.txt",
            "data.json",
        ];
        for name in code_files.iter().chain(&other_files) {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        let expected: BTreeSet<PathBuf> = code_files.iter().map(|name| root.join(name)).collect();
        assert_eq!(CodeDirectory::read(root).unwrap().files, expected);
    }
}
