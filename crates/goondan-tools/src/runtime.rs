//! `runtime`: shell commands, also in the background.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::{
    Permission, SHELL_COMMAND_FORMAT, SHELL_DIRECTORY_FORMAT, SHELL_ENVIRONMENT_FORMAT,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::background_processes::{BackgroundProcess, BackgroundProcesses};
use crate::builtin_tool::BuiltinTool;
use crate::errors::{self, lossy_path};
use crate::process::{self, FinishedProgram};
use crate::process_signal::ProcessSignal;
use crate::shell::{self, CommandLineLauncher};
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Default time limit of a command.
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Number of bytes kept of standard output and of standard error. Together, as JSON, they are
/// within the limit of 100,000 characters for a result.
const KEPT_OUTPUT_BYTES: (usize, usize) = (75_000, 15_000);

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "runtime",
    about: "Runs shell commands, optionally in the background. A background process keeps running \
        between turns. It belongs to the conversation that started it, and ends with the swarm at \
        the latest.",
    config: shell::SHELL_CONFIG_KEYS,
    error_message_limit: Some(1200),
    // Longer than the longest `timeout` of a command.
    timeout: Some(Duration::from_secs(86_460)),
    open: |opening| {
        let lines = CommandLineLauncher::new(opening.config()?, opening.state.helper.as_ref())?;
        let shared = Arc::new(RuntimeToolState {
            lines,
            processes: Arc::clone(&opening.state.processes),
        });
        Ok(vec![
            ToolExport::new::<RuntimeExec>("exec", &shared).with_permission(Permission::Execute),
            ToolExport::new::<ManageProcess>("process", &shared)
                .with_permission(Permission::Execute),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

struct RuntimeToolState {
    lines: CommandLineLauncher,
    processes: Arc<BackgroundProcesses>,
}

/// Run a shell command with /bin/sh. With `background` it keeps running after the call; use
/// `runtime__process` with the returned process_id.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuntimeExec {
    /// The command line.
    #[schemars(length(min = 1), extend("format" = SHELL_COMMAND_FORMAT))]
    command: String,
    /// The directory to run in, relative to the working directory.
    #[schemars(extend("format" = SHELL_DIRECTORY_FORMAT))]
    workdir: Option<String>,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(extend("format" = SHELL_ENVIRONMENT_FORMAT))]
    env: BTreeMap<String, String>,
    /// Return at once; the command keeps running.
    #[serde(default)]
    background: bool,
    /// The time limit in seconds; default: 1800, or none with `background`.
    #[schemars(range(min = 10, max = 86_400))]
    timeout: Option<u64>,
}

impl ToolOperation for RuntimeExec {
    type Shared = RuntimeToolState;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(
        self,
        _ctx: &ToolContext,
        shared: &RuntimeToolState,
    ) -> Result<Option<String>, HandlerError> {
        shared.lines.preview(&self.command)
    }

    async fn run(
        self,
        ctx: &ToolContext,
        shared: &RuntimeToolState,
    ) -> Result<ToolOutput, HandlerError> {
        let host = shared.lines.host_of(&self.command)?;
        let launcher = &shared.lines.launcher;
        let (field, place, work) = match host {
            Some(host) => {
                let unsupported_settings = [
                    ("workdir", self.workdir.is_some()),
                    ("env", !self.env.is_empty()),
                ];
                (
                    "host",
                    json!(host.address()),
                    host.prepare_command(&self.command, &unsupported_settings, launcher, ctx)?,
                )
            }
            None => {
                let folder = shell::resolve_directory(&ctx.workdir, self.workdir.as_deref())?;
                let extra = self
                    .env
                    .into_iter()
                    .map(|(name, value)| (name, Value::from(value)))
                    .collect();
                let environment = shell::environment(&launcher.env, extra)?;
                (
                    "workdir",
                    json!(lossy_path(&folder)),
                    shell::prepare_command(&self.command, folder, environment, launcher, ctx)?,
                )
            }
        };
        let title = shell::title(&self.command);
        let limit = self.timeout.map(Duration::from_secs);
        if self.background {
            let id = shared
                .processes
                .start(ctx, &self.command, work, limit)
                .await?;
            let output = json!({"process_id": id, "command": self.command, field: place, "status": "running"});
            return Ok(titled_output(title, output));
        }
        let finished = process::run(
            work,
            limit.or(Some(DEFAULT_COMMAND_TIMEOUT)),
            KEPT_OUTPUT_BYTES,
            ctx,
        )
        .await;
        let finished = launcher
            .check_helper_result(finished.map_err(|failure| failure.into_error("the command"))?)?;
        let mut output = json!({"command": self.command, field: place});
        add(&mut output, &finished);
        match host {
            Some(host) => host.describe_result(&mut output, &finished),
            None => shell::add(&mut output, shell::sandbox_note(ctx, &finished)),
        }
        Ok(titled_output(title, output))
    }
}

/// Adds the result of a command.
fn add(output: &mut Value, finished: &FinishedProgram) {
    output["durationMs"] = json!(to_millis(finished.duration));
    output["stdout"] = json!(finished.stdout);
    output["stderr"] = json!(finished.stderr);
    output["exitCode"] = json!(process::exit_code(finished.status));
    output["signal"] = json!(process::signal_name(finished.status));
    output["timedOut"] = json!(finished.timed_out);
}

/// What to do with a background process.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ProcessAction {
    Status,
    Input,
    Signal,
    Poll,
}

/// Manage a background process: `status` shows its state, `poll` also returns its output since the
/// last poll, `input` writes to its standard input, `signal` sends a signal to it and its child
/// processes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ManageProcess {
    /// The action.
    action: ProcessAction,
    /// The process_id from `runtime__exec`.
    #[schemars(length(min = 1))]
    process_id: String,
    /// For `input`: the text to write. End it with a line break if the process reads lines.
    input: Option<String>,
    /// For `signal`: the name, such as SIGTERM (the default), SIGINT or SIGKILL.
    signal: Option<String>,
}

impl ToolOperation for ManageProcess {
    type Shared = RuntimeToolState;

    /// Adds the identity of the process to its id, because another process has the same id after a
    /// restart.
    fn unique_arguments(self, ctx: &ToolContext, shared: &RuntimeToolState) -> JsonObject {
        let process = shared.processes.find(ctx, &self.process_id).ok();
        let identity = process.map_or("no process".to_owned(), |process| process.identity.clone());
        let id = json!(format!("{} ({identity})", self.process_id));
        JsonObject::from_iter([("process_id".to_owned(), id)])
    }

    async fn run(
        self,
        ctx: &ToolContext,
        shared: &RuntimeToolState,
    ) -> Result<ToolOutput, HandlerError> {
        let process = shared.processes.find(ctx, &self.process_id)?;
        let mut output = json!({});
        match self.action {
            ProcessAction::Status => {}
            ProcessAction::Input => {
                let input = self
                    .input
                    .ok_or_else(|| errors::invalid_argument("action `input` needs an `input`"))?;
                process.write(&input).await?;
                output["written"] = json!(input.len());
            }
            ProcessAction::Signal => {
                let name = self.signal.unwrap_or_else(|| "SIGTERM".to_owned());
                let signal = ProcessSignal::parse(&name)
                    .ok_or_else(|| errors::invalid_argument(format!("unknown signal `{name}`")))?;
                process.signal(signal)?;
                output["sent"] = json!(name);
            }
            ProcessAction::Poll => {
                // Read the end first, so that a poll with an end never misses the last output.
                add_process_state(&mut output, &self.process_id, &process);
                let (stdout, stderr) = process.take_output();
                output["stdout"] = json!(stdout);
                output["stderr"] = json!(stderr);
                return Ok(titled_output(shell::title(&process.line), output));
            }
        }
        add_process_state(&mut output, &self.process_id, &process);
        Ok(titled_output(shell::title(&process.line), output))
    }
}

fn add_process_state(output: &mut Value, id: &str, process: &BackgroundProcess) {
    let end = process.end();
    output["process_id"] = json!(id);
    output["command"] = json!(process.line);
    output["status"] = json!(if end.is_some() { "exited" } else { "running" });
    output["exitCode"] = json!(end.map(|end| end.status.map_or(-1, process::exit_code)));
    output["signal"] = json!(end.and_then(|end| process::signal_name(end.status?)));
    output["durationMs"] = json!(to_millis(process.age()));
}

/// Returns the duration in milliseconds, at most `u64::MAX`.
fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
