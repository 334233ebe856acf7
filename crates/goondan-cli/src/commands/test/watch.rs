//! `gdn test --watch`: runs the test cases again after each change.
//!
//! The watcher of a running swarm (`goondan::ProjectWatch`) follows the files that one load has read.
//! Test cases have many short loads of copied projects, so this module compares whole directories.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use goondan_conformance::discover::discover;

use crate::exit::CliError;
use crate::output::CommandOutput;

/// Interval at which the files are compared.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Directories that contain no sources.
const SKIPPED_DIRECTORIES: [&str; 4] = ["target", "node_modules", "dist", "__pycache__"];

/// Calls `run` now and after each change below `paths`, until the process is interrupted or `run`
/// cannot run.
pub(super) fn repeat(
    paths: &[PathBuf],
    output: &CommandOutput,
    run: &mut dyn FnMut() -> Result<(), CliError>,
) -> Result<(), CliError> {
    loop {
        let roots = watched_directories(paths);
        let before = state_of(&roots);
        run()?;
        output.note("Waiting for changes. Ctrl-C ends the command.")?;
        wait_for_change(&roots, before);
    }
}

/// Returns the directories of the test cases and of their projects, without directories inside
/// others.
fn watched_directories(paths: &[PathBuf]) -> Vec<PathBuf> {
    let projects = discover(paths).cases;
    let projects = projects.iter().filter_map(|case| case.project_folder());
    let case_directories = paths.iter().map(|path| {
        if path.is_file() {
            // A test case names files next to it.
            path.parent().unwrap_or(path).to_owned()
        } else {
            path.clone()
        }
    });
    let mut directories: Vec<PathBuf> = case_directories
        .chain(projects)
        .filter_map(|path| std::path::absolute(&path).ok()?.canonicalize().ok())
        .collect();
    directories.sort();
    directories.dedup_by(|inner, outer| inner.starts_with(outer));
    directories
}

/// Waits until the files differ from `before` and no longer change.
fn wait_for_change(roots: &[PathBuf], before: u64) {
    let mut last = before;
    loop {
        sleep(POLL_INTERVAL);
        let now = state_of(roots);
        if now != before && now == last {
            return;
        }
        last = now;
    }
}

/// Returns a hash of the names, sizes and times of all files below `roots`.
fn state_of(roots: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for root in roots {
        add_directory(root, &mut hasher);
    }
    hasher.finish()
}

/// Adds the files of a directory to the hash, without hidden ones.
fn add_directory(directory: &Path, hasher: &mut DefaultHasher) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if name.starts_with('.') || SKIPPED_DIRECTORIES.contains(&name.as_str()) {
            continue;
        }
        if metadata.is_dir() {
            add_directory(&entry.path(), hasher);
            continue;
        }
        let time = metadata.modified().ok();
        (name, metadata.len(), time).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_of_a_test_case_is_watched_outside_the_case_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for directory in ["cases", "agents", "other"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        let case = root.join("cases/a.case.yaml");
        std::fs::write(&case, "case: a\nproject: ../agents\n").unwrap();
        assert_eq!(
            watched_directories(&[case]),
            [root.join("agents"), root.join("cases")]
        );
        assert_eq!(watched_directories(std::slice::from_ref(&root)), [root]);
    }

    #[test]
    fn a_change_of_a_visible_file_changes_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_owned()];
        let at_first = state_of(&paths);
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::write(folder.path().join("target/a"), "1").unwrap();
        std::fs::write(folder.path().join(".hidden"), "1").unwrap();
        assert_eq!(state_of(&paths), at_first);
        std::fs::write(folder.path().join("a.case.yaml"), "1").unwrap();
        assert_ne!(state_of(&paths), at_first);
    }
}
