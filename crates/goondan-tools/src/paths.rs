//! Limits file tools to the working directory, after resolving every symbolic link (rule S2).
//!
//! A path is resolved link by link before any operation, even if its last components do not exist
//! yet. Files are then accessed by the resolved path, component by component and without following
//! links. So a link inserted in between has no effect.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use goondan_core::path_style::PathStyle;
use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_core::real_path::real_path;
use goondan_spec::Code;
use serde::Deserialize;

use crate::configured_directory::configured_directory;
use crate::errors;
use crate::file_changes::{StaleWriteGuard, StaleWritePolicy};
use crate::state_directory;
use goondan_core::nofollow_fs::{
    DirectoryEntryKind, DirectoryHandle, EntryMetadata, FileOpenMode, metadata_beneath,
    open_beneath, open_regular_file,
};

/// The directory that file tools must not leave.
#[derive(Debug, Clone)]
pub(crate) struct FileRoot {
    /// Absolute path without symbolic links.
    folder: PathBuf,
    /// Additional permitted directories, also without symbolic links.
    others: Vec<PathBuf>,
}

/// Config of a file tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FileToolSettings {
    /// Additional directories that the tool may access. Relative paths start at the project; `~/`
    /// is the home directory.
    #[serde(default)]
    roots: Vec<String>,
    /// Treatment of a write to a file that another conversation has changed.
    #[serde(default)]
    stale_writes: StaleWritePolicy,
}

impl FileToolSettings {
    /// The keys for the documentation.
    pub(crate) const CONFIG_KEYS: &[(&str, &str)] = &[
        (
            "roots",
            "a list of directories, relative to the project or starting with `~/`, that calls may \
            use by absolute path in addition to the working directory",
        ),
        (
            "staleWrites",
            "effect of a write to a file that another conversation has changed since this \
            one read it: `deny` (default; `E_TOOL_STALE` shows the change), `warn` (the result \
            shows the change) or `allow`",
        ),
    ];

    /// Returns the stale-write guard for the conversation of a call.
    pub(crate) fn guard(&self, ctx: &ToolContext) -> StaleWriteGuard {
        StaleWriteGuard::of(ctx, self.stale_writes)
    }

    /// Returns the permitted directories of a call. Missing directories are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a link in the project leads to a directory: an agent could have made it.
    pub(crate) fn of(&self, ctx: &ToolContext) -> Result<FileRoot, ToolError> {
        let roots = self.roots.iter();
        let others: Vec<Option<PathBuf>> = roots
            .map(|root| configured_directory(ctx, root))
            .collect::<Result<_, _>>()?;
        Ok(FileRoot {
            others: others
                .into_iter()
                .flatten()
                .filter(|root| root.is_dir())
                .collect(),
            ..FileRoot::of(ctx)?
        })
    }
}

/// Checks that the working directory has not been replaced by a link since the call began.
pub(crate) fn still_there(ctx: &ToolContext) -> Result<(), ToolError> {
    ctx.workdir
        .canonicalize()
        .map_or(Ok(()), |real| check_workdir_unmoved(ctx, &real))
}

/// Fails if the working directory is now at `real`, which is elsewhere.
fn check_workdir_unmoved(ctx: &ToolContext, real: &Path) -> Result<(), ToolError> {
    if cfg!(unix) && real != ctx.workdir {
        let message = format!(
            "the working directory {} was replaced by a symbolic link",
            ctx.workdir.display()
        );
        return Err(ToolError::new(message).code(Code::TOOL_PATH_ESCAPE));
    }
    Ok(())
}

/// A path that was found to be inside the root.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPath {
    /// The caller's path, for messages.
    pub(crate) given: String,
    /// Absolute path without symbolic links. The file itself need not exist.
    pub(crate) path: PathBuf,
}

impl AsRef<Path> for ResolvedPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl FileRoot {
    /// Returns the working directory of a call.
    pub(crate) fn of(ctx: &ToolContext) -> Result<FileRoot, ToolError> {
        let root = FileRoot::at(&ctx.workdir)?;
        check_workdir_unmoved(ctx, &root.folder)?;
        Ok(root)
    }

    /// Returns the root for the directory `path`, which must exist.
    pub(crate) fn at(path: &Path) -> Result<FileRoot, ToolError> {
        let folder = path.canonicalize().map_err(|error| {
            errors::io(
                format_args!("open the working directory `{}`", path.display()),
                &error,
            )
        })?;
        Ok(FileRoot::exactly(folder))
    }

    /// Returns the root for the directory `folder`, which is absolute and without symbolic links. If a
    /// link replaces it later, accesses fail.
    pub(crate) fn exactly(folder: PathBuf) -> FileRoot {
        FileRoot {
            folder,
            others: Vec::new(),
        }
    }

    /// Returns the directory, as an absolute path without symbolic links.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Resolves `given`: relative to the root, or absolute but inside it.
    pub(crate) fn resolve(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        if given.is_empty() || given.contains('\0') {
            return Err(errors::invalid(
                "a path must not be empty or contain a NUL character",
            ));
        }
        if PathStyle::NATIVE.is_ambiguous(given) {
            let message = format!(
                "`{given}` is an alternative file name, an alternate data stream, or a \
                    device"
            );
            return Err(ToolError::new(message)
                .code(Code::TOOL_PATH_ESCAPE)
                .suggest("use the plain file name"));
        }
        let path = real_path(&self.folder.join(given))
            .map_err(|error| errors::io(format_args!("follow the path `{given}`"), &error))?;
        if !path.starts_with(&self.folder)
            && !self.others.iter().any(|other| path.starts_with(other))
        {
            return Err(self.escape_error(given));
        }
        if self.is_protected(&path) {
            return Err(protected_directory_error(given));
        }
        Ok(ResolvedPath {
            given: given.to_owned(),
            path,
        })
    }

    /// Returns `path` relative to the root; `.` for the root itself.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.folder) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        }
    }

    /// Returns `path` for a result: relative to the root, with U+FFFD for what is not UTF-8.
    pub(crate) fn shown(&self, path: &Path) -> String {
        self.relative(path).to_string_lossy().into_owned()
    }

    /// Resolves `given` like [`FileRoot::resolve`], but does not follow a link in the last
    /// component. For operations on a name, such as deleting.
    pub(crate) fn resolve_name(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        let path = Path::new(given);
        let Some(name) = path.file_name().filter(|_| !ends_in_separator(given)) else {
            return self.resolve(given);
        };
        let parent = match path.parent().map(Path::to_string_lossy) {
            Some(parent) if !parent.is_empty() => parent.into_owned(),
            _ => ".".to_owned(),
        };
        let parent = self.resolve(&parent).map_err(|error| {
            match error.code.as_deref() == Some(Code::TOOL_PATH_ESCAPE.as_str()) {
                true => self.escape_error(given),
                false => error,
            }
        })?;
        let path = parent.path.join(name);
        if !path.is_symlink() {
            return self.resolve(given);
        }
        if self.is_protected(&path) {
            return Err(protected_directory_error(given));
        }
        Ok(ResolvedPath {
            given: given.to_owned(),
            path,
        })
    }

    /// Opens a regular file for reading, and returns its metadata.
    pub(crate) fn open(&self, resolved: &ResolvedPath) -> Result<(File, Metadata), ToolError> {
        let what = format!("read `{}`", resolved.given);
        let kind =
            std::fs::symlink_metadata(&resolved.path).map_err(|error| errors::io(&what, &error))?;
        expect_file(&kind, &what)?;
        let file = self.open_with(resolved, &what, FileOpenMode::Read)?;
        let metadata = file.metadata().map_err(|error| errors::io(&what, &error))?;
        expect_file(&metadata, &what)?;
        Ok((file, metadata))
    }

    /// Opens a regular file that a walk below a resolved path has found.
    pub(crate) fn open_found(&self, path: &Path) -> io::Result<File> {
        open_regular_file(self.base_of(path), path)
    }

    /// Returns the metadata of a regular file that a walk has found. Returns `None` if a link was
    /// inserted during the walk, so that it found a file outside.
    pub(crate) fn look_at_found(&self, path: &Path) -> Option<EntryMetadata> {
        metadata_beneath(self.base_of(path), path)
            .ok()
            .flatten()
            .filter(|metadata| metadata.kind == DirectoryEntryKind::File)
    }

    /// Opens a resolved directory.
    pub(crate) fn open_directory(&self, resolved: &ResolvedPath) -> io::Result<DirectoryHandle> {
        DirectoryHandle::open(self.base_of(&resolved.path), &resolved.path)
    }

    /// Opens a file for appending, and creates it if necessary.
    pub(crate) fn open_to_append(&self, resolved: &ResolvedPath) -> Result<File, ToolError> {
        self.open_to_change(
            resolved,
            &format!("append to `{}`", resolved.given),
            FileOpenMode::Append,
        )
    }

    /// Opens a file for writing, and truncates or creates it.
    pub(crate) fn open_to_write(&self, resolved: &ResolvedPath) -> Result<File, ToolError> {
        let what = format!("write `{}`", resolved.given);
        let file = self.open_to_change(resolved, &what, FileOpenMode::Write)?;
        let emptied = file.metadata().map(|metadata| {
            expect_file(&metadata, &what)
                .and_then(|()| file.set_len(0).map_err(|error| errors::io(&what, &error)))
        });
        emptied.map_err(|error| errors::io(&what, &error))??;
        Ok(file)
    }

    /// Opens a file for a change. Fails if the path is not a regular file. `what` is the operation,
    /// for messages.
    fn open_to_change(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        how: FileOpenMode,
    ) -> Result<File, ToolError> {
        if let Ok(metadata) = std::fs::symlink_metadata(&resolved.path) {
            expect_file(&metadata, what)?;
        }
        self.open_with(resolved, what, how)
    }

    /// Creates the parent directories of `resolved`. Succeeds if they exist.
    pub(crate) fn create_parents(&self, resolved: &ResolvedPath) -> Result<(), ToolError> {
        let parent = resolved
            .path
            .parent()
            .filter(|_| !self.is_base(resolved))
            .unwrap_or(&resolved.path);
        self.create_folder_path(resolved, parent)
    }

    /// Creates the directory `resolved` and its parents. Succeeds if it exists.
    pub(crate) fn create_folders(&self, resolved: &ResolvedPath) -> Result<(), ToolError> {
        self.create_folder_path(resolved, &resolved.path)
    }

    /// Creates the directory `path` and its parents. `resolved` is the path in messages.
    fn create_folder_path(&self, resolved: &ResolvedPath, path: &Path) -> Result<(), ToolError> {
        self.check_again(resolved)?;
        let created = DirectoryHandle::make(self.base_of(path), path);
        self.explain(
            resolved,
            format_args!("create the parent directories of `{}`", resolved.given),
            created,
        )
        .map(drop)
    }

    /// Runs `work` with the open parent directory of `resolved` and the file name. `what` is the
    /// operation for messages, such as "write `a.txt`".
    pub(crate) fn in_folder<T>(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> Result<T, ToolError> {
        self.check_again(resolved)?;
        let done = self.with_parent(resolved, work);
        self.explain(resolved, what, done)
    }

    /// Works like [`FileRoot::in_folder`], for a path from [`FileRoot::resolve_name`] whose last
    /// component is a link.
    pub(crate) fn in_folder_of_name<T>(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> Result<T, ToolError> {
        self.with_parent(resolved, work)
            .map_err(|error| errors::io(what, &error))
    }

    /// Opens the parent directory of `resolved` without following links, and runs `work` with it.
    fn with_parent<T>(
        &self,
        resolved: &ResolvedPath,
        work: impl FnOnce(&DirectoryHandle, &OsStr) -> io::Result<T>,
    ) -> io::Result<T> {
        let name = resolved
            .path
            .file_name()
            .filter(|_| !self.is_base(resolved));
        let name = name.ok_or(io::ErrorKind::IsADirectory)?;
        let folder = DirectoryHandle::open_parent(self.base_of(&resolved.path), &resolved.path)?;
        work(&folder, name)
    }

    /// If a path now leads elsewhere, reports that as the cause of a failure.
    fn explain<T>(
        &self,
        resolved: &ResolvedPath,
        what: impl std::fmt::Display,
        done: io::Result<T>,
    ) -> Result<T, ToolError> {
        done.map_err(|error| {
            self.check_again(resolved)
                .err()
                .unwrap_or_else(|| errors::io(what, &error))
        })
    }

    /// Returns whether `resolved` is a root itself.
    fn is_base(&self, resolved: &ResolvedPath) -> bool {
        self.base_of(&resolved.path) == resolved.path
    }

    /// Fails if `resolved` now leads elsewhere.
    pub(crate) fn check_again(&self, resolved: &ResolvedPath) -> Result<(), ToolError> {
        match real_path(&resolved.path) {
            Ok(path) if path == resolved.path => Ok(()),
            _ => Err(self.escape_error(&resolved.given)),
        }
    }

    /// Opens the resolved path without following a link in its last component, and without waiting
    /// for the other end of a pipe.
    fn open_with(
        &self,
        resolved: &ResolvedPath,
        what: &str,
        options: FileOpenMode,
    ) -> Result<File, ToolError> {
        let opened = open_beneath(self.base_of(&resolved.path), &resolved.path, options);
        // If the path now leads elsewhere, that is the cause of a failure.
        self.check_again(resolved)?;
        opened.map_err(|error| errors::io(what, &error))
    }

    /// Returns the root that contains a resolved path.
    fn base_of(&self, path: &Path) -> &Path {
        self.others
            .iter()
            .find(|other| path.starts_with(other))
            .unwrap_or(&self.folder)
    }

    /// Returns true if a path is in the directory of the user's approvals, or in a state directory
    /// that does not contain its root. A root in the directory of the user's tools is not protected,
    /// because it contains no approvals.
    pub(crate) fn is_protected(&self, path: &Path) -> bool {
        let tools = self
            .others
            .iter()
            .filter(|other| is_tools_directory(other))
            .find_map(|other| path.strip_prefix(other).ok());
        is_protected(tools.unwrap_or_else(|| self.relative(path)))
            || state_directory::is_exposed(self.base_of(path), path)
    }

    /// Returns the error of a path that is outside of the roots.
    fn escape_error(&self, given: &str) -> ToolError {
        ToolError::new(format!(
            "`{given}` leads out of the working directory {}",
            self.folder.display()
        ))
        .code(Code::TOOL_PATH_ESCAPE)
        .suggest(
            "use a path relative to the working directory, without `..` or links that leave it",
        )
    }
}

/// Returns true if `path` names a directory by a separator or a dot at its end.
fn ends_in_separator(path: &str) -> bool {
    path.ends_with(std::path::is_separator) || path.ends_with("/.")
}

/// Returns true if a path below the root is in the directory of a project's approvals. Write access
/// there would permit everything. The comparison ignores case, like some file systems.
fn is_protected(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str().eq_ignore_ascii_case(".goondan"))
}

/// Returns true for `.goondan/tools`, which contains custom tools, and for directories in it.
fn is_tools_directory(root: &Path) -> bool {
    let mut names = root.components().map(Component::as_os_str);
    names.any(|name| name.eq_ignore_ascii_case(".goondan"))
        && names.next().is_some_and(|name| name == "tools")
}

/// Returns the error of a path in the directory of the approvals.
fn protected_directory_error(given: &str) -> ToolError {
    ToolError::new(format!(
        "`{given}` is in a directory in which gdn stores approvals and conversations"
    ))
    .code(Code::TOOL_PATH_ESCAPE)
    .suggest("do not access this directory")
}

/// Fails for anything but a regular file, with its actual type.
fn expect_file(metadata: &Metadata, what: &str) -> Result<(), ToolError> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() {
        "it is a directory"
    } else {
        "it is not a regular file"
    };
    Err(ToolError::new(format!("cannot {what}: {kind}")).code(Code::TOOL_WRONG_FILE_TYPE))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// Creates a root `in` next to a directory `out`, with links of all kinds.
    fn tree() -> (TempDir, FileRoot) {
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
        let root = FileRoot::at(&inside).unwrap();
        (dir, root)
    }

    fn code(root: &FileRoot, path: &str) -> Option<String> {
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
        assert_eq!(
            at(root.folder().join("n/m").to_str().unwrap()),
            root.folder().join("n/m")
        );
    }

    #[test]
    fn paths_that_leave_are_refused() {
        let (dir, root) = tree();
        let absolute = dir.path().join("out/secret").display().to_string();
        let paths = [
            "..",
            "../out/secret",
            "a/../../out",
            "leave/secret",
            "leave",
            "deep/..",
            "deep/x",
            "dangling",
            &absolute,
        ];
        for path in paths {
            assert_eq!(
                code(&root, path).as_deref(),
                Some(Code::TOOL_PATH_ESCAPE.as_str()),
                "{path}"
            );
        }
        assert_eq!(code(&root, "loop").as_deref(), Some(Code::TOOL_IO.as_str()));
        assert_eq!(
            code(&root, "").as_deref(),
            Some(Code::TOOL_INVALID_ARGS.as_str())
        );
        assert_eq!(
            code(&root, "a\0b").as_deref(),
            Some(Code::TOOL_INVALID_ARGS.as_str())
        );
        // A name that begins like the root is not inside it.
        assert_eq!(
            code(&root, "../inside").as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str())
        );
    }

    #[test]
    fn other_roots_may_be_gone_to_by_their_absolute_paths() {
        let (dir, root) = tree();
        let root = FileRoot {
            others: vec![dir.path().join("out/deep").canonicalize().unwrap()],
            ..root
        };
        let inside = dir.path().join("out/deep/x").display().to_string();
        assert!(root.resolve(&inside).is_ok() && root.resolve("deep/x").is_ok());
        for path in [
            dir.path().join("out/secret").display().to_string(),
            "deep/../secret".to_owned(),
            "leave/new".to_owned(),
        ] {
            assert_eq!(
                code(&root, &path).as_deref(),
                Some(Code::TOOL_PATH_ESCAPE.as_str()),
                "{path}"
            );
        }
    }

    #[test]
    fn a_link_that_is_slipped_in_later_is_noticed() {
        let (dir, root) = tree();
        let resolved = root.resolve("a/b/secret").unwrap();
        fs::remove_dir(root.folder().join("a/b")).unwrap();
        symlink(dir.path().join("out"), root.folder().join("a/b")).unwrap();
        assert_eq!(
            root.open(&resolved).unwrap_err().code.as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str())
        );
        assert_eq!(
            root.open_to_append(&resolved).unwrap_err().code.as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str())
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("out/secret")).unwrap(),
            "s"
        );
    }

    /// Runs `work` in many rounds, at least until it has succeeded `enough` times. Another thread
    /// repeatedly replaces the directory `a/b` by a link that leaves the tree. Returns the tree.
    fn while_links_come_and_go(
        enough: usize,
        work: impl Fn(&FileRoot, usize) -> bool,
    ) -> (TempDir, FileRoot) {
        use std::sync::atomic::{AtomicBool, Ordering};
        struct EndOf<'a>(&'a AtomicBool);
        impl Drop for EndOf<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (dir, root) = tree();
        let (folder, aside, outside) = (
            root.folder().join("a/b"),
            root.folder().join("a/c"),
            dir.path().join("out"),
        );
        fs::write(folder.join("secret"), "mine").unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // The other thread may have created directories in between.
                    if fs::rename(&folder, &aside).is_ok() && symlink(&outside, &folder).is_ok() {
                        fs::remove_file(&folder).unwrap();
                    }
                    let _ = fs::remove_dir_all(&folder);
                    let _ = fs::rename(&aside, &folder);
                    // Lets the other thread run.
                    std::thread::yield_now();
                }
            });
            // Ends the other thread even after a panic.
            let _end = EndOf(&over);
            let mut done = 0;
            for round in 0.. {
                if round >= 3_000 && done >= enough {
                    break;
                }
                done += usize::from(work(&root, round));
            }
        });
        (dir, root)
    }

    /// Returns the names of all entries outside, recursively, and the contents of the file there.
    fn outside(dir: &TempDir) -> (Vec<String>, String) {
        let names = |path: &str| {
            let entries = fs::read_dir(dir.path().join(path))
                .unwrap()
                .map(Result::unwrap);
            entries
                .map(|entry| format!("{path}/{}", entry.file_name().display()))
                .collect::<Vec<_>>()
        };
        let mut all = [names("out"), names("out/deep")].concat();
        all.sort();
        (
            all,
            fs::read_to_string(dir.path().join("out/secret")).unwrap(),
        )
    }

    fn untouched() -> (Vec<String>, String) {
        (
            vec!["out/deep".to_owned(), "out/secret".to_owned()],
            "s".to_owned(),
        )
    }

    #[test]
    fn reading_under_links_that_come_and_go_lets_nothing_out() {
        let (dir, _) = while_links_come_and_go(1, |root, round| {
            let opened = root
                .resolve("a/b/secret")
                .and_then(|resolved| root.open(&resolved));
            let Ok((mut file, _)) = opened else {
                return false;
            };
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text).unwrap();
            assert_eq!(text, "mine", "round {round}");
            true
        });
        assert_eq!(outside(&dir), untouched());
    }

    #[test]
    fn writing_under_links_that_come_and_go_lets_nothing_out() {
        use crate::file_changes::{create, remove, replace};
        let (dir, root) = while_links_come_and_go(20, |root, round| {
            let Ok(resolved) = root.resolve(&format!("a/b/new-{}", round % 7)) else {
                return false;
            };
            let Ok(known) = root.resolve("a/b/secret") else {
                return false;
            };
            match round % 5 {
                0 => create(root, &resolved, b"new").is_ok(),
                1 => replace(root, &known, b"mine").is_ok(),
                2 => remove(root, &resolved).is_ok(),
                3 => root
                    .open_to_append(&known)
                    .and_then(|mut file| {
                        std::io::Write::write_all(&mut file, b"")
                            .map_err(|error| errors::io("append", &error))
                    })
                    .is_ok(),
                _ => replace(root, &resolved, b"new").is_ok(),
            }
        });
        assert_eq!(outside(&dir), untouched());
        let left = fs::read_dir(root.folder().join("a"))
            .unwrap()
            .flat_map(|entry| fs::read_dir(entry.unwrap().path()));
        let drafts = left.flatten().filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with(".tmp-")
        });
        assert_eq!(drafts.count(), 0);
    }

    #[test]
    fn making_folders_under_links_that_come_and_go_lets_nothing_out() {
        let (dir, _) = while_links_come_and_go(20, |root, round| {
            let Ok(resolved) = root.resolve(&format!("a/b/folder-{round}/deep/file")) else {
                return false;
            };
            match round % 2 {
                0 => root.create_parents(&resolved).is_ok(),
                _ => root.create_folders(&resolved).is_ok(),
            }
        });
        assert_eq!(outside(&dir), untouched());
    }

    #[test]
    fn a_root_of_custom_tools_is_not_protected() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("work")).unwrap();
        fs::create_dir_all(top.join("home/.goondan/tools/x")).unwrap();
        let reaches = |root: &str, path: &str| {
            let root = FileRoot {
                others: vec![top.join(root)],
                ..FileRoot::at(&top.join("work")).unwrap()
            };
            let path = top.join(path);
            root.resolve(path.to_str().unwrap()).is_ok()
        };
        let tools = "home/.goondan/tools";
        assert!(reaches(tools, "home/.goondan/tools/x/run.sh"));
        assert!(reaches(
            "home/.goondan/tools/x",
            "home/.goondan/tools/x/run.sh"
        ));
        assert!(!reaches(tools, "home/.goondan/approvals.json"));
        assert!(!reaches(tools, "home/.goondan/tools/x/.goondan/y"));
        // Only a root that names the directory counts.
        assert!(!reaches("home", "home/.goondan/tools/x/run.sh"));
        assert!(!reaches("home/.goondan", "home/.goondan/tools/x/run.sh"));
    }

    #[test]
    fn a_link_that_is_there_already_gets_no_content() {
        use crate::file_changes::{create, remove, replace};
        let (dir, root) = tree();
        let resolved = root.resolve("a/b/secret").unwrap();
        symlink(dir.path().join("out/secret"), &resolved.path).unwrap();
        for done in [
            replace(&root, &resolved, b"x"),
            create(&root, &resolved, b"x").map(drop),
            remove(&root, &resolved),
        ] {
            assert_eq!(
                done.unwrap_err().code.as_deref(),
                Some(Code::TOOL_PATH_ESCAPE.as_str())
            );
        }
        assert_eq!(outside(&dir), untouched());
        let folder = FileRoot::resolve(&root, ".").unwrap();
        assert_eq!(
            replace(&root, &folder, b"x").unwrap_err().code.as_deref(),
            Some(Code::TOOL_WRONG_FILE_TYPE.as_str())
        );
    }

    #[test]
    fn only_regular_files_are_read() {
        let (_dir, root) = tree();
        nix::unistd::mkfifo(&root.folder().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in ["a", "pipe"] {
            let error = root.open(&root.resolve(path).unwrap()).unwrap_err();
            assert_eq!(
                error.code.as_deref(),
                Some(Code::TOOL_WRONG_FILE_TYPE.as_str()),
                "{path}"
            );
        }
    }

    proptest! {
        /// Every resolved path is inside, and is the path that the operating system finds.
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
            if let Ok(resolved) = root.resolve(&given) {
                prop_assert!(resolved.path.starts_with(root.folder()));
                if let Ok(real) = root.folder().join(&given).canonicalize() {
                    prop_assert_eq!(real, resolved.path);
                }
            }
        }
    }
}
