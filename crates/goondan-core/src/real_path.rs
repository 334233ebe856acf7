//! Where a path leads, also where it does not exist yet.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links a path may lead through.
const MOST_LINKS: usize = 40;

/// `path` with every symbolic link and every `..` in it resolved, as the operating system would. Parts that do not
/// exist are kept as they are. It is absolute, whether `path` is or not. Fails where links go round in a circle.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
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
            if links > MOST_LINKS {
                return Err(io::Error::other("it leads through too many symbolic links"));
            }
            done.pop();
            for part in parts(&target).into_iter().rev() {
                todo.push_front(part);
            }
        }
    }
    Ok(done)
}

/// The components of a path, each as text of its own.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .map(|component| component.as_os_str().to_owned())
        .collect()
}

/// Where `path` points, if it is a symbolic link. What does not exist is none.
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

    #[test]
    fn a_relative_path_is_made_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            real_path(Path::new("src/x")).unwrap(),
            real_path(&here.join("src/x")).unwrap()
        );
        assert!(real_path(Path::new("src")).unwrap().is_absolute());
    }
}
