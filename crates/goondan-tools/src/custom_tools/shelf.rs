//! Finds custom tools and checks them.

use std::path::{Path, PathBuf};

use goondan_core::ports::tool::ToolError;
use goondan_spec::{CustomTool, Diagnostic};

use crate::paths::Root;
use crate::write::read_text;

/// The file that makes a directory a custom tool.
pub(crate) const MANIFEST: &str = "tool.yaml";

/// A directory with a `tool.yaml`.
pub(crate) struct Found {
    /// Name of the directory, which is also the name of the tool.
    pub(crate) name: String,
    /// Absolute path.
    pub(crate) folder: PathBuf,
    /// The tool with its program, or the reason why it is unusable.
    pub(crate) tool: Result<Ready, Unfit>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(transparent)]
    Unreadable(#[from] ToolError),
    #[error("its {MANIFEST} is wrong: {}", explain(.0))]
    Manifest(Vec<Diagnostic>),
    #[error("its {MANIFEST} names it `{stated}`, its folder `{folder}`")]
    OtherName { stated: String, folder: String },
    #[error("its program `{0}` does not exist: build it first")]
    NoProgram(String),
    #[error("its program `{0}` is not executable: run `chmod +x {0}`")]
    NotExecutable(String),
}

pub(crate) struct Ready {
    pub(crate) manifest: CustomTool,
    /// Absolute path without symbolic links.
    pub(crate) program: PathBuf,
    /// True for a dynamic library.
    pub(crate) is_library: bool,
}

/// Returns the custom tools below `folders`, sorted by name. If a name occurs twice, the earlier
/// directory has precedence.
pub(super) fn scan(folders: &[PathBuf]) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_tool = entry.path().join(MANIFEST).symlink_metadata().is_ok();
            if is_tool && !found.iter().any(|other| other.name == name) {
                let tool = named(&entry.path(), &name);
                found.push(Found {
                    name,
                    folder: entry.path(),
                    tool,
                });
            }
        }
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

/// Returns the tool in `folder`, whose name must be that of the directory.
fn named(folder: &Path, name: &str) -> Result<Ready, Unfit> {
    let ready = inspect(folder)?;
    if ready.manifest.name != name {
        return Err(Unfit::OtherName {
            stated: ready.manifest.name,
            folder: name.to_owned(),
        });
    }
    Ok(ready)
}

/// Returns the tool in `folder` if it is usable.
pub(crate) fn inspect(folder: &Path) -> Result<Ready, Unfit> {
    let root = Root::at(folder)?;
    let manifest = read_text(&root, &root.resolve(MANIFEST)?)?;
    let manifest = CustomTool::parse(&manifest, MANIFEST).map_err(Unfit::Manifest)?;
    let program = root.resolve(&manifest.entrypoint)?.path;
    if !program.is_file() {
        return Err(Unfit::NoProgram(manifest.entrypoint));
    }
    let is_library = is_library(&program);
    if !is_library && !is_executable(&program) {
        return Err(Unfit::NotExecutable(manifest.entrypoint));
    }
    Ok(Ready {
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
            .any(|known| extension == *known)
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
