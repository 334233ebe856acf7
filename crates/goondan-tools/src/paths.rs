//! Where file tools may go: inside the working directory, after every symbolic link is resolved (rule S2).
//!
//! A path is resolved link by link before the file system is asked to do anything, also where its last parts do not
//! exist yet. Files are then opened by the resolved path, without following a link in its last part, and the path is
//! resolved once more when the file is open: a link that was slipped in between is noticed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};

use goondan_runtime::ports::tool::{ToolContext, ToolError};

use crate::errors;

/// How many symbolic links a path may lead through.
const MOST_LINKS: usize = 40;

/// The folder that file tools do not leave.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    /// Absolute and free of symbolic links.
    folder: PathBuf,
}

/// A path that was found to be inside the root.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The path as the caller wrote it, for messages.
    pub(crate) given: String,
    /// Absolute and free of symbolic links. The file itself need not exist.
    pub(crate) path: PathBuf,
}

impl Root {
    /// The working directory of a call.
    pub(crate) fn of(ctx: &ToolContext) -> Result<Root, ToolError> {
        Root::at(&ctx.workdir)
    }

    /// The folder `path`, which must exist.
    pub(crate) fn at(path: &Path) -> Result<Root, ToolError> {
        let folder = path
            .canonicalize()
            .map_err(|error| errors::io(format_args!("open the working directory `{}`", path.display()), &error))?;
        Ok(Root { folder })
    }

    /// The folder itself, absolute and free of symbolic links.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where `given` leads: relative to the root, or absolute but inside it.
    pub(crate) fn resolve(&self, given: &str) -> Result<Place, ToolError> {
        if given.is_empty() || given.contains('\0') {
            return Err(errors::invalid("a path must not be empty or hold a NUL character"));
        }
        let path = real_path(&self.folder.join(given))
            .map_err(|error| errors::io(format_args!("follow the path `{given}`"), &error))?;
        if !path.starts_with(&self.folder) {
            return Err(self.escape(given));
        }
        if is_own(self.relative(&path)) {
            return Err(own(given));
        }
        Ok(Place { given: given.to_owned(), path })
    }

    /// `path` as it is written from the root; `.` for the root itself.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.folder) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        }
    }

    /// Opens a regular file for reading, and tells about it.
    pub(crate) fn open(&self, place: &Place) -> Result<(File, Metadata), ToolError> {
        let what = format!("read `{}`", place.given);
        let kind = std::fs::symlink_metadata(&place.path).map_err(|error| errors::io(&what, &error))?;
        expect_file(&kind, &what)?;
        let file = self.open_with(place, &what, OpenOptions::new().read(true))?;
        let metadata = file.metadata().map_err(|error| errors::io(&what, &error))?;
        expect_file(&metadata, &what)?;
        Ok((file, metadata))
    }

    /// Opens a file for appending, and makes it where it does not exist.
    pub(crate) fn open_to_append(&self, place: &Place) -> Result<File, ToolError> {
        let what = format!("append to `{}`", place.given);
        if let Ok(metadata) = std::fs::symlink_metadata(&place.path) {
            expect_file(&metadata, &what)?;
        }
        self.open_with(place, &what, OpenOptions::new().append(true).create(true))
    }

    /// Makes the folders above `place`.
    pub(crate) fn create_parents(&self, place: &Place) -> Result<(), ToolError> {
        let parent = place.path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(parent)
            .map_err(|error| errors::io(format_args!("make the folder of `{}`", place.given), &error))?;
        self.check_again(place)
    }

    /// Fails if `place` leads elsewhere by now.
    pub(crate) fn check_again(&self, place: &Place) -> Result<(), ToolError> {
        match real_path(&place.path) {
            Ok(path) if path == place.path => Ok(()),
            _ => Err(self.escape(&place.given)),
        }
    }

    /// Opens the resolved path as it is: no link in its last part, no waiting for the other end of a pipe.
    fn open_with(&self, place: &Place, what: &str, options: &mut OpenOptions) -> Result<File, ToolError> {
        #[cfg(unix)]
        {
            use nix::fcntl::OFlag;
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        }
        let file = options.open(&place.path).map_err(|error| errors::io(what, &error))?;
        self.check_again(place)?;
        Ok(file)
    }

    fn escape(&self, given: &str) -> ToolError {
        ToolError::new(format!("`{given}` leads out of the working directory {}", self.folder.display()))
            .code(errors::PATH_ESCAPE)
            .suggest("use a path relative to the working directory, without `..` or links that leave it")
    }
}

/// Whether a path below the root lies in the folder where a project keeps what people have allowed. Who could write there could allow
/// anything. Some file systems do not tell letters by case.
fn is_own(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".goondan"))
}

fn own(given: &str) -> ToolError {
    ToolError::new(format!("`{given}` lies in the folder `.goondan`, which keeps what people have allowed"))
        .code(errors::PATH_ESCAPE)
        .suggest("leave that folder alone")
}

/// Anything but a regular file is an error that says what it is instead.
fn expect_file(metadata: &Metadata, what: &str) -> Result<(), ToolError> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { "it is a folder" } else { "it is not a regular file" };
    Err(ToolError::new(format!("cannot {what}: {kind}")).code(errors::WRONG_FILE_TYPE))
}

/// `path` with every symbolic link and every `..` in it resolved, as the operating system would. Parts that do not
/// exist are kept as they are. `path` must be absolute.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut todo: VecDeque<OsString> = parts(path);
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
    path.components().map(|component| component.as_os_str().to_owned()).collect()
}

/// Where `path` points, if it is a symbolic link. What does not exist is none.
fn link_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => std::fs::read_link(path).map(Some),
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// A root `in` beside a folder `out`, with links of every kind.
    fn tree() -> (TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(inside.join("file"), "f").unwrap();
        symlink("a", inside.join("to-a")).unwrap();
        symlink(inside.join("file"), inside.join("absolute")).unwrap();
        symlink(&outside, inside.join("leave")).unwrap();
        symlink("../out/deep", inside.join("deep")).unwrap();
        symlink("../out/new", inside.join("dangling")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        let root = Root::at(&inside).unwrap();
        (dir, root)
    }

    fn code(root: &Root, path: &str) -> Option<String> {
        root.resolve(path).err().and_then(|error| error.code)
    }

    #[test]
    fn paths_inside_resolve_also_when_new() {
        let (_dir, root) = tree();
        let at = |path: &str| root.resolve(path).unwrap().path;
        assert_eq!(at("."), root.folder());
        assert_eq!(at("to-a/b/../new/x"), root.folder().join("a/new/x"));
        assert_eq!(at("absolute"), root.folder().join("file"));
        assert_eq!(at("../in/file"), root.folder().join("file"));
        assert_eq!(at(root.folder().join("n/m").to_str().unwrap()), root.folder().join("n/m"));
    }

    #[test]
    fn paths_that_leave_are_refused() {
        let (dir, root) = tree();
        let absolute = dir.path().join("out/secret").display().to_string();
        let paths =
            ["..", "../out/secret", "a/../../out", "leave/secret", "leave", "deep/..", "deep/x", "dangling", &absolute];
        for path in paths {
            assert_eq!(code(&root, path).as_deref(), Some(errors::PATH_ESCAPE), "{path}");
        }
        assert_eq!(code(&root, "loop").as_deref(), Some(errors::IO));
        assert_eq!(code(&root, "").as_deref(), Some(errors::INVALID_ARGS));
        assert_eq!(code(&root, "a\0b").as_deref(), Some(errors::INVALID_ARGS));
        // A name that merely begins like the root is not in it.
        assert_eq!(code(&root, "../inside").as_deref(), Some(errors::PATH_ESCAPE));
    }

    #[test]
    fn a_link_that_is_slipped_in_later_is_noticed() {
        let (dir, root) = tree();
        let place = root.resolve("a/b/secret").unwrap();
        fs::remove_dir(root.folder().join("a/b")).unwrap();
        symlink(dir.path().join("out"), root.folder().join("a/b")).unwrap();
        assert_eq!(root.open(&place).unwrap_err().code.as_deref(), Some(errors::PATH_ESCAPE));
        assert_eq!(root.open_to_append(&place).unwrap_err().code.as_deref(), Some(errors::PATH_ESCAPE));
        assert_eq!(fs::read_to_string(dir.path().join("out/secret")).unwrap(), "s");
    }

    #[test]
    fn only_regular_files_are_read() {
        let (_dir, root) = tree();
        nix::unistd::mkfifo(&root.folder().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in ["a", "pipe"] {
            let error = root.open(&root.resolve(path).unwrap()).unwrap_err();
            assert_eq!(error.code.as_deref(), Some(errors::WRONG_FILE_TYPE), "{path}");
        }
    }

    proptest! {
        /// Whatever the path, what it resolves to is inside, and it is what the operating system finds there.
        #[test]
        fn nothing_leaves_the_root(parts in proptest::collection::vec(
            prop_oneof![
                Just(".."), Just("."), Just("a"), Just("b"), Just("to-a"), Just("leave"), Just("deep"),
                Just("absolute"), Just("dangling"), Just("in"), Just("out"), Just("secret"), Just("new"), Just("/"),
            ],
            1..8,
        )) {
            let (_dir, root) = tree();
            let given = parts.join("/");
            if let Ok(place) = root.resolve(&given) {
                prop_assert!(place.path.starts_with(root.folder()));
                if let Ok(real) = root.folder().join(&given).canonicalize() {
                    prop_assert_eq!(real, place.path);
                }
            }
        }
    }
}
