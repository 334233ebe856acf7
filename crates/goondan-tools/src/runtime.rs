//! `runtime`: shell commands, also in the background.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::{Permission, SHELL_COMMAND, SHELL_ENVIRONMENT, SHELL_FOLDER};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::process::{self, Finished, Signal};
use crate::processes::{Background, Processes};
use crate::shell::{self, Lines};
use crate::table::Builtin;

/// Default time limit of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Number of bytes kept of standard output and of standard error. Together, as JSON, they are
/// within the limit of 100,000 characters for a result.
const KEEP: (usize, usize) = (75_000, 15_000);

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "runtime",
    about: "Runs shell commands, also in the background. A background process keeps running between turns. It belongs to the \
            conversation that started it, and ends with the swarm at the latest.",
    config: shell::CONFIG,
    error_message_limit: Some(1200),
    // Longer than the longest `timeout` of a command.
    timeout: Some(Duration::from_secs(86_460)),
    open: |opening| {
        let lines = Lines::new(opening.config()?, opening.state.helper.as_ref())?;
        let shared = Arc::new(Shared {
            lines,
            processes: Arc::clone(&opening.state.processes),
        });
        Ok(vec![
            Export::new::<Exec>("exec", &shared).needs(Permission::Execute),
            Export::new::<Process>("process", &shared).needs(Permission::Execute),
        ])
    },
    ..Builtin::BLANK
};

struct Shared {
    lines: Lines,
    processes: Arc<Processes>,
}

/// Run a shell command with /bin/sh. With `background` it goes on after the call; use `runtime__process` with the
/// process_id that comes back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Exec {
    /// The command line.
    #[schemars(length(min = 1), extend("format" = SHELL_COMMAND))]
    command: String,
    /// The folder to run it in, relative to the working directory.
    #[schemars(extend("format" = SHELL_FOLDER))]
    workdir: Option<String>,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(extend("format" = SHELL_ENVIRONMENT))]
    env: BTreeMap<String, String>,
    /// Return at once and let the command go on.
    #[serde(default)]
    background: bool,
    /// The time limit in seconds: 1800 if not given, none for a command in the background.
    #[schemars(range(min = 10, max = 86_400))]
    timeout: Option<u64>,
}

impl Operation for Exec {
    type Shared = Shared;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(
        self,
        _ctx: &ToolContext,
        shared: &Shared,
    ) -> Result<Option<String>, ToolError> {
        shared.lines.preview(&self.command)
    }

    async fn run(self, ctx: &ToolContext, shared: &Shared) -> Result<ToolOutput, ToolError> {
        let host = shared.lines.host_of(&self.command)?;
        let launcher = &shared.lines.launcher;
        let (field, place, work) = match host {
            Some(host) => {
                let beside = [
                    ("workdir", self.workdir.is_some()),
                    ("env", !self.env.is_empty()),
                ];
                (
                    "host",
                    json!(host.address()),
                    host.work(&self.command, &beside, launcher, ctx)?,
                )
            }
            None => {
                let folder = shell::folder(&ctx.workdir, self.workdir.as_deref())?;
                let extra = self
                    .env
                    .into_iter()
                    .map(|(name, value)| (name, Value::from(value)))
                    .collect();
                let environment = shell::environment(&launcher.env, extra)?;
                (
                    "workdir",
                    json!(folder),
                    shell::work(&self.command, folder, environment, launcher, ctx)?,
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
            return Ok(titled(title, output));
        }
        let finished = process::run(
            work,
            limit.or(Some(DEFAULT_TIMEOUT)),
            KEEP,
            &ctx.cancellation,
        )
        .await;
        let finished =
            launcher.judge(finished.map_err(|failure| failure.into_error("the command"))?)?;
        let mut output = json!({"command": self.command, field: place});
        add(&mut output, &finished);
        match host {
            Some(host) => host.tell(&mut output, &finished),
            None => shell::add(&mut output, shell::note(ctx, &finished)),
        }
        Ok(titled(title, output))
    }
}

/// Adds the result of a command.
fn add(output: &mut Value, finished: &Finished) {
    output["durationMs"] = json!(millis(finished.duration));
    output["stdout"] = json!(finished.stdout);
    output["stderr"] = json!(finished.stderr);
    output["exitCode"] = json!(process::exit_code(finished.status));
    output["signal"] = json!(process::signal_name(finished.status));
    output["timedOut"] = json!(finished.timed_out);
}

/// What to do with a background process.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Status,
    Input,
    Signal,
    Poll,
}

/// Manage a background process: `status` shows its state, `poll` also returns what it has printed since the last poll,
/// `input` writes to its standard input, `signal` sends a signal to it and to all processes that it has started.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Process {
    /// What to do.
    action: Action,
    /// The process, as `runtime__exec` named it.
    #[schemars(length(min = 1))]
    process_id: String,
    /// For `input`: what to write, with a line break at its end if the process reads lines.
    input: Option<String>,
    /// For `signal`: its name, such as SIGTERM (the default), SIGINT or SIGKILL.
    signal: Option<String>,
}

impl Operation for Process {
    type Shared = Shared;

    async fn run(self, ctx: &ToolContext, shared: &Shared) -> Result<ToolOutput, ToolError> {
        let process = shared.processes.find(ctx, &self.process_id)?;
        let mut output = json!({});
        match self.action {
            Action::Status => {}
            Action::Input => {
                let input = self
                    .input
                    .ok_or_else(|| errors::invalid("action `input` needs an `input`"))?;
                process.write(&input).await?;
                output["written"] = json!(input.len());
            }
            Action::Signal => {
                let name = self.signal.unwrap_or_else(|| "SIGTERM".to_owned());
                let signal = Signal::parse(&name)
                    .ok_or_else(|| errors::invalid(format!("there is no signal `{name}`")))?;
                process.signal(signal)?;
                output["sent"] = json!(name);
            }
            Action::Poll => {
                // Read the end first, so that a poll with an end never misses the last output.
                describe(&mut output, &self.process_id, &process);
                let (stdout, stderr) = process.take_output();
                output["stdout"] = json!(stdout);
                output["stderr"] = json!(stderr);
                return Ok(titled(shell::title(&process.line), output));
            }
        }
        describe(&mut output, &self.process_id, &process);
        Ok(titled(shell::title(&process.line), output))
    }
}

/// Adds the state of a process.
fn describe(output: &mut Value, id: &str, process: &Background) {
    let end = process.end();
    output["process_id"] = json!(id);
    output["command"] = json!(process.line);
    output["status"] = json!(if end.is_some() { "exited" } else { "running" });
    output["exitCode"] = json!(end.map(|end| end.status.map_or(-1, process::exit_code)));
    output["signal"] = json!(end.and_then(|end| process::signal_name(end.status?)));
    output["durationMs"] = json!(millis(process.age()));
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
