//! Places from which the code of installed packages runs.
//!
//! A program in a sandbox may write in the project, and could change an installed package after its
//! files were compared with the lock file. So the code of a package runs from a copy that such programs
//! cannot reach.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Copies by the directory of their package, both as absolute paths.
static COPIES: RwLock<BTreeMap<PathBuf, PathBuf>> = RwLock::new(BTreeMap::new());

/// Sets the copy from which the code of the package in `folder` runs in this process.
pub fn set_copy(folder: &Path, copy: &Path) {
    let mut copies = COPIES.write().unwrap_or_else(PoisonError::into_inner);
    copies.insert(absolute(folder), absolute(copy));
}

/// Returns the path from which a file or directory of a project is used: the same path, or the one in
/// the copy of its package.
pub fn code_path(path: &Path) -> PathBuf {
    let copies = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    if copies.is_empty() {
        return path.to_owned();
    }
    let whole = absolute(path);
    let in_copy = copies.iter().find_map(|(folder, copy)| {
        let below = whole.strip_prefix(folder).ok()?;
        // Joining an empty path would add a separator.
        Some(copy.components().chain(below.components()).collect())
    });
    in_copy.unwrap_or_else(|| path.to_owned())
}

/// Returns the copy of a package that contains `path`.
pub fn copy_around(path: &Path) -> Option<PathBuf> {
    let copies = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let mut copies = copies.values();
    copies.find(|copy| path.starts_with(copy)).cloned()
}

/// Returns `path` as an absolute path without `.` components.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_copied_package_are_used_from_its_copy() {
        let folder = Path::new("/p-copied/.goondan/installed/@a/b");
        let copy = Path::new("/state-of-copies/sha256-1");
        set_copy(folder, copy);
        for (path, expected) in [
            (
                "/p-copied/.goondan/installed/@a/b",
                "/state-of-copies/sha256-1",
            ),
            (
                "/p-copied/./.goondan/installed/@a/b/t.mjs",
                "/state-of-copies/sha256-1/t.mjs",
            ),
            (
                "/p-copied/.goondan/installed/@a/bc/t.mjs",
                "/p-copied/.goondan/installed/@a/bc/t.mjs",
            ),
            ("/p-copied/src/t.mjs", "/p-copied/src/t.mjs"),
        ] {
            assert_eq!(code_path(Path::new(path)), Path::new(expected));
        }
        assert_eq!(copy_around(&copy.join("lib")).as_deref(), Some(copy));
        assert_eq!(copy_around(&folder.join("lib")), None);
    }
}
