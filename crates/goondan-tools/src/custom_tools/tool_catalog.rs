//! Finds custom tools and checks them.

use std::path::{Path, PathBuf};

use goondan_core::ports::tool::ToolError;
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
    Unreadable(#[from] ToolError),
    #[error("its {TOOL_MANIFEST_FILE} is invalid: {}", explain(.0))]
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
/// directory has precedence.
#[expect(
    clippy::disallowed_methods,
    reason = "only names and manifests are read"
)]
pub(super) fn scan(folders: &[PathBuf]) -> Vec<FoundCustomTool> {
    let mut tools: Vec<FoundCustomTool> = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_tool = entry
                .path()
                .join(TOOL_MANIFEST_FILE)
                .symlink_metadata()
                .is_ok();
            if is_tool && !tools.iter().any(|other| other.name == name) {
                let tool = inspect_named(&entry.path(), &name);
                tools.push(FoundCustomTool {
                    name,
                    folder: entry.path(),
                    tool,
                });
            }
        }
    }
    tools.sort_by(|left, right| left.name.cmp(&right.name));
    tools
}

/// Returns the tool in `folder`. Fails if the tool's name is not `name`, the name of the directory.
fn inspect_named(folder: &Path, name: &str) -> Result<UsableCustomTool, UnusableToolError> {
    let ready = inspect(folder)?;
    if ready.manifest.name != name {
        return Err(UnusableToolError::OtherName {
            stated: ready.manifest.name,
            folder: name.to_owned(),
        });
    }
    Ok(ready)
}

/// Returns the tool in `folder` if it is usable.
pub(crate) fn inspect(folder: &Path) -> Result<UsableCustomTool, UnusableToolError> {
    let root = FileRoot::at(folder)?;
    let manifest = read_text(&root, &root.resolve(TOOL_MANIFEST_FILE)?)?;
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

/// Returns true if the file name is that of a dynamic library of any platform.
fn is_library(program: &Path) -> bool {
    program.extension().is_some_and(|extension| {
        ["so", "dylib", "dll"]
            .iter()
            .any(|library_extension| extension == *library_extension)
    })
}

/// Formats all errors of a `tool.yaml` on one line.
fn explain(problems: &[Diagnostic]) -> String {
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
