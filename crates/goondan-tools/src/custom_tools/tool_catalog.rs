//! Finds custom tools and checks them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::{CustomTool, Diagnostic};

use crate::file_changes::read_text;
use crate::paths::FileRoot;

/// The file that makes a directory a custom tool.
pub(crate) const TOOL_MANIFEST_FILE: &str = "tool.yaml";

/// A directory with a `tool.yaml`.
pub(crate) struct FoundCustomTool {
    /// Name of the directory, which is also the name of the tool.
    pub(crate) name: String,
    /// Absolute path of the directory that contains the tool.
    pub(crate) folder: PathBuf,
    /// The tool with its program, or the reason why it is unusable.
    pub(crate) tool: Result<UsableCustomTool, UnusableToolError>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableToolError {
    #[error(transparent)]
    Unreadable(#[from] HandlerError),
    #[error("its {TOOL_MANIFEST_FILE} is invalid: {}", format_diagnostics(.0))]
    Manifest(Vec<Diagnostic>),
    #[error(
        "the name `{stated}` in its {TOOL_MANIFEST_FILE} differs from its directory \
        `{folder}`"
    )]
    OtherName { stated: String, folder: String },
    #[error("its program `{0}` does not exist: build it first")]
    NoProgram(String),
    #[error("its program `{0}` is not executable: run `chmod +x {0}`")]
    NotExecutable(String),
}

pub(crate) struct UsableCustomTool {
    pub(crate) manifest: CustomTool,
    /// Absolute path without symbolic links.
    pub(crate) program: PathBuf,
    /// True for a dynamic library.
    pub(crate) is_library: bool,
}

/// Returns the custom tools below `folders`, sorted by name. If a name occurs twice, the earlier
/// directory has precedence. The paths of the directories contain no links.
pub(super) fn scan(folders: &[PathBuf]) -> Vec<FoundCustomTool> {
    let mut tools: Vec<FoundCustomTool> = Vec::new();
    for folder in folders {
        // A missing directory has no tools.
        for directory in names_below(folder).unwrap_or_default() {
            let name = directory.to_string_lossy().into_owned();
            if !tools.iter().any(|other| other.name == name) {
                let folder = folder.join(&directory);
                let tool = inspect_named(&folder, &name);
                tools.push(FoundCustomTool { name, folder, tool });
            }
        }
    }
    tools.sort_by(|left, right| left.name.cmp(&right.name));
    tools
}

/// Returns the names of the directories below `folder` with a [`TOOL_MANIFEST_FILE`]. Links are
/// skipped: agents can create them.
fn names_below(folder: &Path) -> io::Result<Vec<OsString>> {
    let directory = DirectoryHandle::open(folder, folder)?;
    let mut names = Vec::new();
    for (name, metadata) in directory.entries()? {
        let has_manifest = || -> io::Result<bool> {
            let manifest = directory.open_subdirectory(&name)?;
            Ok(manifest.look(TOOL_MANIFEST_FILE.as_ref())?.is_some())
        };
        if metadata.kind == DirectoryEntryKind::Folder && has_manifest().unwrap_or(false) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns the tool in `folder`. Fails if the tool's name is not `name`, the name of the directory.
fn inspect_named(folder: &Path, name: &str) -> Result<UsableCustomTool, UnusableToolError> {
    let ready = inspect_in(&FileRoot::from_resolved(folder.to_owned()))?;
    if ready.manifest.name != name {
        return Err(UnusableToolError::OtherName {
            stated: ready.manifest.name,
            folder: name.to_owned(),
        });
    }
    Ok(ready)
}

/// Returns the tool in `folder` if it is usable.
pub(crate) fn inspect_tool(folder: &Path) -> Result<UsableCustomTool, UnusableToolError> {
    inspect_in(&FileRoot::from_directory(folder)?)
}

/// Returns the tool in the directory `root` if it is usable.
fn inspect_in(root: &FileRoot) -> Result<UsableCustomTool, UnusableToolError> {
    let manifest = read_text(root, &root.resolve(TOOL_MANIFEST_FILE)?)?;
    let manifest =
        CustomTool::parse(&manifest, TOOL_MANIFEST_FILE).map_err(UnusableToolError::Manifest)?;
    let program = root.resolve(&manifest.entrypoint)?.path;
    if !program.is_file() {
        return Err(UnusableToolError::NoProgram(manifest.entrypoint));
    }
    let is_library = is_library(&program);
    if !is_library && !is_executable(&program) {
        return Err(UnusableToolError::NotExecutable(manifest.entrypoint));
    }
    Ok(UsableCustomTool {
        manifest,
        program,
        is_library,
    })
}

/// Returns true if the file has the extension of a dynamic library, on any platform.
fn is_library(program: &Path) -> bool {
    program.extension().is_some_and(|extension| {
        ["so", "dylib", "dll"]
            .iter()
            .any(|library_extension| extension == *library_extension)
    })
}

/// Formats all errors of a `tool.yaml` on one line.
fn format_diagnostics(problems: &[Diagnostic]) -> String {
    let line = |problem: &Diagnostic| match problem.position {
        Some(position) => format!("line {}: {}", position.line, problem.message),
        None => problem.message.clone(),
    };
    problems.iter().map(line).collect::<Vec<_>>().join(" ")
}

#[cfg(unix)]
fn is_executable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    program
        .metadata()
        .is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_program: &Path) -> bool {
    true
}
