//! Sandboxes commands that a policy permits by a pattern, and the files that are opened for them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use goondan_core::ports::tool::{CommandContainment, HandlerError, ToolContext};
use tokio::process::Command;

use super::program_files::{self, FoundProgram};
use super::{
    ANY_PROGRAM, ProgramAccess, ProgramLauncher, SandboxLayer, SandboxedCommand, build_layer,
    resolved_once, sandboxed_start, sets_variable,
};
use crate::settings_with_keys::has_keys;
use crate::tool_chains;

/// Directories below the home directory that programs may read in addition to tool chains. They
/// contain no keys.
const READABLE_HOME_DIRS: [&str; 4] = [
    ".local/bin",
    ".local/lib",
    ".local/share/uv/python",
    ".local/share/uv/tools",
];

/// Git's files below the home directory. Those with keys are not readable.
const GIT_HOME_FILES: [&str; 4] = [
    ".gitconfig",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
];

/// Variable with the path of git's settings of the user.
const GIT_SETTINGS_VARIABLE: &str = "GIT_CONFIG_GLOBAL";

impl ProgramLauncher {
    /// Returns `command` for `found`, which may also start the programs in `other_programs`. It runs in the
    /// sandboxes of `containments` and of the tool, the agent and its callers. On systems without
    /// sandboxes, those of `containments` are omitted.
    pub(crate) fn confine_command(
        &self,
        mut command: Command,
        ctx: &ToolContext,
        found: &FoundProgram,
        other_programs: &[FoundProgram],
        containments: &[CommandContainment],
    ) -> Result<SandboxedCommand, HandlerError> {
        let path = command
            .as_std()
            .get_envs()
            .find(|(name, _)| *name == "PATH")
            .and_then(|(_, path)| path);
        let path = path.unwrap_or_default().to_owned();
        let can_sandbox = !containments.is_empty() && sandboxed_start::is_supported();
        let applied_containments = containments.iter().filter(|_| can_sandbox);
        let layers: Vec<SandboxLayer> = applied_containments
            .map(|one| layer_of(one, ctx, found, other_programs, &path))
            .collect();
        // Git fails if it cannot read its settings.
        if !sets_variable(&command, GIT_SETTINGS_VARIABLE) && hide_git_settings(&layers) {
            command.env(GIT_SETTINGS_VARIABLE, "/dev/null");
        }
        self.confine_with(command, ctx, None, layers)
    }
}

impl ProgramLauncher {
    /// Returns the sandboxes in which this program itself opens files for a command line: those of
    /// the tool, the agent and its callers. Those of `containments` are added if the system has
    /// sandboxes.
    ///
    /// # Errors
    ///
    /// Fails if a sandbox permits to write to the state of `gdn`.
    pub(crate) fn sandbox_layers(
        &self,
        ctx: &ToolContext,
        containments: &[CommandContainment],
    ) -> Result<Vec<SandboxLayer>, HandlerError> {
        let agent_sandboxes = self.sandbox().into_iter().chain(&ctx.sandboxes);
        let mut layers: Vec<SandboxLayer> = agent_sandboxes
            .map(|sandbox| build_layer(sandbox, ProgramAccess::from_context(ctx), None))
            .collect();
        let applied_containments = containments
            .iter()
            .filter(|_| sandboxed_start::is_supported());
        layers.extend(applied_containments.map(|one| common_layer(one, ctx)));
        layers
            .into_iter()
            .map(SandboxLayer::without_state)
            .collect()
    }
}

/// Returns the access of every command that a pattern permits, whichever program it is.
fn common_layer(containment: &CommandContainment, ctx: &ToolContext) -> SandboxLayer {
    let mut layer = build_layer(&containment.sandbox, ProgramAccess::from_context(ctx), None);
    if !is_in_project(ctx) {
        let project = resolved_once(&ctx.project_dir);
        layer.read.retain(|folder| *folder != project);
    }
    if !containment.writes {
        layer.write.retain(|folder| *folder != ctx.workdir);
    }
    if let Some(home) = std::env::home_dir() {
        layer
            .read
            .extend(READABLE_HOME_DIRS.iter().map(|below| home.join(below)));
    }
    layer.read.extend(tool_chains::readable_paths());
    layer
}

/// Returns true if the working directory, whose path contains no links, is in the project.
fn is_in_project(ctx: &ToolContext) -> bool {
    ctx.workdir.starts_with(resolved_once(&ctx.project_dir))
}

/// Returns the sandbox of one containment for `found`, with read access to the files of all programs
/// that it may start.
fn layer_of(
    containment: &CommandContainment,
    ctx: &ToolContext,
    found: &FoundProgram,
    other_programs: &[FoundProgram],
    path: &OsStr,
) -> SandboxLayer {
    let mut layer = common_layer(containment, ctx);
    layer.read.push(found.path.clone());
    // The target of a link in the working directory, such as the interpreter of a virtual
    // environment.
    let target = found.path.canonicalize().ok();
    layer
        .read
        .extend(target.filter(|target| program_files::is_program(target)));
    let repository =
        enclosing_repository(&ctx.workdir).filter(|_| is_git(found) && is_in_project(ctx));
    if containment.writes {
        layer.write.extend(repository.clone());
    }
    layer.exact.extend(repository.clone());
    layer.read.extend(repository);
    let program_and_neighbors = || std::iter::once(found).chain(other_programs);
    if program_and_neighbors().any(|one| one.is_launcher) {
        layer
            .read
            .extend(program_files::search_directories(path, &[]));
    }
    if program_and_neighbors().any(|one| one.is_launcher || is_git(one)) {
        layer.read.extend(
            std::env::home_dir()
                .into_iter()
                .flat_map(|home| GIT_HOME_FILES.map(|below| home.join(below)))
                .filter(|file| !has_keys(file)),
        );
    }
    let stated_programs = containment.sandbox.programs.as_deref().unwrap_or_default();
    if stated_programs.iter().any(|one| one == ANY_PROGRAM)
        || (stated_programs.is_empty() && program_and_neighbors().any(|one| one.is_launcher))
    {
        layer.execute = None;
    } else {
        layer
            .execute
            .get_or_insert_default()
            .extend(program_and_neighbors().flat_map(FoundProgram::files));
    }
    layer
}

/// Returns true if settings of git with keys exist that one of the sandboxes hides.
fn hide_git_settings(layers: &[SandboxLayer]) -> bool {
    let home = std::env::home_dir();
    let files = home
        .into_iter()
        .flat_map(|home| GIT_HOME_FILES.map(|below| home.join(below)));
    let mut files = files.filter(|file| has_keys(file));
    let is_hidden = |file: PathBuf| {
        let is_readable = |layer: &SandboxLayer| {
            let mut readable = layer.read.iter().chain(&layer.write);
            readable.any(|place| file.starts_with(place))
        };
        !layers.iter().all(is_readable)
    };
    files.any(is_hidden)
}

fn is_git(found: &FoundProgram) -> bool {
    found.path.file_stem() == Some(OsStr::new("git"))
}

/// Returns git's directory of the repository that contains `folder`, if it is in a parent
/// directory.
fn enclosing_repository(folder: &Path) -> Option<PathBuf> {
    let above = folder.ancestors().skip(1).map(|folder| folder.join(".git"));
    if folder.join(".git").exists() {
        None
    } else {
        let is_directory = |git: &PathBuf| {
            git.symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir())
        };
        above.into_iter().find(is_directory)
    }
}
