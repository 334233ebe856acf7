//! Shared parts of the tools that run shell commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{Direct, RunMode, ToolContext, ToolError};
use goondan_spec::kinds::{ProcessLimits, Sandbox};
use goondan_spec::{Code, command_line};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use crate::confine::{Helper, Launcher, start};
use crate::errors;
use crate::line::{Line, Work};
use crate::process::{self, Environment, Finished};
use crate::remote::Host;
use crate::table::ConfigError;
use crate::text_transform::scalar;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Names of additional environment variables that commands receive.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Sandbox of the programs.
    #[serde(default)]
    pub(crate) sandbox: Option<Wanted>,
    /// Resource limits of the programs.
    #[serde(default)]
    pub(crate) limits: ProcessLimits,
}

/// The `spec.config` of a tool that runs command lines.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LineSettings {
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    sandbox: Option<Wanted>,
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
pub(crate) struct Lines {
    pub(crate) launcher: Launcher,
    pub(crate) host: Option<Host>,
}

impl Lines {
    pub(crate) fn new(
        settings: LineSettings,
        helper: Option<&Arc<Helper>>,
    ) -> Result<Lines, ConfigError> {
        let LineSettings {
            env,
            sandbox,
            limits,
            host,
            host_commands,
        } = settings;
        let host = Host::of(host, host_commands)?;
        if host.as_ref().is_some_and(Host::takes_all) {
            let is_contained = sandbox.as_ref().is_some_and(|wanted| wanted.0.is_some());
            if is_contained {
                return Err(ConfigError::NotThere("sandbox"));
            }
            if limits != ProcessLimits::default() {
                return Err(ConfigError::NotThere("limits"));
            }
        }
        Ok(Lines {
            launcher: Launcher::new(
                Settings {
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
    pub(crate) fn host_of(&self, line: &str) -> Result<Option<&Host>, ToolError> {
        match &self.host {
            Some(host) => Ok(host.takes(line)?.then_some(host)),
            None => Ok(None),
        }
    }

    /// Returns the note about a line for an approval prompt.
    pub(crate) fn preview(&self, line: &str) -> Result<Option<String>, ToolError> {
        self.host
            .as_ref()
            .map_or(Ok(None), |host| host.preview(line))
    }
}

/// `true`, `false` or a sandbox.
pub(crate) struct Wanted(pub(crate) Option<Sandbox>);

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(wanted) => Ok(Wanted(wanted.then(Sandbox::default))),
            other => serde_json::from_value(other)
                .map(|sandbox| Wanted(Some(sandbox)))
                .map_err(D::Error::custom),
        }
    }
}

/// The keys of [`Settings`] for the documentation.
pub(crate) const CONFIG: &[(&str, &str)] = &[
    (
        "env",
        "a list of more environment variables that commands may see",
    ),
    (
        "sandbox",
        "`true`, or an object with `network` (default false), `read` and `write` (lists of folders): programs write only in \
         the working folder, read the system and the project, and have no network; Linux only",
    ),
    (
        "limits",
        "an object with `cpuSeconds`, `memoryMib`, `fileSizeMib` and `processes`: the resources that programs may use",
    ),
    (
        "host",
        "another host to run command lines on, such as `user@build.internal` or `ssh://build.internal:2222`, through the \
         program `ssh`; see [Another host](security.md#another-host)",
    ),
    (
        "hostCommands",
        "the programs that run on the `host`, such as `[docker, make]`; all others run here",
    ),
];

/// Returns a command line in the permitted run mode: without a shell if patterns permit its
/// commands, otherwise with /bin/sh. It is not a login shell, because a profile may export the keys
/// that were removed from the environment.
pub(crate) fn work(
    line: &str,
    folder: PathBuf,
    environment: Environment,
    launcher: &Launcher,
    ctx: &ToolContext,
) -> Result<Work, ToolError> {
    if let RunMode::Direct(direct) = &ctx.run_mode {
        let script = command_line::parse(line).map_err(|beyond| {
            ToolError::new(format!(
                "the command line was allowed by patterns, but it {}",
                beyond.0
            ))
            .code(Code::TOOL_DENIED)
        })?;
        let line = Line::new(script, direct, launcher, ctx, folder, environment);
        let line = line.map_err(|error| errors::io("run the command", &error))?;
        return Ok(Work::Line(Arc::new(line)));
    }
    let mut command = process::command("/bin/sh", &folder, environment);
    command.arg("-c").arg(line);
    launcher
        .confine(command, ctx, None)
        .map(|program| Work::Program(Box::new(program)))
}

/// Returns a note for a command that failed in a sandbox, because the sandbox may be the cause;
/// `None` without a sandbox.
pub(crate) fn note(ctx: &ToolContext, finished: &Finished) -> Option<String> {
    let RunMode::Direct(Direct {
        commands, files, ..
    }) = &ctx.run_mode
    else {
        return None;
    };
    let all = || commands.iter().chain(files.values()).flatten();
    if finished.status.success() || !start::is_there() || all().next().is_none() {
        return None;
    }
    let network = if all().all(|one| one.sandbox.network) {
        ""
    } else {
        "has no network, "
    };
    let writes = if all().all(|one| one.writes) {
        "writes in the working folder alone"
    } else {
        "writes nothing"
    };
    Some(format!(
        "It ran in a sandbox: what a pattern allows {network}{writes}, and starts other programs only where it is made for \
         that. Whoever runs the swarm can open the sandbox in the rule that allows the command; `gdn policy explain` \
         shows both."
    ))
}

/// Adds a note to an output, if any.
pub(crate) fn add(output: &mut Value, note: Option<String>) {
    if let Some(note) = note {
        output["note"] = Value::from(note);
    }
}

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
pub(crate) fn folder(workdir: &Path, cwd: Option<&str>) -> Result<PathBuf, ToolError> {
    let given = cwd.unwrap_or(".");
    let folder = workdir.join(given).canonicalize();
    let folder = folder.map_err(|error| errors::io(format_args!("run in `{given}`"), &error))?;
    if !folder.is_dir() {
        let message = format!("cannot run in `{given}`: it is not a folder");
        return Err(ToolError::new(message).code(Code::TOOL_WRONG_FILE_TYPE));
    }
    Ok(folder)
}

/// Returns the environment of a call: ordinary and permitted variables, and `extra`.
pub(crate) fn environment(allowed: &[String], extra: JsonObject) -> Result<Environment, ToolError> {
    let extra = extra.into_iter().map(|(name, value)| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(errors::invalid(format!(
                "`{name}` cannot be the name of an environment variable"
            )));
        }
        match scalar(&value) {
            Some(value) if !value.contains('\0') => Ok((name, value)),
            _ => Err(errors::invalid(format!(
                "env.{name} must be a text, a number or a boolean"
            ))),
        }
    });
    Ok(process::environment(
        allowed,
        extra.collect::<Result<_, _>>()?,
    ))
}
