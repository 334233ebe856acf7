//! Resolution of the places that a sandbox permits.
//!
//! A program in a sandbox can replace the paths that it may write with links. A link that it made
//! must not extend its own sandbox.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use crate::mutex_lock::lock;

/// Maximum number of links in a path.
const MAX_LINKS: usize = 40;

/// Returns the path of a directory without links, as it was at its first use in this process. A link
/// that replaces a part of the path later has no effect.
pub(crate) fn resolved_once(path: &Path) -> PathBuf {
    static RESOLVED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut known_places = lock(&RESOLVED);
    if let Some(real) = known_places.get(&path) {
        return real.clone();
    }
    match path.canonicalize() {
        Ok(real) => {
            known_places.insert(path, real.clone());
            real
        }
        Err(_) => path,
    }
}

/// Resolves the links of a path that the configuration states. Links below `replaceable`
/// directories, and in directories that every user may write, remain in the result, so that the
/// path is refused.
pub(crate) fn stated_place(path: &Path, replaceable: &[&Path]) -> PathBuf {
    let mut resolved = PathBuf::new();
    let mut rest: Vec<PathBuf> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                resolved.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            _ => {}
        }
        let next = resolved.join(&part);
        let is_replaceable = replaceable.iter().any(|base| resolved.starts_with(base))
            || is_writable_by_all(&resolved);
        match std::fs::read_link(&next) {
            Ok(target) if !is_replaceable && links < MAX_LINKS => {
                links += 1;
                rest.extend(parts(&target));
            }
            _ => resolved = next,
        }
    }
    resolved
}

/// Returns the components of a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    let components = path.components().rev();
    components
        .map(|component| PathBuf::from(component.as_os_str()))
        .collect()
}

#[cfg(unix)]
fn is_writable_by_all(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    folder
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_writable_by_all(_folder: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_links_outside_the_project_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (project, elsewhere) = (root.join("project"), root.join("elsewhere"));
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        symlink(&elsewhere, root.join("outer")).unwrap();
        symlink(&elsewhere, project.join("inner")).unwrap();
        let resolve_place = |path: &str| stated_place(&root.join(path), &[&project]);
        assert_eq!(resolve_place("outer/x"), elsewhere.join("x"));
        assert_eq!(resolve_place("project/inner/x"), project.join("inner/x"));
        assert_eq!(resolve_place("project/../outer"), elsewhere);
        assert_eq!(resolve_place("project/./new"), project.join("new"));
    }

    #[test]
    fn the_resolved_path_of_a_directory_is_cached() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("project");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(resolved_once(&path), path);
        std::fs::remove_dir(&path).unwrap();
        symlink("/", &path).unwrap();
        assert_eq!(resolved_once(&path), path);
    }
}
