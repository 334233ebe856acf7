//! Shared parts of the tools that run shell commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{DirectExecution, HandlerError, RunMode, ToolContext};
use goondan_spec::kinds::{ProcessLimits, SandboxSettings};
use goondan_spec::{Code, command_line};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use crate::command_runner::{CommandLineRunner, PreparedCommand};
use crate::config_error::ConfigError;
use crate::errors;
use crate::paths::still_there;
use crate::process::{self, Environment, FinishedProgram};
use crate::remote_host::RemoteHost;
use crate::sandbox::{ProgramLauncher, SandboxHelper, sandboxed_start};
use crate::scalar_text::scalar_to_string;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellSettings {
    /// Names of additional environment variables that commands receive.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Sandbox of the programs.
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxChoice>,
    /// Resource limits of the programs.
    #[serde(default)]
    pub(crate) limits: ProcessLimits,
}

/// The `spec.config` of a tool that runs command lines.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommandLineConfig {
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    sandbox: Option<SandboxChoice>,
    #[serde(default)]
    limits: ProcessLimits,
    /// Another host to run command lines on.
    #[serde(default)]
    host: Option<String>,
    /// The programs that run on the host.
    #[serde(default)]
    host_commands: Option<Vec<String>>,
}

/// The settings for starting command lines.
pub(crate) struct CommandLineLauncher {
    pub(crate) launcher: ProgramLauncher,
    pub(crate) host: Option<RemoteHost>,
}

impl CommandLineLauncher {
    pub(crate) fn new(
        settings: CommandLineConfig,
        helper: Option<&Arc<SandboxHelper>>,
    ) -> Result<CommandLineLauncher, ConfigError> {
        let CommandLineConfig {
            env,
            sandbox,
            limits,
            host,
            host_commands,
        } = settings;
        let host = RemoteHost::from_config(host, host_commands)?;
        if host.as_ref().is_some_and(RemoteHost::runs_every_line) {
            let is_contained = sandbox.as_ref().is_some_and(|wanted| wanted.0.is_some());
            if is_contained {
                return Err(ConfigError::NotThere("sandbox"));
            }
            if limits != ProcessLimits::default() {
                return Err(ConfigError::NotThere("limits"));
            }
        }
        Ok(CommandLineLauncher {
            launcher: ProgramLauncher::new(
                ShellSettings {
                    env,
                    sandbox,
                    limits,
                },
                helper,
            ),
            host,
        })
    }

    /// Returns the host that a line runs on, if it is not local.
    pub(crate) fn host_of(&self, line: &str) -> Result<Option<&RemoteHost>, HandlerError> {
        match &self.host {
            Some(host) => Ok(host.runs_on_host(line)?.then_some(host)),
            None => Ok(None),
        }
    }

    /// Returns the note about a line for an approval prompt.
    pub(crate) fn preview(&self, line: &str) -> Result<Option<String>, HandlerError> {
        self.host
            .as_ref()
            .map_or(Ok(None), |host| host.preview(line))
    }
}

/// `true`, `false` or a sandbox.
pub(crate) struct SandboxChoice(pub(crate) Option<SandboxSettings>);

impl<'de> Deserialize<'de> for SandboxChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(wanted) => Ok(SandboxChoice(wanted.then(SandboxSettings::default))),
            other => serde_json::from_value(other)
                .map(|sandbox| SandboxChoice(Some(sandbox)))
                .map_err(D::Error::custom),
        }
    }
}

/// The keys of [`ShellSettings`] for the documentation.
pub(crate) const SHELL_CONFIG_KEYS: &[(&str, &str)] = &[
    (
        "env",
        "a list of additional environment variables for commands",
    ),
    (
        "sandbox",
        "`true`, or an object with `network` (default false), `read` and `write` (lists of \
        directories): by default, programs write only in the working directory, read the system \
        and the project, and have no network; Linux only",
    ),
    (
        "limits",
        "an object with `cpuSeconds`, `memoryMib`, `fileSizeMib` and `processes`: the resources \
        that programs may use",
    ),
    (
        "host",
        "another host to run command lines on, such as `user@build.internal` or \
        `ssh://build.internal:2222`, through the \
         program `ssh`; see [Another host](permissions.md#another-host)",
    ),
    (
        "hostCommands",
        "the programs that run on the `host`, such as `[docker, make]`; all others run here",
    ),
];

/// Returns a command line in the permitted run mode: without a shell if patterns permit its
/// commands, otherwise with /bin/sh. It is not a login shell, because a profile may export the keys
/// that were removed from the environment.
pub(crate) fn prepare_command(
    line: &str,
    folder: PathBuf,
    environment: Environment,
    launcher: &ProgramLauncher,
    ctx: &ToolContext,
) -> Result<PreparedCommand, HandlerError> {
    if let RunMode::Direct(direct) = &ctx.run_mode {
        let script = command_line::parse(line).map_err(|beyond| {
            HandlerError::new(format!(
                "patterns allowed the command line, but it {}",
                beyond.0
            ))
            .code(Code::TOOL_DENIED)
        })?;
        still_there(ctx)?;
        let line = CommandLineRunner::new(script, direct, launcher, ctx, folder, environment);
        let line = line.map_err(|error| errors::io_error("run the command", &error))?;
        return Ok(PreparedCommand::Line(Arc::new(line)));
    }
    let mut command = process::command("/bin/sh", &folder, environment);
    command.arg("-c").arg(line);
    launcher
        .confine(command, ctx, None)
        .map(|program| PreparedCommand::Program(Box::new(program)))
}

/// Returns a note for a command that failed in a sandbox, because the sandbox may be the cause;
/// `None` without a sandbox.
pub(crate) fn sandbox_note(ctx: &ToolContext, finished: &FinishedProgram) -> Option<String> {
    let RunMode::Direct(DirectExecution {
        commands, files, ..
    }) = &ctx.run_mode
    else {
        return None;
    };
    let all_containments = || commands.iter().chain(files.values()).flatten();
    if finished.status.success()
        || !sandboxed_start::is_supported()
        || all_containments().next().is_none()
    {
        return None;
    }
    let network = if all_containments().all(|command| command.sandbox.network) {
        ""
    } else {
        "has no network, "
    };
    let writes = if all_containments().all(|command| command.writes) {
        "can write only in the working directory"
    } else {
        "cannot write files"
    };
    Some(format!(
        "It ran in a sandbox, because a pattern allowed it: it {network}{writes}, and can start \
        other programs only if that is its purpose. The operator can widen the sandbox in the rule \
        that allows the command; `gdn policy explain` shows both."
    ))
}

/// Adds a note to an output, if any.
pub(crate) fn add(output: &mut Value, note: Option<String>) {
    if let Some(note) = note {
        output["note"] = Value::from(note);
    }
}

/// Returns the beginning of the first line, as a title.
pub(crate) fn title(line: &str) -> String {
    line.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

/// Resolves the directory to run in. It may be anywhere, because a command can access other
/// directories as well; the execute permission covers it.
pub(crate) fn resolve_directory(
    workdir: &Path,
    cwd: Option<&str>,
) -> Result<PathBuf, HandlerError> {
    let path = cwd.unwrap_or(".");
    let folder = workdir.join(path).canonicalize();
    let folder =
        folder.map_err(|error| errors::io_error(format_args!("run in `{path}`"), &error))?;
    if !folder.is_dir() {
        let message = format!("cannot run in `{path}`: not a directory");
        return Err(HandlerError::new(message).code(Code::TOOL_WRONG_FILE_TYPE));
    }
    Ok(folder)
}

/// Returns the environment of a call: ordinary and permitted variables, and `extra`.
pub(crate) fn environment(
    allowed: &[String],
    extra: JsonObject,
) -> Result<Environment, HandlerError> {
    let extra = extra.into_iter().map(|(name, value)| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(errors::invalid_argument(format!(
                "`{name}` is not a valid environment variable name"
            )));
        }
        match scalar_to_string(&value) {
            Some(value) if !value.contains('\0') => Ok((name, value)),
            _ => Err(errors::invalid_argument(format!(
                "env.{name} must be a string, a number or a boolean"
            ))),
        }
    });
    Ok(process::environment(
        allowed,
        extra.collect::<Result<_, _>>()?,
    ))
}
