//! Paths in a bundle: relative to its root, and never out of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::decode::Field;
use crate::diagnostic::Code;
use crate::entry::below;
use crate::files::{FileKind, Files};
use crate::findings::Findings;
use crate::text::{excerpt, reason};

/// The largest file that is read whole (rule L2).
pub(crate) const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// The folder that all paths start from.
pub(crate) struct Folder<'f> {
    pub(crate) files: &'f dyn Files,
    pub(crate) root: &'f Path,
    /// The root without links.
    canonical: PathBuf,
    /// The top of the git repository that it lies in.
    repository: Option<PathBuf>,
    /// What was found at a path. Ten thousand tools may share one library.
    seen: Mutex<HashMap<String, Seen>>,
    /// The files that a module is made of, by its path. As many tools may share one.
    modules: Mutex<HashMap<String, Vec<String>>>,
}

/// What was found at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `None` where nothing is, or nothing that can be looked at.
    kind: Option<FileKind>,
    leaves: bool,
}

impl Seen {
    /// Whether links lead from there to something outside of the bundle.
    pub(crate) fn leaves_folder(self) -> bool {
        self.leaves
    }
}

/// Why a file of the bundle could not be read as text.
#[derive(Debug)]
pub(crate) enum Unreadable {
    TooLarge,
    NotText(FromUtf8Error),
    Io(io::Error),
}

impl<'f> Folder<'f> {
    pub(crate) fn new(files: &'f dyn Files, root: &'f Path) -> Self {
        let canonical = files.canonical(root).unwrap_or_else(|_| root.to_owned());
        let repository = repository_around(files, &canonical).map(Path::to_owned);
        Folder {
            files,
            root,
            canonical,
            repository,
            seen: Mutex::default(),
            modules: Mutex::default(),
        }
    }

    /// What stands at a relative path.
    pub(crate) fn look(&self, relative: &str) -> Seen {
        if let Some(seen) = self.lock().get(relative) {
            return *seen;
        }
        let path = self.root.join(relative);
        // What is not there yet leads where the folder above it leads. Above the root nothing is asked.
        let inner = path
            .ancestors()
            .take_while(|path| path.starts_with(self.root));
        let known = inner
            .into_iter()
            .find_map(|path| self.files.canonical(path).ok());
        let leaves = known.is_some_and(|target| !target.starts_with(&self.canonical));
        let seen = Seen {
            kind: self.files.kind(&path).ok(),
            leaves,
        };
        self.lock().insert(relative.to_owned(), seen);
        seen
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        // Whoever panicked while holding it left a map that is whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of a file of at most 1 MiB, without a byte order mark.
    pub(crate) fn read(&self, relative: &str) -> Result<String, Unreadable> {
        self.read_at(&self.root.join(relative))
    }

    fn read_at(&self, path: &Path) -> Result<String, Unreadable> {
        match self.files.kind(path) {
            Ok(FileKind::File) => {}
            Ok(FileKind::Directory) => {
                return Err(Unreadable::Io(io::Error::other("it is a folder")));
            }
            Ok(_) => return Err(Unreadable::Io(io::Error::other("it is not a regular file"))),
            Err(error) => return Err(Unreadable::Io(error)),
        }
        let bytes = self
            .files
            .read(path, MAX_FILE_SIZE)
            .map_err(Unreadable::Io)?;
        if bytes.len() as u64 > MAX_FILE_SIZE {
            return Err(Unreadable::TooLarge);
        }
        String::from_utf8(bytes).map_err(Unreadable::NotText)
    }
}

/// What decoding one document asks of the folder. Where it asks nothing but what stands at paths, the document means the same
/// as long as its text and the answers are the same.
pub(crate) struct Looks<'f> {
    folder: &'f Folder<'f>,
    /// The folder that the document's paths start from, relative to the root: that of an installed package; empty for the
    /// project itself.
    base: &'f str,
    seen: RefCell<Vec<(String, Seen)>>,
    /// It went by something else than what stands at paths.
    beyond: Cell<bool>,
}

impl<'f> Looks<'f> {
    pub(crate) fn at(folder: &'f Folder<'f>, base: &'f str) -> Self {
        Looks {
            folder,
            base,
            seen: RefCell::default(),
            beyond: Cell::new(false),
        }
    }

    /// The folder that the document's paths start from; empty for the project itself.
    pub(crate) fn base(&self) -> &str {
        self.base
    }

    /// Whether the document belongs to an installed package.
    pub(crate) fn is_installed(&self) -> bool {
        !self.base.is_empty()
    }

    /// Notes that the document goes by something else than what stands at paths.
    pub(crate) fn go_beyond(&self) {
        self.beyond.set(true);
    }

    /// The paths that were looked at, with what was there; `None` where that is not all that the document goes by.
    pub(crate) fn into_seen(self) -> Option<Vec<(String, Seen)>> {
        (!self.beyond.get()).then(|| self.seen.into_inner())
    }

    fn look(&self, relative: &str) -> Seen {
        let seen = self.folder.look(relative);
        self.seen.borrow_mut().push((relative.to_owned(), seen));
        seen
    }

    /// The path that `field` names, relative to the root and without dots, or a diagnostic that it leaves the bundle. What a
    /// package names lies in the package.
    pub(crate) fn path(&self, field: &Field<'_>, findings: &mut Findings) -> Option<String> {
        let text = field.text(findings)?;
        self.path_of(field, text, findings)
    }

    /// As [`Looks::path`], of a path in the project whoever names it.
    pub(crate) fn path_in_project(
        &self,
        field: &Field<'_>,
        findings: &mut Findings,
    ) -> Option<String> {
        Looks::at(self.folder, "").path(field, findings)
    }

    /// As [`Looks::path`], where `text` is what `field` comes to.
    pub(crate) fn path_of(
        &self,
        field: &Field<'_>,
        text: &str,
        findings: &mut Findings,
    ) -> Option<String> {
        let located = normal(text).map(|relative| match relative.as_str() {
            "." if self.is_installed() => self.base.to_owned(),
            _ => below(self.base, &relative),
        });
        match located {
            Ok(relative) if self.leaves_by_link(&relative) => {
                let message = format!(
                    "`{}` is `{}`, which leads out of the bundle through a link.",
                    field.path,
                    excerpt(text, 200)
                );
                let suggestion = "copy what it links to into the bundle";
                findings.add(
                    field
                        .problem(Code::PATH_ESCAPE, message)
                        .suggest(suggestion),
                );
                None
            }
            Ok(relative) => Some(relative),
            Err(Refused::Leaves(why)) => {
                let message = format!("`{}` is `{}`, {why}.", field.path, excerpt(text, 200));
                let suggestion =
                    "use a path below the folder of goondan.yaml, such as `./tools/name`";
                findings.add(
                    field
                        .problem(Code::PATH_ESCAPE, message)
                        .suggest(suggestion),
                );
                None
            }
            Err(Refused::Unclear(why)) => {
                findings
                    .add(field.invalid(format!("`{}` is not a valid path: {why}.", field.path)));
                None
            }
        }
    }

    /// The top of the git repository around the bundle.
    pub(crate) fn repository(&self) -> Option<&PathBuf> {
        self.go_beyond();
        self.folder.repository.as_ref()
    }

    /// The folder of the bundle, without links.
    pub(crate) fn canonical(&self) -> &Path {
        &self.folder.canonical
    }

    /// The folder at a path that starts from the bundle and may lead out of it, without links; none where there is no folder.
    pub(crate) fn folder_outside(&self, path: &str) -> Option<PathBuf> {
        self.go_beyond();
        let real = self
            .folder
            .files
            .canonical(&self.folder.canonical.join(path))
            .ok()?;
        (self.folder.files.kind(&real).ok()? == FileKind::Directory).then_some(real)
    }

    /// Whether a file stands at a relative path.
    pub(crate) fn is_file(&self, relative: &str) -> bool {
        matches!(self.look(relative).kind, Some(FileKind::File))
    }

    /// The names in the folder at a relative path, each with what stands there (links not followed).
    pub(crate) fn list(&self, relative: &str) -> io::Result<Vec<(String, FileKind)>> {
        self.go_beyond();
        self.folder.files.list(&self.folder.root.join(relative))
    }

    /// Whether a folder stands at a relative path.
    pub(crate) fn is_folder(&self, relative: &str) -> bool {
        self.look(relative).kind == Some(FileKind::Directory)
    }

    /// The text of a file of at most 1 MiB, without a byte order mark.
    pub(crate) fn read(&self, relative: &str) -> Result<String, Unreadable> {
        self.go_beyond();
        self.folder.read(relative)
    }

    /// The text of a file of the repository around the bundle, or of the bundle where there is none, and where it really lies. It
    /// may lie outside of the bundle, but not outside of the repository: that is [`io::ErrorKind::PermissionDenied`] with a reason.
    pub(crate) fn read_in_repository(&self, path: &Path) -> Result<(String, PathBuf), Unreadable> {
        self.go_beyond();
        let top = self
            .folder
            .repository
            .as_deref()
            .unwrap_or(&self.folder.canonical);
        let real = self.folder.files.canonical(path);
        if real.as_ref().is_ok_and(|real| !real.starts_with(top)) {
            let left = io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it leads out of the repository",
            );
            return Err(Unreadable::Io(left));
        }
        Ok((self.folder.read_at(path)?, real.map_err(Unreadable::Io)?))
    }

    /// The files that the module at `path` is made of, which `find` looks for once in a load.
    pub(crate) fn module_files(
        &self,
        path: &str,
        find: impl FnOnce() -> Vec<String>,
    ) -> Vec<String> {
        self.go_beyond();
        let known = || {
            self.folder
                .modules
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(files) = known().get(path) {
            return files.clone();
        }
        let files = find();
        known().insert(path.to_owned(), files.clone());
        files
    }

    /// Reads a text file that `field` names, such as a prompt, and notes it as part of the bundle.
    pub(crate) fn text_at(
        &self,
        field: &Field<'_>,
        findings: &mut Findings,
    ) -> Option<(String, String)> {
        let relative = self.path(field, findings)?;
        let problem = match self.read(&relative) {
            Ok(text) => {
                findings.depends_on(relative.clone());
                return Some((relative, text.trim_start_matches('\u{feff}').to_owned()));
            }
            Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "`{}` is `{relative}`, but there is no such file.",
                    field.path
                );
                field.problem(Code::ENTRY_NOT_FOUND, message).suggest(
                    "create it, or correct the path; it starts from the folder of goondan.yaml",
                )
            }
            Err(Unreadable::Io(error)) => field
                .problem(
                    Code::ENTRY_NOT_FOUND,
                    format!("`{relative}` cannot be read: {}.", reason(&error)),
                )
                .suggest("name a text file that you may read"),
            Err(Unreadable::TooLarge) => field
                .problem(
                    Code::FILE_TOO_LARGE,
                    format!("`{relative}` is larger than 1 MiB."),
                )
                .suggest("shorten it"),
            Err(Unreadable::NotText(_)) => {
                let message = format!("`{relative}` is not UTF-8 text.");
                field
                    .problem(Code::PARSE_ERROR, message)
                    .suggest("save it as UTF-8")
            }
        };
        findings.add(problem);
        None
    }

    /// Whether links lead from a relative path to something outside the bundle.
    pub(crate) fn leaves_by_link(&self, relative: &str) -> bool {
        self.look(relative).leaves
    }
}

/// The top of the git repository that `folder` lies in; `folder` is absolute and without links.
pub fn repository_around<'f>(files: &dyn Files, folder: &'f Path) -> Option<&'f Path> {
    folder
        .ancestors()
        .find(|folder| files.kind(&folder.join(".git")).is_ok())
}

/// Why a text is no path in the bundle.
pub(crate) enum Refused {
    Leaves(&'static str),
    Unclear(&'static str),
}

/// `./a/../b` as `b`.
pub(crate) fn normal(text: &str) -> Result<String, Refused> {
    if text.contains('\0') {
        return Err(Refused::Unclear("it holds a NUL character"));
    }
    let drive = text.as_bytes().get(1) == Some(&b':')
        && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.starts_with(['/', '\\']) || drive {
        return Err(Refused::Leaves("an absolute path, which leaves the bundle"));
    }
    if text.contains('\\') {
        return Err(Refused::Unclear(
            "separate folders by `/`, not by a backslash",
        ));
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(Refused::Leaves("which leaves the bundle"));
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
    fn dots_are_resolved_but_never_beyond_the_root() {
        assert_eq!(normal("./a/./b/../c").ok().as_deref(), Some("a/c"));
        assert_eq!(normal("./").ok().as_deref(), Some("."));
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
                matches!(normal(leaves), Err(Refused::Leaves(_))),
                "{leaves}"
            );
        }
        for unclear in ["a\\b", "a\0"] {
            assert!(
                matches!(normal(unclear), Err(Refused::Unclear(_))),
                "{unclear}"
            );
        }
    }
}
