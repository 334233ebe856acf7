//! `bash`: shell commands and scripts.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::{
    PATH_FORMAT, PROGRAM_FORMAT, Permission, SHELL_COMMAND_FORMAT, SHELL_DIRECTORY_FORMAT,
    SHELL_ENVIRONMENT_FORMAT,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::command_runner::PreparedCommand;
use crate::errors::lossy_path;
use crate::paths::FileRoot;
use crate::process::{self, FinishedProgram};
use crate::sandbox::ProgramLauncher;
use crate::shell::{self, CommandLineLauncher};
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Number of bytes kept of standard output and of standard error. Both fit in a result.
const KEPT_OUTPUT_BYTES: (usize, usize) = (40_000, 40_000);

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "bash",
    about: "Runs shell commands and scripts. Each call has its own process group, which ends with \
        the call. The environment contains no API keys.",
    config: shell::SHELL_CONFIG_KEYS,
    error_message_limit: Some(1200),
    timeout: Some(Duration::from_secs(3_600)),
    open: |opening| {
        let settings = Arc::new(CommandLineLauncher::new(
            opening.config()?,
            opening.state.helper.as_ref(),
        )?);
        Ok(vec![
            ToolExport::new::<BashCommand>("exec", &settings).with_permission(Permission::Execute),
            ToolExport::new::<BashScript>("script", &settings).with_permission(Permission::Execute),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Run a shell command with /bin/sh in the working directory. Its background processes end when the
/// command ends.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BashCommand {
    /// The command line.
    #[schemars(length(min = 1), extend("format" = SHELL_COMMAND_FORMAT))]
    command: String,
    /// The directory to run in, relative to the working directory.
    #[schemars(extend("format" = SHELL_DIRECTORY_FORMAT))]
    cwd: Option<String>,
    /// The time limit in milliseconds; 0: only the tool's own limit.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0))]
    timeout_ms: u64,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(schema_with = "variables_schema")]
    env: JsonObject,
}

impl ToolOperation for BashCommand {
    type Shared = CommandLineLauncher;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(
        self,
        _ctx: &ToolContext,
        lines: &CommandLineLauncher,
    ) -> Result<Option<String>, HandlerError> {
        lines.preview(&self.command)
    }

    async fn run(
        self,
        ctx: &ToolContext,
        lines: &CommandLineLauncher,
    ) -> Result<ToolOutput, HandlerError> {
        let launcher = &lines.launcher;
        if let Some(host) = lines.host_of(&self.command)? {
            let beside = [("cwd", self.cwd.is_some()), ("env", !self.env.is_empty())];
            let work = host.prepare_command(&self.command, &beside, launcher, ctx)?;
            let finished = run(launcher, work, self.timeout_ms, ctx, "`ssh`").await?;
            let mut output = json!({"command": self.command});
            host.describe_result(&mut output, &finished);
            let Value::Object(output) = output else {
                unreachable!("it was made above")
            };
            return Ok(process_report(&self.command, output, finished));
        }
        let folder = shell::resolve_directory(&ctx.workdir, self.cwd.as_deref())?;
        let environment = shell::environment(&launcher.env, self.env)?;
        let work =
            shell::prepare_command(&self.command, folder.clone(), environment, launcher, ctx)?;
        let finished = run(launcher, work, self.timeout_ms, ctx, "the command").await?;
        let mut output = JsonObject::new();
        output.insert("command".to_owned(), json!(self.command));
        output.insert("cwd".to_owned(), json!(lossy_path(&folder)));
        let note = shell::sandbox_note(ctx, &finished);
        let mut report = process_report(&self.command, output, finished);
        shell::add(&mut report.output, note);
        Ok(report)
    }
}

/// Run a script file with a shell.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BashScript {
    /// The script file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// Arguments for the script.
    #[serde(default)]
    args: Vec<String>,
    /// The shell that runs the script.
    #[serde(default = "default_shell")]
    #[schemars(length(min = 1), extend("format" = PROGRAM_FORMAT))]
    shell: String,
    /// The time limit in milliseconds; 0: only the tool's own limit.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0))]
    timeout_ms: u64,
    /// Environment variables to set.
    #[serde(default)]
    #[schemars(schema_with = "variables_schema")]
    env: JsonObject,
}

impl ToolOperation for BashScript {
    type Shared = CommandLineLauncher;
    const WATCHES_CANCELLATION: bool = true;

    async fn run(
        self,
        ctx: &ToolContext,
        lines: &CommandLineLauncher,
    ) -> Result<ToolOutput, HandlerError> {
        let launcher = &lines.launcher;
        if let Some(host) = lines.host.as_ref().filter(|host| host.runs_every_line()) {
            let message = format!(
                "command lines run on {}, but the script is a local file",
                host.address()
            );
            return Err(HandlerError::new(message)
                .code(Code::TOOL_UNAVAILABLE)
                .suggest("if the script exists there, run it with `bash__exec`"));
        }
        let root = FileRoot::from_context(ctx)?;
        let script = root.resolve(&self.path)?;
        root.open(&script)?;
        let environment = shell::environment(&launcher.env, self.env)?;
        let mut command = process::command(&self.shell, root.folder(), environment);
        command.arg(&script.path).args(&self.args);
        let work = PreparedCommand::Program(Box::new(launcher.confine(command, ctx, None)?));
        let finished = run(
            launcher,
            work,
            self.timeout_ms,
            ctx,
            &format!("`{}`", self.shell),
        )
        .await?;
        let mut output = JsonObject::new();
        output.insert("path".to_owned(), json!(lossy_path(&script.path)));
        output.insert("shell".to_owned(), json!(self.shell));
        output.insert("args".to_owned(), json!(self.args));
        Ok(process_report(&self.path, output, finished))
    }
}

/// Runs `work`. `what` describes it in the error if it does not start.
async fn run(
    launcher: &ProgramLauncher,
    work: PreparedCommand,
    timeout_ms: u64,
    ctx: &ToolContext,
    what: &str,
) -> Result<FinishedProgram, HandlerError> {
    let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let finished = process::run(work, limit, KEPT_OUTPUT_BYTES, ctx).await;
    launcher.check_helper_result(finished.map_err(|failure| failure.into_error(what))?)
}

/// Combines the operation's own fields with the result of the process.
fn process_report(title: &str, mut output: JsonObject, finished: FinishedProgram) -> ToolOutput {
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
    titled_output(shell::title(title), Value::Object(output))
}

fn variables_schema(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "format": SHELL_ENVIRONMENT_FORMAT, "additionalProperties": {"type": ["string", "number", "boolean"]}})
}

fn default_timeout() -> u64 {
    30_000
}

fn default_shell() -> String {
    "/bin/bash".to_owned()
}
