//! Programs that are spoken with over their standard input and output for as long as a swarm runs, such as MCP servers. They
//! are started and contained as the programs of other tools are, and end with this program, however it ends.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::Sandbox;
use serde_json::Value;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::confine::{Helper, HelperCommand, Launcher, Places};
use crate::process::{self, Failure, Group};
use crate::shell::Settings;

/// How long a program has to end by itself once its input has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts such programs.
#[derive(Debug, Clone, Default)]
pub struct ServerPrograms {
    helper: Option<Arc<Helper>>,
}

/// What is started.
#[derive(Debug, Clone, Copy)]
pub struct ServerCommand<'a> {
    /// A path, or a name that is looked up.
    pub program: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Variables beside the ordinary ones.
    pub env: &'a BTreeMap<String, String>,
    /// Where it runs.
    pub folder: &'a Path,
    /// The settings that its Tool has for programs: `env`, `sandbox` and `limits`.
    pub config: &'a JsonObject,
    /// The sandboxes of those who call it.
    pub sandboxes: &'a [Sandbox],
    /// The project's folder, which programs in a sandbox may read.
    pub project: &'a Path,
    /// The folder that they may write to.
    pub workdir: &'a Path,
    /// What it is made of, where it is a runtime that was found on this machine.
    pub runtime: Option<RuntimeFiles<'a>>,
}

/// What a runtime is made of, which it may use in a sandbox, too.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeFiles<'a> {
    /// Folders that it reads beside those of tool chains.
    pub reads: &'a [PathBuf],
    /// Programs that it consists of.
    pub starts: &'a [PathBuf],
}

/// A program that runs. Dropping it kills all of its processes.
pub struct ServerProgram {
    /// What it is told.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    /// What it complains about.
    pub stderr: Option<ChildStderr>,
    group: Group,
}

impl ServerPrograms {
    /// Contains programs with the help of that command, where a sandbox or limits are wanted, and has it end those that
    /// are left behind where this program is killed.
    pub fn new(helper: Option<HelperCommand>) -> Self {
        ServerPrograms {
            helper: helper.map(Helper::new),
        }
    }

    /// Starts a program.
    ///
    /// # Errors
    /// It can't be started, or not be contained as wanted.
    pub async fn start(&self, wanted: &ServerCommand<'_>) -> Result<ServerProgram, ToolError> {
        let settings: Settings = serde_json::from_value(Value::Object(wanted.config.clone()))
            .map_err(|error| ToolError::new(format!("the config of its Tool is wrong: {error}")))?;
        let launcher = Launcher::new(settings, self.helper.as_ref());
        let environment = process::environment(&launcher.env, wanted.env.clone());
        let mut command = process::command(wanted.program, wanted.folder, environment);
        command.args(wanted.args);
        let (project, workdir, sandboxes) = (wanted.project, wanted.workdir, wanted.sandboxes);
        let places = Places {
            project,
            workdir,
            sandboxes,
            runtime: wanted.runtime,
        };
        let program = PathBuf::from(wanted.program);
        let program = (program.components().count() > 1).then_some(program.as_path());
        let mut contained = launcher.confine_in(command, places, program, Vec::new())?;
        contained.command.stdin(Stdio::piped());
        let mut group = Group::spawn_patiently(contained)
            .await
            .map_err(|error| Failure::Io(error).into_error(&format!("`{}`", wanted.program)))?;
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
    /// Ends it with all that it has started, and says how it ended. Its input has ended, so it is left a moment to do so by
    /// itself.
    pub async fn end(&mut self) -> String {
        self.stdin = None;
        let status = match tokio::time::timeout(PATIENCE, self.group.wait()).await {
            Ok(status) => {
                // What it has started may still be there.
                let _ = self.group.end().await;
                status
            }
            Err(_) => self.group.end().await,
        };
        told(status)
    }

    /// Waits until it ends by itself, and says how it did. What it has started ends with it.
    pub async fn wait(&mut self) -> String {
        let status = self.group.wait().await;
        self.group.kill();
        told(status)
    }

    /// Kills it with all that it has started, and says how it ended.
    pub async fn kill(&mut self) -> String {
        self.group.kill();
        told(self.group.wait().await)
    }
}

/// How a program ended.
fn told(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match process::signal_name(status) {
            Some(signal) => format!("ended by {signal}"),
            None => format!("exit code {}", process::exit_code(status)),
        },
        Err(error) => error.to_string(),
    }
}
