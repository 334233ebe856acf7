//! Edits files of a project, for the studio.
//!
//! Only text files that the project loads can be edited, and only test cases can be created. Every
//! path is opened directory by directory from the project directory, so no link leads out of it.

mod edited_files;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::diff;
use goondan::internal::load_through;
use goondan::internal::nofollow_fs::{
    DirectoryEntryKind, DirectoryHandle, FileOpenMode, metadata_beneath,
};
use goondan::spec::{Bundle, Code, Diagnostic, Severity, reason};
use goondan_conformance::case::read::read as read_cases;
use goondan_serve::ProjectEditor;
use goondan_serve::wire::{
    CheckedFileBody, EditedFileBody, FileFindingBody, ProjectFileBody, ProjectFileKind,
    ProjectFilesBody, ProjectTextBody, SavedFileBody,
};
use sha2::{Digest as _, Sha256};

pub(crate) use self::edited_files::find_files_by_name;
use self::edited_files::{EditedProjectFiles, is_skipped};
use crate::case_recorder::CASE_FILE_SUFFIX;
use crate::case_runner::finding_of;
use crate::trust::TrustSettings;

/// Maximum size of a file that can be edited, in bytes.
const MAX_EDITED_BYTES: u64 = 1 << 20;
/// Unchanged lines around a change in the diff.
const DIFF_CONTEXT_LINES: usize = 3;
/// File name extensions of texts. Programs and data files can't be edited.
const TEXT_EXTENSIONS: [&str; 10] = [
    "yaml", "yml", "md", "mdx", "markdown", "txt", "prompt", "tmpl", "j2", "jinja",
];
/// Default name of a file with instructions for agents.
const INSTRUCTIONS_FILE: &str = "AGENTS.md";
/// Name of the file that describes a skill.
const SKILL_FILE: &str = "SKILL.md";

/// Edits the files of a project directory.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryEditor {
    /// Project directory without links.
    root: PathBuf,
    trust: TrustSettings,
    /// Lock for saving, so that two pages do not overwrite each other's changes.
    saving: Arc<Mutex<()>>,
}

impl DirectoryEditor {
    /// Creates an editor for the project in `root`.
    ///
    /// # Errors
    /// Fails if the directory can't be opened.
    pub(crate) fn new(root: &Path, trust: TrustSettings) -> io::Result<Self> {
        Ok(DirectoryEditor {
            root: root.canonicalize()?,
            trust,
            saving: Arc::default(),
        })
    }

    /// Runs `work` on a thread for blocking work.
    fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DirectoryEditor) -> Result<T, Diagnostic> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, Diagnostic>> {
        let editor = self.clone();
        async move {
            let done = tokio::task::spawn_blocking(move || work(&editor)).await;
            done.unwrap_or_else(|_| Err(internal_error()))
        }
        .boxed()
    }

    /// Returns the files that can be edited, by their path in the project: the files that the
    /// project loads, test cases, and instructions for agents. Excludes programs and the files of
    /// packages.
    fn editable_files(&self) -> BTreeMap<String, ProjectFileKind> {
        let disk = EditedProjectFiles::unchanged();
        let project = load_through(&self.root, &disk);
        let bundle = project.bundle.as_deref();
        let instruction_names = instruction_names(bundle);
        let mut paths = disk.read_in(&self.root);
        if let Some(bundle) = bundle {
            paths.extend(bundle.files().iter().cloned());
        }
        paths.extend(find_files_by_name(&self.root, |name| {
            name.ends_with(CASE_FILE_SUFFIX) || instruction_names.iter().any(|known| known == name)
        }));
        let is_in_package =
            |path: &str| bundle.is_some_and(|bundle| bundle.package_of(path).is_some());
        let mut editable = BTreeMap::new();
        for path in paths {
            if is_text(&path) && !is_in_package(&path) && self.is_regular(&path) {
                let kind = kind_of(&path, &instruction_names);
                editable.insert(path, kind);
            }
        }
        editable
    }

    /// Returns true if the path leads to a regular file without links.
    fn is_regular(&self, path: &str) -> bool {
        let metadata = metadata_beneath(&self.root, &self.root.join(path));
        metadata.is_ok_and(|found| found.is_some_and(|it| it.kind == DirectoryEntryKind::File))
    }

    /// Opens the directory of a new test case. Returns it with the name of the file; `None` if the
    /// path is not that of a test case, or if it exists.
    fn open_new_case<'p>(&self, path: &'p str) -> Option<(DirectoryHandle, &'p OsStr)> {
        let is_visible = |part: Component<'_>| match part {
            Component::Normal(name) => name.to_str().is_some_and(|name| !is_skipped(name)),
            _ => false,
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_case = name.len() > CASE_FILE_SUFFIX.len() && name.ends_with(CASE_FILE_SUFFIX);
        if !is_case || path.contains('\\') || !Path::new(path).components().all(is_visible) {
            return None;
        }
        let file = self.root.join(path);
        let is_new = metadata_beneath(&self.root, &file).is_ok_and(|found| found.is_none());
        let directory = DirectoryHandle::open_parent(&self.root, &file).ok()?;
        is_new.then_some((directory, OsStr::new(name)))
    }

    /// Opens the directory of a file that can be edited. Returns it with the name of the file.
    fn open<'p>(&self, path: &'p str) -> Result<(DirectoryHandle, &'p OsStr), Diagnostic> {
        let is_inside = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let name = Path::new(path).file_name().filter(|_| is_inside);
        let Some(name) = name.filter(|_| self.editable_files().contains_key(path)) else {
            return Err(Diagnostic::new(
                Code::SERVE_NOT_FOUND,
                format!("The project loads no text file `{path}`."),
            )
            .suggest("GET /api/project/files lists the files that can be edited."));
        };
        let directory = DirectoryHandle::open_parent(&self.root, &self.root.join(path));
        Ok((directory.map_err(|error| file_error(path, &error))?, name))
    }

    /// Reads a file.
    fn text(&self, path: &str) -> Result<ProjectTextBody, Diagnostic> {
        let (directory, name) = self.open(path)?;
        let bytes = content(&directory, name).map_err(|error| file_error(path, &error))?;
        let hash = hash_of(&bytes);
        let text = String::from_utf8(bytes).map_err(|_| {
            Diagnostic::new(
                Code::SERVE_REQUEST,
                format!("The file `{path}` is not UTF-8 text."),
            )
        })?;
        Ok(ProjectTextBody {
            path: path.to_owned(),
            text,
            hash,
        })
    }

    fn check_file(&self, edit: &EditedFileBody) -> Result<CheckedFileBody, Diagnostic> {
        refuse_large(edit)?;
        let (text, hash) = match self.open_new_case(&edit.path) {
            Some(_) => (String::new(), String::new()),
            None => {
                let ProjectTextBody { text, hash, .. } = self.text(&edit.path)?;
                (text, hash)
            }
        };
        Ok(CheckedFileBody {
            findings: self.findings(edit),
            diff: diff::unified(&text, &edit.text, DIFF_CONTEXT_LINES),
            hash,
        })
    }

    /// Returns the diagnostics that the language server also reports, from a load with the edited
    /// text and from the start checks. A test case file is only parsed.
    fn findings(&self, edit: &EditedFileBody) -> Vec<FileFindingBody> {
        let file = self.root.join(&edit.path);
        if edit.path.ends_with(CASE_FILE_SUFFIX) {
            let read = read_cases(&file, &edit.text);
            let errors = read.errors.iter();
            return errors.map(|error| finding_of(&self.root, error)).collect();
        }
        let files = EditedProjectFiles::with_edit(file, &edit.text);
        let project = load_through(&self.root, &files);
        let checks = project.bundle.is_some().then(|| {
            let environment = self.trust.environment(&self.root);
            environment.map_or_else(
                |problem| vec![problem],
                |environment| goondan::check(&project, &environment),
            )
        });
        let diagnostics = project.diagnostics.iter().cloned();
        let all_diagnostics = diagnostics.chain(checks.into_iter().flatten());
        all_diagnostics.map(finding).collect()
    }

    /// Saves an edited file, unless the file on disk has another hash. An empty hash creates a test
    /// case.
    fn save_file(&self, edit: &EditedFileBody) -> Result<SavedFileBody, Diagnostic> {
        refuse_large(edit)?;
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: io::Error| file_error(&edit.path, &error);
        if edit.hash.is_empty()
            && let Some((directory, name)) = self.open_new_case(&edit.path)
        {
            let bytes = edit.text.as_bytes();
            directory.put_new(name, bytes).map_err(failed)?;
            return Ok(SavedFileBody {
                hash: hash_of(bytes),
            });
        }
        let (directory, name) = self.open(&edit.path)?;
        let mode = directory
            .look(name)
            .map_err(failed)?
            .map(|it| it.permissions);
        let is_current = || Ok(hash_of(&content(&directory, name)?) == edit.hash);
        let bytes = edit.text.as_bytes();
        let is_saved = directory
            .write_atomically_if(name, bytes, mode, is_current)
            .map_err(failed)?;
        if is_saved {
            Ok(SavedFileBody {
                hash: hash_of(bytes),
            })
        } else {
            Err(changed_file_error(&edit.path))
        }
    }
}

impl ProjectEditor for DirectoryEditor {
    fn list(&self) -> BoxFuture<'_, Result<ProjectFilesBody, Diagnostic>> {
        self.run_blocking(|editor| {
            let files = editor.editable_files().into_iter();
            let files = files
                .map(|(path, kind)| ProjectFileBody { path, kind })
                .collect();
            Ok(ProjectFilesBody { files })
        })
    }

    fn read(&self, path: String) -> BoxFuture<'_, Result<ProjectTextBody, Diagnostic>> {
        self.run_blocking(move |editor| editor.text(&path))
    }

    fn check(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<CheckedFileBody, Diagnostic>> {
        self.run_blocking(move |editor| editor.check_file(&edit))
    }

    fn save(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<SavedFileBody, Diagnostic>> {
        self.run_blocking(move |editor| editor.save_file(&edit))
    }
}

/// Reads a regular file of a directory, without following a link.
fn content(directory: &DirectoryHandle, name: &OsStr) -> io::Result<Vec<u8>> {
    let file: File = directory.open_file(name, FileOpenMode::Read)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_EDITED_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_EDITED_BYTES {
        Err(io::Error::other("it is larger than 1 MiB"))
    } else {
        Ok(bytes)
    }
}

/// Returns the SHA-256 hash as hex digits.
fn hash_of(bytes: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string never fails.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

/// Returns true for names of visible text files. Lock files and the state of `gdn` are not edited.
fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_hidden =
        name.starts_with('.') || path.starts_with(".git/") || path.starts_with(".goondan/");
    !is_hidden && extension.is_some_and(|it| TEXT_EXTENSIONS.contains(&&*it.to_ascii_lowercase()))
}

/// Returns the names of files with instructions: those that agents name, and `AGENTS.md`.
fn instruction_names(bundle: Option<&Bundle>) -> Vec<String> {
    let agents = bundle
        .into_iter()
        .flat_map(|bundle| bundle.agents().values());
    let instructions = agents.filter_map(|agent| agent.spec.instructions.as_ref());
    let names = instructions.flat_map(|instructions| instructions.names.iter().cloned());
    names.chain([INSTRUCTIONS_FILE.to_owned()]).collect()
}

/// Returns the kind of a project file by its name. `instructions` are the names of instruction
/// files.
fn kind_of(path: &str, instructions: &[String]) -> ProjectFileKind {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.ends_with(CASE_FILE_SUFFIX) {
        ProjectFileKind::Cases
    } else if name == SKILL_FILE {
        ProjectFileKind::Skill
    } else if instructions.iter().any(|known| known == name) {
        ProjectFileKind::Instructions
    } else if name.ends_with(".yaml") || name.ends_with(".yml") {
        ProjectFileKind::Resources
    } else {
        ProjectFileKind::Text
    }
}

/// Converts a diagnostic.
fn finding(diagnostic: Diagnostic) -> FileFindingBody {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    FileFindingBody {
        severity: severity.to_owned(),
        code: Some(diagnostic.code.to_string()),
        message: diagnostic.message,
        line: diagnostic.position.map(|at| at.line),
        column: diagnostic.position.map(|at| at.column),
        file: diagnostic.file,
        suggestion: diagnostic.suggestion,
    }
}

fn refuse_large(edit: &EditedFileBody) -> Result<(), Diagnostic> {
    if edit.text.len() as u64 > MAX_EDITED_BYTES {
        Err(Diagnostic::new(
            Code::SERVE_TOO_LARGE,
            "The edited text is larger than 1 MiB.",
        )
        .suggest("Edit the file with another program."))
    } else {
        Ok(())
    }
}

/// Error of a file that changed since it was read.
fn changed_file_error(path: &str) -> Diagnostic {
    Diagnostic::new(
        Code::SERVE_FILE_CHANGED,
        format!("The file `{path}` has changed on disk since you opened it, so it is not saved."),
    )
    .suggest("Copy your changes, open the file again, and apply them to the new text.")
}

/// Error of a file that can't be read or written.
fn file_error(path: &str, error: &io::Error) -> Diagnostic {
    if matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    ) {
        return changed_file_error(path);
    }
    Diagnostic::new(
        Code::SERVE_REQUEST,
        format!("The file `{path}` can't be used: {}.", reason(error)),
    )
    .suggest("Edit the file with another program.")
}

fn internal_error() -> Diagnostic {
    Diagnostic::new(
        Code::INTERNAL_ERROR,
        "The file can't be edited: bug in gdn.",
    )
}

#[cfg(all(test, unix))]
mod tests;
