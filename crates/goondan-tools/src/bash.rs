//! `bash`: shell commands and scripts.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::{
    PATH, PROGRAM, Permission, SHELL_COMMAND, SHELL_ENVIRONMENT, SHELL_FOLDER,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::confine::Launcher;
use crate::define::{Export, Operation, titled};
use crate::line::Work;
use crate::paths::Root;
use crate::process::{self, Finished};
use crate::shell::{self, Lines};
use crate::table::Builtin;

/// Number of bytes kept of standard output and of standard error. Both fit in a result.
const KEEP: (usize, usize) = (40_000, 40_000);

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "bash",
    about: "Runs shell commands and scripts. Each runs in its own process group, which ends with the call, and with an \
            environment without keys.",
    config: shell::CONFIG,
    error_message_limit: Some(1200),
    timeout: Some(Duration::from_secs(3_600)),
    open: |opening| {
        let settings = Arc::new(Lines::new(
            opening.config()?,
            opening.state.helper.as_ref(),
        )?);
        Ok(vec![
            Export::new::<Exec>("exec", &settings).needs(Permission::Execute),
            Export::new::<Script>("script", &settings).needs(Permission::Execute),
        ])
    },
    ..Builtin::BLANK
};

/// Run a shell command with /bin/sh in the working directory. Processes that it leaves in the background end with it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Exec {
    /// The command line.
    #[schemars(length(min = 1), extend("format" = SHELL_COMMAND))]
    command: String,
    /// The folder to run it in, relative to the working directory.
    #[schemars(extend("format" = SHELL_FOLDER))]
    cwd: Option<String>,
    /// The time limit in milliseconds; 0 for none but the tool's own.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0))]
    timeout_ms: u64,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(schema_with = "variables")]
    env: JsonObject,
}

impl Operation for Exec {
    type Shared = Lines;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(self, _ctx: &ToolContext, lines: &Lines) -> Result<Option<String>, ToolError> {
        lines.preview(&self.command)
    }

    async fn run(self, ctx: &ToolContext, lines: &Lines) -> Result<ToolOutput, ToolError> {
        let launcher = &lines.launcher;
        if let Some(host) = lines.host_of(&self.command)? {
            let beside = [("cwd", self.cwd.is_some()), ("env", !self.env.is_empty())];
            let work = host.work(&self.command, &beside, launcher, ctx)?;
            let finished = run(launcher, work, self.timeout_ms, ctx, "`ssh`").await?;
            let mut output = json!({"command": self.command});
            host.tell(&mut output, &finished);
            let Value::Object(output) = output else {
                unreachable!("it was made above")
            };
            return Ok(report(&self.command, output, finished));
        }
        let folder = shell::folder(&ctx.workdir, self.cwd.as_deref())?;
        let environment = shell::environment(&launcher.env, self.env)?;
        let work = shell::work(&self.command, folder.clone(), environment, launcher, ctx)?;
        let finished = run(launcher, work, self.timeout_ms, ctx, "the command").await?;
        let mut output = JsonObject::new();
        output.insert("command".to_owned(), json!(self.command));
        output.insert("cwd".to_owned(), json!(folder));
        let note = shell::note(ctx, &finished);
        let mut report = report(&self.command, output, finished);
        shell::add(&mut report.output, note);
        Ok(report)
    }
}

/// Run a script file of the working directory with a shell.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    /// The script file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH))]
    path: String,
    /// Arguments for the script.
    #[serde(default)]
    args: Vec<String>,
    /// The program that reads the script.
    #[serde(default = "default_shell")]
    #[schemars(length(min = 1), extend("format" = PROGRAM))]
    shell: String,
    /// The time limit in milliseconds; 0 for none but the tool's own.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0))]
    timeout_ms: u64,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(schema_with = "variables")]
    env: JsonObject,
}

impl Operation for Script {
    type Shared = Lines;
    const WATCHES_CANCELLATION: bool = true;

    async fn run(self, ctx: &ToolContext, lines: &Lines) -> Result<ToolOutput, ToolError> {
        let launcher = &lines.launcher;
        if let Some(host) = lines.host.as_ref().filter(|host| host.takes_all()) {
            let message = format!(
                "command lines run on {}, and the script is here",
                host.address()
            );
            return Err(ToolError::new(message)
                .code(Code::TOOL_UNAVAILABLE)
                .suggest("run it there with `bash__exec`, if it is there"));
        }
        let root = Root::of(ctx)?;
        let script = root.resolve(&self.path)?;
        root.open(&script)?;
        let environment = shell::environment(&launcher.env, self.env)?;
        let mut command = process::command(&self.shell, root.folder(), environment);
        command.arg(&script.path).args(&self.args);
        let work = Work::Program(Box::new(launcher.confine(command, ctx, None)?));
        let finished = run(
            launcher,
            work,
            self.timeout_ms,
            ctx,
            &format!("`{}`", self.shell),
        )
        .await?;
        let mut output = JsonObject::new();
        output.insert("path".to_owned(), json!(script.path));
        output.insert("shell".to_owned(), json!(self.shell));
        output.insert("args".to_owned(), json!(self.args));
        Ok(report(&self.path, output, finished))
    }
}

/// Runs `work`. `what` describes it in the error if it does not start.
async fn run(
    launcher: &Launcher,
    work: Work,
    timeout_ms: u64,
    ctx: &ToolContext,
    what: &str,
) -> Result<Finished, ToolError> {
    let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let finished = process::run(work, limit, KEEP, &ctx.cancellation).await;
    launcher.judge(finished.map_err(|failure| failure.into_error(what))?)
}

/// Combines the operation's own fields with the result of the process.
fn report(title: &str, mut output: JsonObject, finished: Finished) -> ToolOutput {
    let fields = [
        (
            "durationMs",
            json!(u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX)),
        ),
        ("stdout", json!(finished.stdout)),
        ("stderr", json!(finished.stderr)),
        ("exitCode", json!(process::exit_code(finished.status))),
        ("signal", json!(process::signal_name(finished.status))),
        ("timedOut", json!(finished.timed_out)),
    ];
    output.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    titled(shell::title(title), Value::Object(output))
}

fn variables(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "format": SHELL_ENVIRONMENT, "additionalProperties": {"type": ["string", "number", "boolean"]}})
}

fn default_timeout() -> u64 {
    30_000
}

fn default_shell() -> String {
    "/bin/bash".to_owned()
}
