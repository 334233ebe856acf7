//! Places that a running program may write to.

use std::path::{Path, PathBuf};

/// Lock name for all files with several hard links, in place of their paths. A program that may write
/// to any directory may have another link to such a file there.
const HARD_LINKS: &str = "files with several hard links";

/// Places that a program may write to and that approved files must be protected from.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteAccess {
    /// Directories that all sandboxes of the program permit, and files that are open for it; empty
    /// for another program without a sandbox.
    pub(super) writable: Vec<PathBuf>,
    is_sandboxed: bool,
    /// The program belongs to the project, for example an MCP server. It runs until the end of the
    /// swarm.
    pub(crate) is_of_project: bool,
}

impl WriteAccess {
    /// Creates the access of a program in sandboxes with these writable paths, which contain no links.
    pub(crate) fn from_sandboxes(sandboxes: impl Iterator<Item = Vec<PathBuf>>) -> WriteAccess {
        let writable = sandboxes.reduce(|first, second| permitted_by_both(&first, &second));
        let is_sandboxed = writable.is_some();
        let mut writable = writable.unwrap_or_default();
        if !writable.is_empty() {
            writable.push(PathBuf::from(HARD_LINKS));
        }
        WriteAccess {
            is_sandboxed,
            writable,
            is_of_project: false,
        }
    }

    /// Creates the access of a program without a sandbox that has a file open for writing.
    pub(crate) fn of_file(path: PathBuf) -> WriteAccess {
        WriteAccess {
            writable: with_hard_links(vec![path]),
            ..WriteAccess::default()
        }
    }

    /// Adds the places of a file that is open for the program.
    pub(crate) fn extend(&mut self, other: &WriteAccess) {
        self.writable.extend_from_slice(&other.writable);
    }

    pub(crate) fn is_sandboxed(&self) -> bool {
        self.is_sandboxed
    }

    /// Returns true if the program may change one of the paths.
    pub(super) fn can_change(&self, paths: &[PathBuf]) -> bool {
        let may_write = |path: &PathBuf| self.writable.iter().any(|place| path.starts_with(place));
        paths.iter().any(may_write)
    }
}

/// Adds [`HARD_LINKS`] if one of the files has several hard links.
pub(super) fn with_hard_links(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.iter().any(|file| has_several_links(file)) {
        files.push(PathBuf::from(HARD_LINKS));
    }
    files
}

#[cfg(unix)]
fn has_several_links(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.nlink() > 1)
}

#[cfg(not(unix))]
fn has_several_links(_path: &Path) -> bool {
    false
}

/// Returns the places that both lists permit. A directory also permits everything below it.
fn permitted_by_both(first: &[PathBuf], second: &[PathBuf]) -> Vec<PathBuf> {
    let pairs = first
        .iter()
        .flat_map(|one| second.iter().map(move |other| (one, other)));
    let inner = |(one, other): (&PathBuf, &PathBuf)| {
        if one.starts_with(other) {
            Some(one.clone())
        } else {
            other.starts_with(one).then(|| other.clone())
        }
    };
    pairs.filter_map(inner).collect()
}
