//! Paths in a bundle: relative to its root, and always inside it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::computed_imports::ModuleFiles;
use crate::decode::FieldReader;
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::files::{FileAccess, FileKind};
use crate::relative_paths::join_relative;
use crate::secret_files::SecretFiles;
use crate::text::{excerpt, reason};

/// Maximum size of a file that is read completely, in bytes (rule L2).
pub(crate) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The directory that all paths of a bundle are relative to, with caches of its file kinds.
pub(crate) struct BundleDirectory<'f> {
    pub(crate) files: &'f dyn FileAccess,
    pub(crate) root: &'f Path,
    /// Root with symbolic links resolved.
    canonical: PathBuf,
    /// Top directory of the surrounding git repository.
    repository: Option<PathBuf>,
    /// Cached file kinds by path: ten thousand tools may share one library.
    seen: Mutex<HashMap<String, PathState>>,
    /// Cached files of a module, by its path: ten thousand tools may share one module.
    modules: Mutex<HashMap<String, ModuleFiles>>,
    /// Files with keys.
    secrets: SecretFiles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathState {
    /// `None` if nothing is there or it is inaccessible.
    kind: Option<FileKind>,
    leaves: bool,
    /// The path below the root contains a symbolic link.
    has_link: bool,
}

impl PathState {
    /// Returns true if symbolic links lead out of the bundle.
    pub(crate) fn leaves_folder(self) -> bool {
        self.leaves
    }
}

#[derive(Debug)]
pub(crate) enum FileReadError {
    TooLarge,
    NotText(FromUtf8Error),
    Io(io::Error),
}

impl<'f> BundleDirectory<'f> {
    pub(crate) fn new(files: &'f dyn FileAccess, root: &'f Path) -> Self {
        let canonical = files.canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let repository = repository_around(files, &canonical).map(Path::to_owned);
        BundleDirectory {
            files,
            root,
            secrets: SecretFiles::below([&canonical]),
            canonical,
            repository,
            seen: Mutex::default(),
            modules: Mutex::default(),
        }
    }

    /// Returns true if a file can contain keys, by the real path `real` or by another name of it.
    fn may_contain_keys(&self, real: &Path) -> bool {
        let is_link = |metadata| self.secrets.contains_link(&metadata);
        self.secrets.contains_name(real) || self.files.metadata(real).is_some_and(is_link)
    }

    /// Returns the state of a relative path, from the cache if possible.
    pub(crate) fn path_state(&self, relative: &str) -> PathState {
        if let Some(state) = self.lock().get(relative) {
            return *state;
        }
        let path = self.root.join(relative);
        // A missing file leads to the same place as its nearest existing directory. Paths above the
        // root are not checked.
        let inner = path
            .ancestors()
            .take_while(|path| path.starts_with(self.root));
        let known_parent = inner
            .into_iter()
            .find_map(|path| Some((path, self.files.canonicalize(path).ok()?)));
        let leaves = known_parent
            .as_ref()
            .is_some_and(|(_, target)| !target.starts_with(&self.canonical));
        let state = PathState {
            kind: self.files.kind(&path).ok(),
            leaves,
            has_link: known_parent.is_some_and(|(path, target)| self.is_link(path, &target)),
        };
        self.lock().insert(relative.to_owned(), state);
        state
    }

    /// Returns true if the target of a path shows that the path contains a link. The target has the
    /// case of the file system.
    fn is_link(&self, path: &Path, target: &Path) -> bool {
        let folded = |path: &Path| {
            // Without `.`.
            let path: PathBuf = path.components().collect();
            path.to_string_lossy().to_lowercase()
        };
        let below = path.strip_prefix(self.root).unwrap_or(path);
        folded(target) != folded(&self.canonical.join(below))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PathState>> {
        // A panic while the lock is held cannot leave the map inconsistent.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a text file of at most [`MAX_FILE_BYTES`], including its byte order mark.
    pub(crate) fn read(&self, relative: &str) -> Result<String, FileReadError> {
        self.read_at(&self.root.join(relative))
    }

    /// Reads a text file. Fails if it is not a regular file, is too large or is not UTF-8.
    fn read_at(&self, path: &Path) -> Result<String, FileReadError> {
        match self.files.kind(path) {
            Ok(FileKind::File) => {}
            Ok(FileKind::Directory) => {
                return Err(FileReadError::Io(io::Error::other("it is a directory")));
            }
            Ok(_) => {
                return Err(FileReadError::Io(io::Error::other(
                    "it is not a regular file",
                )));
            }
            Err(error) => return Err(FileReadError::Io(error)),
        }
        let bytes = self
            .files
            .read(path, MAX_FILE_BYTES)
            .map_err(FileReadError::Io)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FileReadError::TooLarge);
        }
        String::from_utf8(bytes).map_err(FileReadError::NotText)
    }
}

/// Records the file accesses of decoding one document.
///
/// If the decoder only checks file kinds at paths, its result is reusable as long as the text and
/// these kinds are unchanged.
pub(crate) struct PathLookups<'f> {
    folder: &'f BundleDirectory<'f>,
    /// Directory of the document's package, relative to the root. Empty for the project itself.
    base: &'f str,
    seen: RefCell<Vec<(String, PathState)>>,
    /// Set if the result depends on more than file kinds.
    is_uncacheable: Cell<bool>,
}

impl<'f> PathLookups<'f> {
    /// Creates lookups for the files of a package whose directory is `base`.
    pub(crate) fn for_package(folder: &'f BundleDirectory<'f>, base: &'f str) -> Self {
        PathLookups {
            folder,
            base,
            seen: RefCell::default(),
            is_uncacheable: Cell::new(false),
        }
    }

    /// Returns the directory of the document's package. Empty for the project itself.
    pub(crate) fn package_directory(&self) -> &str {
        self.base
    }

    pub(crate) fn is_installed(&self) -> bool {
        !self.base.is_empty()
    }

    /// Records that the result depends on more than file kinds, so it cannot be reused.
    pub(crate) fn mark_uncacheable(&self) {
        self.is_uncacheable.set(true);
    }

    /// Returns the checked paths with their file kinds, or `None` if the result depends on more.
    pub(crate) fn into_seen(self) -> Option<Vec<(String, PathState)>> {
        (!self.is_uncacheable.get()).then(|| self.seen.into_inner())
    }

    /// Returns the state of a path, and records it as a dependency of the decoded resource.
    fn path_state(&self, relative: &str) -> PathState {
        let state = self.folder.path_state(relative);
        self.seen.borrow_mut().push((relative.to_owned(), state));
        state
    }

    /// Returns the path in `field`, relative to the root and normalized, or reports that it leaves
    /// the bundle. Paths of a package start from its directory.
    pub(crate) fn path(
        &self,
        field: &FieldReader<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<String> {
        let text = field.text(findings)?;
        self.path_of(field, text, findings)
    }

    /// Resolves a path like [`PathLookups::path`], but always from the project, even in a package.
    pub(crate) fn path_in_project(
        &self,
        field: &FieldReader<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<String> {
        PathLookups::for_package(self.folder, "").path(field, findings)
    }

    /// Resolves `text`, the value of `field`, like [`PathLookups::path`].
    pub(crate) fn path_of(
        &self,
        field: &FieldReader<'_>,
        text: &str,
        findings: &mut DiagnosticSink,
    ) -> Option<String> {
        let located = normalize_path(text).map(|relative| match relative.as_str() {
            "." if self.is_installed() => self.base.to_owned(),
            _ => join_relative(self.base, &relative),
        });
        match located {
            Ok(relative) if self.leaves_by_link(&relative) => {
                let message = format!(
                    "`{}` is `{}`, which leads out of the bundle through a link.",
                    field.path,
                    excerpt(text, 200)
                );
                let suggestion = "copy the target of the link into the bundle";
                findings.add(
                    field
                        .diagnostic(Code::PATH_ESCAPE, message)
                        .suggest(suggestion),
                );
                None
            }
            Ok(relative) => Some(relative),
            Err(InvalidPath::Leaves(why)) => {
                let message = format!("`{}` is `{}`, {why}.", field.path, excerpt(text, 200));
                let suggestion =
                    "use a path below the directory of goondan.yaml, such as `./tools/name`";
                findings.add(
                    field
                        .diagnostic(Code::PATH_ESCAPE, message)
                        .suggest(suggestion),
                );
                None
            }
            Err(InvalidPath::Unclear(why)) => {
                findings.add(
                    field.invalid_value(format!("`{}` is not a valid path: {why}.", field.path)),
                );
                None
            }
        }
    }

    /// Returns the root of the Git repository. The result depends on files outside the project, so
    /// it is not cached.
    pub(crate) fn repository_root(&self) -> Option<&PathBuf> {
        self.mark_uncacheable();
        self.folder.repository.as_ref()
    }

    /// Returns the bundle's directory with symbolic links resolved.
    pub(crate) fn canonical_root(&self) -> &Path {
        &self.folder.canonical
    }

    /// Returns the resolved directory at `path`, which may be outside the bundle. `None` if there
    /// is no directory.
    pub(crate) fn folder_outside(&self, path: &str) -> Option<PathBuf> {
        self.mark_uncacheable();
        let real = self
            .folder
            .files
            .canonicalize(&self.folder.canonical.join(path))
            .ok()?;
        (self.folder.files.kind(&real).ok()? == FileKind::Directory).then_some(real)
    }

    /// Returns true if the path is a file.
    pub(crate) fn is_file(&self, relative: &str) -> bool {
        matches!(self.path_state(relative).kind, Some(FileKind::File))
    }

    /// Lists a directory. Symbolic links are not followed.
    pub(crate) fn list_directory(&self, relative: &str) -> io::Result<Vec<(String, FileKind)>> {
        self.mark_uncacheable();
        self.folder
            .files
            .list_directory(&self.folder.root.join(relative))
    }

    /// Returns true if the path is a directory.
    pub(crate) fn is_folder(&self, relative: &str) -> bool {
        self.path_state(relative).kind == Some(FileKind::Directory)
    }

    /// Reads a text file of at most [`MAX_FILE_BYTES`], including its byte order mark.
    ///
    /// Fails if the file can contain keys.
    pub(crate) fn read(&self, relative: &str) -> Result<String, FileReadError> {
        self.mark_uncacheable();
        let path = self.folder.root.join(relative);
        let real = self.folder.files.canonicalize(&path);
        if real.is_ok_and(|real| self.folder.may_contain_keys(&real)) {
            let refusal = io::Error::other("it may contain keys of the project");
            return Err(FileReadError::Io(refusal));
        }
        self.folder.read(relative)
    }

    /// Returns true if a file can contain keys, by the real path `real` or by another name of it.
    pub(crate) fn may_contain_keys(&self, real: &Path) -> bool {
        self.folder.may_contain_keys(real)
    }

    /// Reads a text file inside the repository, or inside the bundle if there is no repository.
    /// Returns its content and its resolved path.
    ///
    /// Fails with [`io::ErrorKind::PermissionDenied`] if the file is outside.
    pub(crate) fn read_in_repository(
        &self,
        path: &Path,
    ) -> Result<(String, PathBuf), FileReadError> {
        self.mark_uncacheable();
        let top = self
            .folder
            .repository
            .as_deref()
            .unwrap_or(&self.folder.canonical);
        let real = self.folder.files.canonicalize(path);
        if real.as_ref().is_ok_and(|real| !real.starts_with(top)) {
            let outside_error = io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it leads out of the repository",
            );
            return Err(FileReadError::Io(outside_error));
        }
        Ok((self.folder.read_at(path)?, real.map_err(FileReadError::Io)?))
    }

    /// Returns the files of the module at `path`. `find` runs once per load.
    pub(crate) fn module_files(
        &self,
        path: &str,
        find: impl FnOnce() -> ModuleFiles,
    ) -> ModuleFiles {
        self.mark_uncacheable();
        let known_files = || {
            self.folder
                .modules
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(files) = known_files().get(path) {
            return files.clone();
        }
        let files = find();
        known_files().insert(path.to_owned(), files.clone());
        files
    }

    /// Reads the text file named by `field`, such as a prompt, and adds it to the bundle's files.
    pub(crate) fn text_at(
        &self,
        field: &FieldReader<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<(String, String)> {
        let relative = self.path(field, findings)?;
        let problem = match self.read(&relative) {
            Ok(text) => {
                findings.depends_on(relative.clone());
                return Some((relative, text.trim_start_matches('\u{feff}').to_owned()));
            }
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "`{}` is `{relative}`, but there is no such file.",
                    field.path
                );
                field.diagnostic(Code::ENTRY_NOT_FOUND, message).suggest(
                    "create it, or correct the path; it is relative to the directory of \
                    goondan.yaml",
                )
            }
            Err(FileReadError::Io(error)) => field
                .diagnostic(
                    Code::ENTRY_NOT_FOUND,
                    format!("`{relative}` cannot be read: {}.", reason(&error)),
                )
                .suggest("use a text file that you may read"),
            Err(FileReadError::TooLarge) => field
                .diagnostic(
                    Code::FILE_TOO_LARGE,
                    format!("`{relative}` is larger than 1 MiB."),
                )
                .suggest("shorten it"),
            Err(FileReadError::NotText(_)) => {
                let message = format!("`{relative}` is not UTF-8 text.");
                field
                    .diagnostic(Code::PARSE_ERROR, message)
                    .suggest("save it as UTF-8")
            }
        };
        findings.add(problem);
        None
    }

    /// Reports a configured directory of a tool whose path in the project contains a link: the tool
    /// refuses it, because a program of an agent could have made the link. Other paths depend on
    /// the machine.
    pub(crate) fn check_configured_directory(
        &self,
        field: &FieldReader<'_>,
        findings: &mut DiagnosticSink,
    ) {
        let Some(text) = field.node.text() else {
            return;
        };
        let Ok(relative) = normalize_path(text) else {
            return;
        };
        if text.starts_with("~/") || !self.path_state(&relative).has_link {
            return;
        }
        let message = format!(
            "`{}` is `{}`, whose path contains a symbolic link.",
            field.path,
            excerpt(text, 200)
        );
        findings.add(field.diagnostic(Code::PATH_ESCAPE, message).suggest(
            "replace the link with a directory, or state the target of the link as an absolute path",
        ));
    }

    /// Returns true if the path is a link that leads out of the project.
    pub(crate) fn leaves_by_link(&self, relative: &str) -> bool {
        self.path_state(relative).leaves
    }
}

/// Returns the top of the git repository around `folder`, which must be absolute and without links.
pub fn repository_around<'f>(files: &dyn FileAccess, folder: &'f Path) -> Option<&'f Path> {
    folder
        .ancestors()
        .find(|folder| files.kind(&folder.join(".git")).is_ok())
}

/// Reason for an invalid path.
pub(crate) enum InvalidPath {
    Leaves(&'static str),
    Unclear(&'static str),
}

/// Normalizes a path, such as `./a/../b` to `b`.
pub(crate) fn normalize_path(text: &str) -> Result<String, InvalidPath> {
    if text.contains('\0') {
        return Err(InvalidPath::Unclear("it contains a NUL character"));
    }
    let drive = text.as_bytes().get(1) == Some(&b':')
        && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.starts_with(['/', '\\']) || drive {
        return Err(InvalidPath::Leaves(
            "an absolute path, which leaves the bundle",
        ));
    }
    if text.contains('\\') {
        return Err(InvalidPath::Unclear(
            "separate directories with `/`, not with a backslash",
        ));
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(InvalidPath::Leaves("which leaves the bundle"));
            }
            ".." => {}
            part => parts.push(part),
        }
    }
    Ok(if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved_but_cannot_leave_the_root() {
        assert_eq!(normalize_path("./a/./b/../c").ok().as_deref(), Some("a/c"));
        assert_eq!(normalize_path("./").ok().as_deref(), Some("."));
        for leaves in [
            "..",
            "../x",
            "a/../../x",
            "/etc",
            "C:\\x",
            "\\\\host\\x",
            "c:x",
        ] {
            assert!(
                matches!(normalize_path(leaves), Err(InvalidPath::Leaves(_))),
                "{leaves}"
            );
        }
        for unclear in ["a\\b", "a\0"] {
            assert!(
                matches!(normalize_path(unclear), Err(InvalidPath::Unclear(_))),
                "{unclear}"
            );
        }
    }
}
