//! Resolution of paths, including paths that do not exist yet.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in a path.
const MAX_SYMLINKS: usize = 40;

/// Resolves every symbolic link and every `..` in `path`, like the operating system. Parts that do
/// not exist are kept. The result is absolute.
///
/// # Errors
/// A link can't be read, or there are too many links, for example in a circle.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    resolve(path, |_, _| ())
}

/// Returns the places of the symbolic links that lead from `path` to its real path. Replacing one
/// of them changes where `path` leads.
///
/// # Errors
/// A link can't be read, or there are too many links, for example in a circle.
pub fn links_of_path(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    resolve(path, |link, _| links.push(link.to_owned()))?;
    Ok(links)
}

/// Returns true if `path` passes through a link of a process, such as `/proc/self/cwd`. It can then
/// mean another file in another process, or later. The descriptors of this process, such as
/// `/dev/stdin`, do not count.
pub fn depends_on_process(path: &Path) -> bool {
    let own_descriptors = format!("/proc/{}/fd", std::process::id());
    let mut depends = false;
    // Links before an error still count.
    let _ = resolve(path, |link, is_last| {
        let below = link
            .strip_prefix("/proc")
            .map(|below| below.components().count());
        let is_of_process = below.is_ok_and(|parts| parts > 1);
        let is_own_descriptor = is_last && link.parent() == Some(Path::new(&own_descriptors));
        depends |= is_of_process && !is_own_descriptor;
    });
    depends
}

/// Resolves a path. Calls `on_link` with the path of each link. The flag is true if the link is the
/// last component.
fn resolve(path: &Path, mut on_link: impl FnMut(&Path, bool)) -> io::Result<PathBuf> {
    let mut todo: VecDeque<OsString> = if path.is_absolute() {
        parts(path)
    } else {
        parts(&std::path::absolute(path)?)
    };
    let mut done = PathBuf::new();
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => done.push(name),
            Some(Component::ParentDir) => {
                done.pop();
                continue;
            }
            Some(Component::Prefix(_) | Component::RootDir) => {
                done.push(&part);
                continue;
            }
            Some(Component::CurDir) | None => continue,
        }
        if let Some(target) = link_target(&done)? {
            links += 1;
            if links > MAX_SYMLINKS {
                return Err(io::Error::other("it contains too many symbolic links"));
            }
            on_link(&done, todo.is_empty());
            done.pop();
            for part in parts(&target).into_iter().rev() {
                todo.push_front(part);
            }
        }
    }
    Ok(done)
}

/// Returns the components of a path, to be resolved in this order.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .map(|component| component.as_os_str().to_owned())
        .collect()
}

/// Returns the target of a symbolic link; `None` for other files and for missing paths.
fn link_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => std::fs::read_link(path).map(Some),
        Ok(_) => Ok(None),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_dependent_path_is_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (target, link) in [
            ("/proc/self/cwd/run.sh", "script"),
            ("/proc/thread-self/cwd", "folder"),
            ("/dev/stdin", "input"),
            ("script", "chain"),
            ("plain", "inside"),
        ] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        for path in [
            "/proc/self/cwd/run.sh",
            "/proc/thread-self/cwd/run.sh",
            "/proc/self/task/../cwd/run.sh",
            "/proc/self/root/run.sh",
            "/proc/1/../self/cwd",
            "/dev/fd/../cwd/run.sh",
            "script",
            "chain",
            "folder/run.sh",
            "folder",
        ] {
            assert!(depends_on_process(&at(path)), "{path}");
        }
        for path in [
            "/proc/self/status",
            "/proc/cpuinfo",
            "/dev/stdin",
            "/dev/null",
            "/bin/sh",
            "plain",
            "inside",
            "input",
            "missing/run.sh",
        ] {
            assert!(!depends_on_process(&at(path)), "{path}");
        }
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            real_path(Path::new("src/x")).unwrap(),
            real_path(&here.join("src/x")).unwrap()
        );
        assert!(real_path(Path::new("src")).unwrap().is_absolute());
    }
}
