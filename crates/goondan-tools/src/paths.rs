//! Limits file tools to the working directory, after resolving every symbolic link (rule S2).
//!
//! A path is resolved link by link before any operation, even if its last components do not exist
//! yet. Files are then accessed by the resolved path, component by component and without following
//! links. So a link inserted in between has no effect.

mod file_access;
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod tool_settings;

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use goondan_core::path_style::PathStyle;
use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_core::real_path::real_path;
use goondan_spec::Code;
use goondan_spec::secret_files::SecretFiles;

pub(crate) use self::tool_settings::FileToolSettings;
use crate::errors;
use crate::sandbox::resolved_once;
use crate::state_directory;

/// The directory that file tools must not leave.
#[derive(Debug, Clone)]
pub(crate) struct FileRoot {
    /// Absolute path without symbolic links.
    folder: PathBuf,
    /// Additional permitted directories, also without symbolic links.
    others: Vec<PathBuf>,
    /// Files with keys of the directory and of the project.
    secrets: Arc<SecretFiles>,
}

/// Checks that the working directory has not been replaced by a link since the call began.
pub(crate) fn still_there(ctx: &ToolContext) -> Result<(), HandlerError> {
    ctx.workdir
        .canonicalize()
        .map_or(Ok(()), |real| check_workdir_unmoved(ctx, &real))
}

/// Fails if the working directory is now at `real`, which is elsewhere.
fn check_workdir_unmoved(ctx: &ToolContext, real: &Path) -> Result<(), HandlerError> {
    if cfg!(unix) && real != ctx.workdir {
        let message = format!(
            "the working directory {} was replaced by a symbolic link",
            ctx.workdir.display()
        );
        return Err(HandlerError::new(message).code(Code::TOOL_PATH_ESCAPE));
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
    pub(crate) fn from_context(ctx: &ToolContext) -> Result<FileRoot, HandlerError> {
        let root = FileRoot::from_directory(&ctx.workdir)?;
        check_workdir_unmoved(ctx, &root.folder)?;
        let secrets = SecretFiles::below([&root.folder, &resolved_once(&ctx.project_dir)]);
        Ok(FileRoot {
            secrets: Arc::new(secrets),
            ..root
        })
    }

    /// Returns the working directory for the preview of a call. The directory may be missing,
    /// because the engine creates it and resolves its links only for the call itself.
    ///
    /// # Errors
    ///
    /// Fails if the directory exists and cannot be opened.
    pub(crate) fn for_preview(ctx: &ToolContext) -> Result<FileRoot, HandlerError> {
        match ctx.workdir.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = real_path(&ctx.workdir).unwrap_or_else(|_| ctx.workdir.clone());
                Ok(FileRoot::from_resolved(folder))
            }
            _ => FileRoot::from_directory(&ctx.workdir),
        }
    }

    /// Returns the root for the directory `path`, which must exist.
    pub(crate) fn from_directory(path: &Path) -> Result<FileRoot, HandlerError> {
        let folder = path.canonicalize().map_err(|error| {
            errors::io_error(
                format_args!("open the working directory `{}`", path.display()),
                &error,
            )
        })?;
        Ok(FileRoot::from_resolved(folder))
    }

    /// Returns the root for the directory `folder`, which is absolute and without symbolic links. If a
    /// link replaces it later, accesses fail.
    pub(crate) fn from_resolved(folder: PathBuf) -> FileRoot {
        FileRoot {
            secrets: Arc::new(SecretFiles::below([&folder])),
            folder,
            others: Vec::new(),
        }
    }

    /// Returns the root for a directory inside this root, which is absolute and without symbolic links.
    pub(crate) fn narrowed(&self, folder: PathBuf) -> FileRoot {
        FileRoot {
            secrets: Arc::clone(&self.secrets),
            folder,
            others: Vec::new(),
        }
    }

    /// Returns the directory, as an absolute path without symbolic links.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Resolves `given`: relative to the root, or absolute but inside it.
    pub(crate) fn resolve(&self, given: &str) -> Result<ResolvedPath, HandlerError> {
        if given.is_empty() || given.contains('\0') {
            return Err(errors::invalid_argument(
                "a path must not be empty or contain a NUL character",
            ));
        }
        if PathStyle::NATIVE.is_ambiguous(given) {
            let message = format!(
                "`{given}` is an alternative file name, an alternate data stream, or a \
                    device"
            );
            return Err(HandlerError::new(message)
                .code(Code::TOOL_PATH_ESCAPE)
                .suggest("use the plain file name"));
        }
        let path = real_path(&self.folder.join(given))
            .map_err(|error| errors::io_error(format_args!("follow the path `{given}`"), &error))?;
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
    pub(crate) fn relative_path<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.folder) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        }
    }

    /// Returns `path` for a result: relative to the root, with U+FFFD for what is not UTF-8.
    pub(crate) fn display_path(&self, path: &Path) -> String {
        self.relative_path(path).to_string_lossy().into_owned()
    }

    /// Resolves `given` like [`FileRoot::resolve`], but does not follow a link in the last
    /// component. For operations on a name, such as deleting.
    pub(crate) fn resolve_name(&self, given: &str) -> Result<ResolvedPath, HandlerError> {
        let path = Path::new(given);
        let Some(name) = path.file_name().filter(|_| !ends_in_separator(given)) else {
            return self.resolve(given);
        };
        let parent = match path.parent().map(Path::to_string_lossy) {
            Some(parent) if !parent.is_empty() => parent.into_owned(),
            _ => ".".to_owned(),
        };
        let parent = self.resolve(&parent).map_err(|error| {
            if error.code.as_deref() == Some(Code::TOOL_PATH_ESCAPE.as_str()) {
                self.escape_error(given)
            } else {
                error
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
        is_protected(tools.unwrap_or_else(|| self.relative_path(path)))
            || state_directory::is_exposed(self.base_of(path), path)
    }

    /// Returns the error of a path that is outside of the roots.
    fn escape_error(&self, given: &str) -> HandlerError {
        HandlerError::new(format!(
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
fn protected_directory_error(given: &str) -> HandlerError {
    HandlerError::new(format!(
        "`{given}` is in a directory in which gdn stores approvals and conversations"
    ))
    .code(Code::TOOL_PATH_ESCAPE)
    .suggest("do not access this directory")
}
