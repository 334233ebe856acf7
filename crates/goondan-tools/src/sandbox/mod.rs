//! Restricts the programs of tools: resource limits, and a sandbox (rule S4).
//!
//! A sandbox applies to a thread and all its child processes. So a sandboxed program is started on
//! a new thread, which then ends (`sandboxed_start`). Another thread can send signals to all processes
//! of the program (`signal_domain`). Limits apply to a process. They are set by a helper:
//! this program, started with [`HelperCommand`], which limits itself ([`enter`]) and then executes
//! the command. A restriction that cannot be applied is an error of the call.
//!
//! The helper also ends leftover processes if this program is killed (`group_watcher`,
//! `domain_watcher`).

#[cfg(target_os = "linux")]
mod domain_watcher;
mod group_watcher;
mod helper_arguments;
mod helper_process;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
pub(crate) mod local_clients;
#[cfg(not(target_os = "linux"))]
mod no_signal_domain;
#[cfg(target_os = "linux")]
pub(crate) mod orphans;
#[cfg(target_os = "linux")]
mod permitted_calls;
mod permitted_command;
mod places;
pub(crate) mod program_files;
mod sandbox_layer;
pub(crate) mod sandboxed_start;
#[cfg(target_os = "linux")]
pub(crate) mod signal_domain;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(target_os = "linux")]
mod world_readable;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::package_copies::copy_around;
use goondan_core::ports::tool::{ApprovedFile, HandlerError, ToolContext};
use goondan_spec::kinds::{ProcessLimits, SandboxSettings};
use tokio::process::Command;

use crate::paths::still_there;
use crate::process::{self, FinishedProgram};
use crate::running_programs::WriteAccess;
use crate::server_programs::RuntimeFiles;
use crate::shell::ShellSettings;
use crate::state_directory;
use crate::tool_chains;
pub(crate) use places::{resolved_once, stated_place};

pub use self::helper_arguments::HelperCommand;
use self::helper_arguments::{
    HELPER_ERROR_PREFIX, HELPER_FAILED_CODE, ProcessRestrictions, helper_command,
};
pub(crate) use self::sandbox_layer::{SandboxLayer, sandbox_error, write_access};
pub(crate) use group_watcher::{GroupWatcher, WatchedGroup};
pub use helper_process::enter;
#[cfg(not(target_os = "linux"))]
pub(crate) use no_signal_domain::SignalDomain;
pub(crate) use sandboxed_start::SandboxApplyError;
#[cfg(target_os = "linux")]
pub(crate) use signal_domain::SignalDomain;

/// Permits any program.
const ANY_PROGRAM: &str = "*";

/// Variable with the directory of Python's compiled files. Without it, Python runs a compiled file next
/// to a module in place of the module, and a sandboxed program could have written it.
const PYTHON_CACHE_VARIABLE: &str = "PYTHONPYCACHEPREFIX";

/// Variable that keeps Python from writing compiled files.
const PYTHON_NO_CACHE_VARIABLE: &str = "PYTHONDONTWRITEBYTECODE";

/// Readable for every program: the system, without the directories of its users. Of `/etc`, only
/// the files for every user are.
const SYSTEM_READ_PATHS: [&str; 26] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/sys",
    // Not all of /run, because it contains logins and secrets of services.
    "/run/booted-system",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/opengl-driver-32",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/connman/resolv.conf",
    "/run/resolvconf",
    "/run/systemd/resolve",
    // Not all of /proc, because it shows the environment of other processes.
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/version",
];

#[derive(Debug)]
pub(crate) struct SandboxHelper {
    command: HelperCommand,
    watcher: Arc<GroupWatcher>,
}

impl SandboxHelper {
    /// Creates the helper without starting a process.
    pub(crate) fn new(command: HelperCommand) -> Arc<Self> {
        Arc::new(SandboxHelper {
            watcher: Arc::new(GroupWatcher::new(command.clone())),
            command,
        })
    }
}

pub(crate) struct SandboxedCommand {
    pub(crate) command: Command,
    /// Ends the process if this program cannot.
    pub(crate) watcher: Option<Arc<GroupWatcher>>,
    /// Sandboxes that apply together.
    pub(crate) layers: Vec<SandboxLayer>,
    pub(crate) write_access: WriteAccess,
    /// Files whose content was approved; empty for a program in a sandbox, which an approval does
    /// not give any access.
    pub(crate) approved_files: Arc<[ApprovedFile]>,
}

impl SandboxedCommand {
    /// Starts the watchers if necessary.
    pub(crate) fn ensure_watchers(&self) {
        if let Some(watcher) = self.watcher.as_ref() {
            watcher.ensure_running();
        }
        #[cfg(target_os = "linux")]
        if let Some(watcher) = &self.watcher
            && self.write_access.is_sandboxed()
        {
            domain_watcher::ensure_running(watcher.helper());
        }
    }
}

/// The settings for starting a tool's programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramLauncher {
    /// Names of additional environment variables that programs receive.
    pub(crate) env: Vec<String>,
    sandbox: Option<SandboxSettings>,
    limits: ProcessLimits,
    helper: Option<Arc<SandboxHelper>>,
}

impl ProgramLauncher {
    pub(crate) fn new(settings: ShellSettings, helper: Option<&Arc<SandboxHelper>>) -> Self {
        let sandbox = settings.sandbox.and_then(|sandbox| sandbox.0);
        ProgramLauncher {
            env: settings.env,
            sandbox,
            limits: settings.limits,
            helper: helper.cloned(),
        }
    }

    /// Applies the restrictions of the tool, the agent and its callers to `command`. `program` is
    /// the executed file if it is in the project or the home directory.
    pub(crate) fn confine(
        &self,
        command: Command,
        ctx: &ToolContext,
        program: Option<&Path>,
    ) -> Result<SandboxedCommand, HandlerError> {
        self.confine_with(command, ctx, program, Vec::new())
    }

    /// Restricts a command like [`ProgramLauncher::confine`], with the additional sandboxes `more`.
    fn confine_with(
        &self,
        command: Command,
        ctx: &ToolContext,
        program: Option<&Path>,
        more: Vec<SandboxLayer>,
    ) -> Result<SandboxedCommand, HandlerError> {
        still_there(ctx)?;
        self.confine_in(command, ProgramAccess::from_context(ctx), program, more)
    }

    /// Restricts a command like [`ProgramLauncher::confine`], with explicit places and additional
    /// sandboxes.
    pub(crate) fn confine_in(
        &self,
        mut command: Command,
        places: ProgramAccess<'_>,
        program: Option<&Path>,
        more: Vec<SandboxLayer>,
    ) -> Result<SandboxedCommand, HandlerError> {
        let watcher = self
            .helper
            .as_ref()
            .map(|helper| Arc::clone(&helper.watcher));
        let sandboxes = self.sandbox.iter().chain(places.sandboxes);
        let mut layers: Vec<SandboxLayer> = sandboxes
            .map(|sandbox| build_layer(sandbox, places, program))
            .collect();
        layers.extend(more);
        // The code of an installed package may be outside of the project.
        let folder = command.as_std().get_current_dir().and_then(copy_around);
        let copies = folder.into_iter().chain(program.and_then(copy_around));
        for copy in copies {
            layers
                .iter_mut()
                .for_each(|layer| layer.read.push(copy.clone()));
        }
        layers = layers
            .into_iter()
            .map(SandboxLayer::without_state)
            .collect::<Result<_, _>>()?;
        if !layers.is_empty() {
            // The common temporary directory is not writable.
            command.env("TMPDIR", places.workdir);
        } else if !sets_variable(&command, PYTHON_CACHE_VARIABLE) {
            command.env(PYTHON_CACHE_VARIABLE, state_directory::python_cache());
            // Python recognizes a stale file only by size and whole seconds, and an edit can keep both.
            command.env(PYTHON_NO_CACHE_VARIABLE, "1");
        }
        #[cfg(target_os = "linux")]
        if !layers.is_empty() && layers.iter().all(|layer| layer.network) {
            local_clients::note_network_program();
        }
        let mut write_access = write_access(&layers).unwrap_or_default();
        write_access.is_of_project = places.is_of_project;
        let approved_files = if layers.is_empty() {
            places.approved_files.cloned().unwrap_or_default()
        } else {
            Arc::default()
        };
        let mut confined = SandboxedCommand {
            command,
            watcher,
            layers,
            write_access,
            approved_files,
        };
        if self.limits == ProcessLimits::default() {
            return Ok(confined);
        }
        let Some(helper) = &self.helper else {
            return Err(sandbox_error("this program has no sandbox helper").suggest(
                "give `SwarmBuilder::sandbox_helper` a command, or run the swarm with `gdn`",
            ));
        };
        let restrictions = serde_json::to_string(&ProcessRestrictions {
            limits: self.limits,
            layers: std::mem::take(&mut confined.layers),
        })
        .map_err(|error| sandbox_error(&format!("cannot encode the restrictions: {error}")))?;
        confined.command = helper_command(&helper.command, &restrictions, confined.command);
        Ok(confined)
    }

    /// Returns `command` without restrictions, for a program that only relays to a process
    /// elsewhere. It ends with this program.
    pub(crate) fn unrestricted_command(&self, command: Command) -> SandboxedCommand {
        let watcher = self
            .helper
            .as_ref()
            .map(|helper| Arc::clone(&helper.watcher));
        SandboxedCommand {
            command,
            watcher,
            layers: Vec::new(),
            write_access: WriteAccess::default(),
            approved_files: Arc::default(),
        }
    }

    /// Returns the tool's own sandbox.
    pub(crate) fn sandbox(&self) -> Option<&SandboxSettings> {
        self.sandbox.as_ref()
    }

    /// Returns the result of a program, or an error if the helper refused to run it.
    pub(crate) fn check_helper_result(
        &self,
        finished: FinishedProgram,
    ) -> Result<FinishedProgram, HandlerError> {
        match finished.stderr.strip_prefix(HELPER_ERROR_PREFIX) {
            Some(reason) if process::exit_code(finished.status) == HELPER_FAILED_CODE => {
                Err(sandbox_error(reason.trim()))
            }
            _ => Ok(finished),
        }
    }
}

fn sets_variable(command: &Command, name: &str) -> bool {
    let mut variables = command.as_std().get_envs();
    variables.any(|(set, value)| set == name && value.is_some())
}

/// The access of a program that a sandbox needs to permit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramAccess<'a> {
    pub(crate) project: &'a Path,
    pub(crate) workdir: &'a Path,
    /// Sandboxes of the callers.
    pub(crate) sandboxes: &'a [SandboxSettings],
    /// Files of a runtime.
    pub(crate) runtime: Option<RuntimeFiles<'a>>,
    /// Files that an approval of the call covers.
    pub(crate) approved_files: Option<&'a Arc<[ApprovedFile]>>,
    /// The program belongs to the project, for example an MCP server.
    pub(crate) is_of_project: bool,
}

impl<'a> ProgramAccess<'a> {
    fn from_context(ctx: &'a ToolContext) -> Self {
        ProgramAccess {
            project: &ctx.project_dir,
            workdir: &ctx.workdir,
            sandboxes: &ctx.sandboxes,
            runtime: None,
            approved_files: Some(&ctx.approved_files),
            is_of_project: false,
        }
    }
}

/// Builds the layer of a sandbox: the places that a program may read and write, its programs and
/// its network access.
fn build_layer(
    sandbox: &SandboxSettings,
    places: ProgramAccess<'_>,
    program: Option<&Path>,
) -> SandboxLayer {
    // The project path may be relative, and the helper starts in another directory.
    let project = resolved_once(places.project);
    let replaceable = [project.as_path(), places.workdir];
    let resolve_place = |path: &String| {
        let path = match path.strip_prefix("~/").zip(std::env::home_dir()) {
            Some((below, home)) => home.join(below),
            None => project.join(path),
        };
        stated_place(&path, &replaceable)
    };
    let mut read: Vec<PathBuf> = SYSTEM_READ_PATHS.iter().map(PathBuf::from).collect();
    #[cfg(target_os = "linux")]
    read.extend_from_slice(world_readable::readable_settings());
    // Below the root directory are the files of all users.
    read.extend(Some(project.clone()).filter(|project| project.parent().is_some()));
    read.push(places.workdir.to_owned());
    read.extend(program.and_then(Path::parent).map(Path::to_owned));
    let stated_places = |paths: &[String]| paths.iter().map(resolve_place).collect::<Vec<_>>();
    let (stated_read, stated_write) = (stated_places(&sandbox.read), stated_places(&sandbox.write));
    let exact = [
        &[project.clone(), places.workdir.to_owned()],
        stated_read.as_slice(),
        &stated_write,
    ]
    .concat();
    read.extend(stated_read);
    let mut write = vec![places.workdir.to_owned()];
    write.extend(stated_write);
    let programs = sandbox
        .programs
        .as_ref()
        .filter(|programs| !programs.iter().any(|one| one == ANY_PROGRAM));
    let execute = programs.map(|programs| {
        programs
            .iter()
            .flat_map(|name| program_files::find_named_files(name, &project))
    });
    let mut execute: Option<Vec<PathBuf>> = execute.map(Iterator::collect);
    if let Some(runtime) = places.runtime {
        read.extend(
            runtime
                .reads
                .iter()
                .cloned()
                .chain(tool_chains::readable_paths()),
        );
        let real_path = |program: &PathBuf| program.canonicalize().ok();
        read.extend(
            runtime
                .starts
                .iter()
                .cloned()
                .chain(runtime.starts.iter().filter_map(real_path)),
        );
        if let Some(execute) = &mut execute {
            execute.extend(runtime.starts.iter().flat_map(|program| {
                program_files::FoundProgram::from_path(program.clone()).files()
            }));
        }
    }
    SandboxLayer {
        network: sandbox.network,
        read,
        write,
        execute,
        exact,
        stays_stopped: places.is_of_project,
    }
}
