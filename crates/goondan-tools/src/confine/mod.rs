//! Contains the programs that tools run: limits on what they use up, and a sandbox (rule S4).
//!
//! A sandbox holds for a thread and all that it starts, so a program in one is started by a thread that is made for it
//! and ends with it (`start`). Limits hold for a process: they are put on by a helper, this very program, started again with
//! [`HelperCommand`], which limits itself ([`enter`]) and then executes. What cannot be put on is an error of the call,
//! never left out.
//!
//! The helper also ends what is left behind where this program is killed (`watcher`).

mod command;
mod enter;
use goondan_spec::Code;

#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod programs;
pub(crate) mod start;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_spec::kinds::{ProcessLimits, Sandbox};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::paths::still_there;
use crate::process::{self, Finished};
use crate::servers::RuntimeFiles;
use crate::shell::Settings;
use crate::tool_chains;

pub use enter::enter;
pub(crate) use start::NoSandbox;
pub(crate) use watcher::{Watched, Watcher};

/// Stands for any program.
const ANY: &str = "*";

/// The exit code of a helper that could not do its work.
const REFUSED: i32 = 125;

/// What such a helper says before the reason.
const MARK: &str = "gdn-sandbox: ";

/// What every program may read: the system, without the folders of its users.
const SYSTEM: [&str; 20] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/sys",
    "/dev/shm",
    "/run",
    // Not all of /proc: it shows the environment of other processes.
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/version",
];

/// How this program starts itself as the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperCommand {
    /// The program, best as an absolute path.
    pub program: PathBuf,
    /// What stands before the restrictions.
    pub args: Vec<String>,
}

/// What the helper is told, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Restrictions {
    limits: ProcessLimits,
    /// Each is put on top of the others.
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Layer {
    network: bool,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// The programs that may be started; any that may be read where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execute: Option<Vec<PathBuf>>,
}

#[cfg(target_os = "linux")]
impl Layer {
    /// All that it tells of.
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.read
            .iter()
            .chain(&self.write)
            .chain(self.execute.iter().flatten())
    }
}

/// The helper at work.
#[derive(Debug)]
pub(crate) struct Helper {
    command: HelperCommand,
    watcher: Arc<Watcher>,
}

impl Helper {
    /// Nothing is started yet.
    pub(crate) fn new(command: HelperCommand) -> Arc<Self> {
        Arc::new(Helper {
            watcher: Arc::new(Watcher::new(command.clone())),
            command,
        })
    }
}

/// A command with all that is wanted of it; nothing else is started.
pub(crate) struct Contained {
    /// What is started.
    pub(crate) command: Command,
    /// Who ends it where this program can't.
    pub(crate) watcher: Option<Arc<Watcher>>,
    /// The sandboxes that it is started in, each on top of the others.
    pub(crate) layers: Vec<Layer>,
}

impl Contained {
    /// Gets ready what must be there before it starts.
    pub(crate) fn prepare(&self) {
        self.watcher.iter().for_each(|watcher| watcher.prepare());
    }
}

/// How the programs of a tool are started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Launcher {
    /// Names of environment variables that programs may see beside the ordinary ones.
    pub(crate) env: Vec<String>,
    sandbox: Option<Sandbox>,
    limits: ProcessLimits,
    helper: Option<Arc<Helper>>,
}

impl Launcher {
    /// With the settings of a tool.
    pub(crate) fn new(settings: Settings, helper: Option<&Arc<Helper>>) -> Self {
        let sandbox = settings.sandbox.and_then(|sandbox| sandbox.0);
        Launcher {
            env: settings.env,
            sandbox,
            limits: settings.limits,
            helper: helper.cloned(),
        }
    }

    /// `command` with what the tool, the agent and its callers want of it. `program` is what it runs, if that lies
    /// somewhere in the project or the home folder.
    pub(crate) fn confine(
        &self,
        command: Command,
        ctx: &ToolContext,
        program: Option<&Path>,
    ) -> Result<Contained, ToolError> {
        self.confine_with(command, ctx, program, Vec::new())
    }

    /// As [`Launcher::confine`], and in `more` sandboxes.
    fn confine_with(
        &self,
        command: Command,
        ctx: &ToolContext,
        program: Option<&Path>,
        more: Vec<Layer>,
    ) -> Result<Contained, ToolError> {
        still_there(ctx)?;
        self.confine_in(command, Places::of(ctx), program, more)
    }

    /// As [`Launcher::confine`], for what runs there, and in `more` sandboxes.
    pub(crate) fn confine_in(
        &self,
        mut command: Command,
        places: Places<'_>,
        program: Option<&Path>,
        more: Vec<Layer>,
    ) -> Result<Contained, ToolError> {
        let watcher = self
            .helper
            .as_ref()
            .map(|helper| Arc::clone(&helper.watcher));
        let sandboxes = self.sandbox.iter().chain(places.sandboxes);
        let mut layers: Vec<Layer> = sandboxes
            .map(|sandbox| layer(sandbox, places, program))
            .collect();
        layers.extend(more);
        if !layers.is_empty() {
            // The common one can't be written.
            command.env("TMPDIR", places.workdir);
        }
        if self.limits == ProcessLimits::default() {
            return Ok(Contained {
                command,
                watcher,
                layers,
            });
        }
        let Some(helper) = &self.helper else {
            return Err(
                refused("this program can't start the helper that it takes").suggest(
                    "give `SwarmBuilder::sandbox_helper` a command, or run the swarm with `gdn`",
                ),
            );
        };
        let restrictions = serde_json::to_string(&Restrictions {
            limits: self.limits,
            layers,
        })
        .map_err(|error| refused(&format!("its restrictions can't be told: {error}")))?;
        Ok(Contained {
            command: wrapped(&helper.command, &restrictions, command),
            watcher,
            layers: Vec::new(),
        })
    }

    /// `command` without any of that, for a program that only passes on what runs elsewhere. It ends with this one.
    pub(crate) fn plain(&self, command: Command) -> Contained {
        let watcher = self
            .helper
            .as_ref()
            .map(|helper| Arc::clone(&helper.watcher));
        Contained {
            command,
            watcher,
            layers: Vec::new(),
        }
    }

    /// What the tool itself wants.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.sandbox.as_ref()
    }

    /// What came of a program, unless the helper refused to run it.
    pub(crate) fn judge(&self, finished: Finished) -> Result<Finished, ToolError> {
        match finished.stderr.strip_prefix(MARK) {
            Some(reason) if process::exit_code(finished.status) == REFUSED => {
                Err(refused(reason.trim()))
            }
            _ => Ok(finished),
        }
    }
}

pub(crate) fn refused(reason: &str) -> ToolError {
    ToolError::new(format!("the program was not run, because it can't be contained as wanted: {reason}"))
        .code(Code::TOOL_SANDBOX)
        .suggest(
            "Whoever runs the swarm can run it on a system that can, or take `sandbox` or `limits` out of its YAML.",
        )
}

/// The command that starts the helper, which becomes `command`.
fn wrapped(helper: &HelperCommand, restrictions: &str, command: Command) -> Command {
    let inner = command.as_std();
    let mut outer = Command::new(&helper.program);
    outer
        .args(&helper.args)
        .arg(restrictions)
        .arg("--")
        .arg(inner.get_program())
        .args(inner.get_args());
    outer.env_clear();
    outer.envs(
        inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
    process::piped(&mut outer);
    outer
}

/// Where a program runs, as far as that matters to a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    /// The project's folder.
    pub(crate) project: &'a Path,
    /// The folder that it may write to.
    pub(crate) workdir: &'a Path,
    /// The sandboxes of those who run it.
    pub(crate) sandboxes: &'a [Sandbox],
    /// What it is made of, where it is a runtime.
    pub(crate) runtime: Option<RuntimeFiles<'a>>,
}

impl<'a> Places<'a> {
    /// Those of a call.
    fn of(ctx: &'a ToolContext) -> Self {
        Places {
            project: &ctx.project_dir,
            workdir: &ctx.workdir,
            sandboxes: &ctx.sandboxes,
            runtime: None,
        }
    }
}

fn layer(sandbox: &Sandbox, places: Places<'_>, program: Option<&Path>) -> Layer {
    // The project may be given as a relative path, and the helper starts elsewhere.
    let project = std::path::absolute(places.project).unwrap_or_else(|_| places.project.to_owned());
    let place = |path: &String| match path.strip_prefix("~/").zip(std::env::home_dir()) {
        Some((below, home)) => home.join(below),
        None => project.join(path),
    };
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.extend([project.clone(), places.workdir.to_owned()]);
    read.extend(program.and_then(Path::parent).map(Path::to_owned));
    read.extend(sandbox.read.iter().map(place));
    let mut write = vec![places.workdir.to_owned()];
    write.extend(sandbox.write.iter().map(place));
    let programs = sandbox
        .programs
        .as_ref()
        .filter(|programs| !programs.iter().any(|one| one == ANY));
    let execute = programs.map(|programs| {
        programs
            .iter()
            .flat_map(|name| programs::named(name, &project))
    });
    let mut execute: Option<Vec<PathBuf>> = execute.map(Iterator::collect);
    if let Some(runtime) = places.runtime {
        read.extend(runtime.reads.iter().cloned().chain(tool_chains::readable()));
        let real = |program: &PathBuf| program.canonicalize().ok();
        read.extend(
            runtime
                .starts
                .iter()
                .cloned()
                .chain(runtime.starts.iter().filter_map(real)),
        );
        if let Some(execute) = &mut execute {
            execute.extend(
                runtime
                    .starts
                    .iter()
                    .flat_map(|program| programs::Found::at(program.clone()).files()),
            );
        }
    }
    Layer {
        network: sandbox.network,
        read,
        write,
        execute,
    }
}
