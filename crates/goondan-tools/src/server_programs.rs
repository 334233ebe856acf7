//! Programs with a dialog over standard input and output during a swarm's run, such as MCP servers.
//! They are started and sandboxed like programs of other tools, and end with this program in all
//! cases.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_spec::kinds::SandboxSettings;
use serde_json::Value;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::process::{self, ProgramFailure, ProgramGroup};
use crate::sandbox::{HelperCommand, ProgramAccess, ProgramLauncher, SandboxHelper, resolved_once};
use crate::shell::ShellSettings;

/// Time that a program has to exit after its input is closed.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub struct ServerPrograms {
    helper: Option<Arc<SandboxHelper>>,
}

/// The program to start.
#[derive(Debug, Clone, Copy)]
pub struct ServerCommand<'a> {
    /// A path, or a name to search in `PATH`.
    pub program: &'a str,
    pub args: &'a [String],
    /// Environment variables in addition to the ordinary ones.
    pub env: &'a BTreeMap<String, String>,
    /// Working directory.
    pub folder: &'a Path,
    /// The Tool's settings for programs: `env`, `sandbox` and `limits`.
    pub config: &'a JsonObject,
    /// Sandboxes of the callers.
    pub sandboxes: &'a [SandboxSettings],
    /// Directory of the project, which sandboxed programs may read.
    pub project: &'a Path,
    /// Directory that sandboxed programs may write to.
    pub workdir: &'a Path,
    /// Files of a runtime that was found on this machine.
    pub runtime: Option<RuntimeFiles<'a>>,
    /// Files that an approval of the call covers. The program starts only with their content.
    pub approved_files: &'a Arc<[ApprovedFile]>,
}

/// Files that a runtime may use even in a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeFiles<'a> {
    /// Readable directories in addition to those of tool chains.
    pub reads: &'a [PathBuf],
    /// Executable programs.
    pub starts: &'a [PathBuf],
}

/// A running program. Dropping it kills all of its processes.
pub struct ServerProgram {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    group: ProgramGroup,
}

impl ServerPrograms {
    /// Creates a starter. `helper` applies sandboxes and limits, and ends leftover processes if
    /// this program is killed.
    pub fn new(helper: Option<HelperCommand>) -> Self {
        ServerPrograms {
            helper: helper.map(SandboxHelper::new),
        }
    }

    /// Starts a program.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started, or not be sandboxed as required.
    pub async fn start(&self, wanted: &ServerCommand<'_>) -> Result<ServerProgram, HandlerError> {
        let settings: ShellSettings = serde_json::from_value(Value::Object(wanted.config.clone()))
            .map_err(|error| {
                HandlerError::new(format!("the config of its Tool is invalid: {error}"))
            })?;
        let launcher = ProgramLauncher::new(settings, self.helper.as_ref());
        let environment = process::environment(&launcher.env, wanted.env.clone());
        let mut command = process::command(wanted.program, wanted.folder, environment);
        command.args(wanted.args);
        let (project, sandboxes) = (wanted.project, wanted.sandboxes);
        let workdir = &resolved_once(wanted.workdir);
        let places = ProgramAccess {
            project,
            workdir,
            sandboxes,
            runtime: wanted.runtime,
            approved_files: Some(wanted.approved_files),
            is_of_project: true,
        };
        let program = PathBuf::from(wanted.program);
        let program = (program.components().count() > 1).then_some(program.as_path());
        let mut contained = launcher.confine_in(command, places, program, Vec::new())?;
        contained.command.stdin(Stdio::piped());
        let mut group = ProgramGroup::spawn_patiently(contained)
            .await
            .map_err(|error| {
                ProgramFailure::Io(error).into_error(&format!("`{}`", wanted.program))
            })?;
        let pipes = group.pipes();
        let (stdin, stdout, stderr) = (
            pipes.stdin().take(),
            pipes.stdout().take(),
            pipes.stderr().take(),
        );
        Ok(ServerProgram {
            stdin,
            stdout,
            stderr,
            group,
        })
    }
}

impl ServerProgram {
    /// Returns the process id; `None` after the end.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn id(&self) -> Option<u32> {
        self.group.id()
    }

    /// Closes the input, waits briefly for the program to exit, and then ends it with its child
    /// processes. Returns a description of its end.
    pub async fn end(&mut self) -> String {
        self.stdin = None;
        let status = match tokio::time::timeout(SERVER_EXIT_TIMEOUT, self.group.wait()).await {
            Ok(status) => {
                // Child processes may still be running.
                let _ = self.group.end().await;
                status
            }
            Err(_) => self.group.end().await,
        };
        describe_exit(status)
    }

    /// Waits until the program exits, and describes its end. Its child processes end with it.
    pub async fn wait(&mut self) -> String {
        let status = self.group.wait().await;
        self.group.kill();
        describe_exit(status)
    }

    /// Kills the program with its child processes, and describes its end.
    pub async fn kill(&mut self) -> String {
        self.group.kill();
        describe_exit(self.group.wait().await)
    }
}

/// Describes the end of a program.
fn describe_exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match process::signal_name(status) {
            Some(signal) => format!("ended by {signal}"),
            None => format!("exit code {}", process::exit_code(status)),
        },
        Err(error) => error.to_string(),
    }
}
