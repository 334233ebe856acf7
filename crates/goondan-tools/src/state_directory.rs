//! Directories with the state of `gdn`: conversations, approvals, and the token of its control
//! endpoint.
//!
//! A working directory or a project may contain the state directory, for example a project in the
//! home directory. Tools must not read or change the state through it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use goondan_core::code_directory::leave_out;
use goondan_core::real_path::{links_of_path, real_path};

use crate::mutex_lock::lock;

/// Real paths of state directories, and the places of the links that lead to them.
static STATE_DIRECTORIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Protects a state directory from the tools of this process. A link on the path to it is also
/// protected: its replacement would bring other approvals at the next start.
pub fn protect(folder: &Path) {
    let real = real_path(folder).unwrap_or_else(|_| folder.to_owned());
    let links = links_of_path(folder).unwrap_or_default();
    leave_out(&real);
    let mut folders = lock(&STATE_DIRECTORIES);
    folders.insert(real);
    folders.extend(links);
}

/// Returns the directory for the compiled files of Python programs without a sandbox. No sandboxed
/// program and no file tool can write in it.
pub(crate) fn python_cache() -> PathBuf {
    let folders = lock(&STATE_DIRECTORIES);
    let state = folders.iter().find(|folder| {
        let metadata = folder.symlink_metadata();
        // The lock file of all processes is in memory.
        !folder.starts_with("/dev") && metadata.is_ok_and(|metadata| metadata.is_dir())
    });
    // A directory that cannot exist disables the files.
    state.map_or_else(
        || PathBuf::from("/dev/null/python"),
        |state| state.join("cache").join("python"),
    )
}

/// Returns true if `path` is a state directory, or leads to one.
pub(crate) fn is_protected(path: &Path) -> bool {
    lock(&STATE_DIRECTORIES).contains(path)
}

/// Returns true if `path` is in a state directory that contains more than `base`. A base inside a
/// state directory, such as the directory of a conversation, permits its own files.
pub(crate) fn is_exposed(base: &Path, path: &Path) -> bool {
    let folders = lock(&STATE_DIRECTORIES);
    let mut folders = folders.iter();
    folders.any(|folder| path.starts_with(folder) && !is_inside(base, folder))
}

/// Returns the state directories, and the links to them, that `folder` contains. `folder` itself may
/// be one of them.
pub(crate) fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let folders = lock(&STATE_DIRECTORIES);
    let folders = folders.iter().filter(|state| state.starts_with(folder));
    folders.cloned().collect()
}

/// Returns `folder`, or its entries except the state directories that it contains. Links are left
/// out, because they may lead there.
#[expect(
    clippy::disallowed_methods,
    reason = "only names are read, and links are left out"
)]
pub(crate) fn readable_parts(folder: &Path) -> Vec<PathBuf> {
    let states = in_folder(folder);
    if states.is_empty() {
        return vec![folder.to_owned()];
    }
    if states.iter().any(|state| state == folder) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let places = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    places
        .flat_map(|entry| readable_parts(&entry.path()))
        .collect()
}

fn is_inside(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_inside_a_readable_directory_is_excluded() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let state = home.join("var/state");
        let workdir = state.join("workspaces/w/workdir");
        std::fs::create_dir_all(&workdir).unwrap();
        std::fs::create_dir_all(home.join("src")).unwrap();
        std::fs::write(home.join("var/log"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("var/state", home.join("link")).unwrap();
        protect(&state);

        assert_eq!(in_folder(&home), std::slice::from_ref(&state));
        assert!(in_folder(&workdir).is_empty());
        let mut parts = readable_parts(&home);
        parts.sort();
        assert_eq!(parts, [home.join("src"), home.join("var/log")]);
        assert_eq!(readable_parts(&workdir), std::slice::from_ref(&workdir));
        assert!(is_exposed(&home, &state.join("control.json")));
        assert!(is_exposed(&state, &state.join("control.json")));
        assert!(!is_exposed(&workdir, &workdir.join("notes.md")));
        assert!(!is_exposed(&home, &home.join("src/main.rs")));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_state_directory_is_protected() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let work = base.join("work");
        for folder in [&base.join("disk/state"), &work] {
            std::fs::create_dir_all(folder).unwrap();
        }
        symlink("../disk", work.join("mounted")).unwrap();
        symlink("work/mounted", base.join("first")).unwrap();
        protect(&base.join("first/state"));

        assert_eq!(in_folder(&work), [work.join("mounted")]);
        assert!(is_exposed(&work, &work.join("mounted")));
        assert!(is_protected(&base.join("disk/state")));
        assert!(!is_exposed(&work, &work.join("notes.md")));
    }
}
