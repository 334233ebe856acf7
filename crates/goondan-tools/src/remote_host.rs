//! Runs command lines on another host through the program `ssh`.
//!
//! A line is passed as one argument, exactly as the policy checked it. A working directory or
//! variables are refused, because they would have to be inserted into text for a shell. A sandbox
//! only applies to this machine, so sandboxed callers need network access to reach the host.

use std::path::Path;

use goondan_core::ports::tool::{HandlerError, RunMode, ToolContext};
use goondan_core::shell;
use goondan_spec::command_line;
use serde_json::Value;
use tokio::process::Command;

use crate::command_runner::PreparedCommand;
use crate::config_error::ConfigError;
use crate::errors;
use crate::process::{self, FinishedProgram};
use crate::sandbox::{self, ProgramLauncher};

const SSH_PROGRAM: &str = "ssh";
/// Options that disable prompts, unknown hosts and all forwarding.
const SSH_OPTIONS: [&str; 13] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=yes",
    "-o",
    "ForwardAgent=no",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=15",
];
/// Variable with the socket of the SSH key agent. `ssh` needs the variable, and does not forward it
/// to the host.
const SSH_AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";
/// Exit code of the program if the connection fails.
const SSH_CONNECTION_FAILED_CODE: i32 = 255;

/// Another host, and the programs that run on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteHost {
    address: String,
    /// The programs that run on the host; all if `None`.
    commands: Option<Vec<String>>,
}

impl RemoteHost {
    /// Returns the host in the config; `None` if the config has no host.
    pub(crate) fn from_config(
        address: Option<String>,
        commands: Option<Vec<String>>,
    ) -> Result<Option<RemoteHost>, ConfigError> {
        match (address, commands) {
            (Some(address), commands) if is_address(&address) => {
                Ok(Some(RemoteHost { address, commands }))
            }
            (Some(address), _) => Err(ConfigError::NoHost(address)),
            (None, Some(_)) => Err(ConfigError::NoHostFor),
            (None, None) => Ok(None),
        }
    }

    /// Returns true if all lines run on the host.
    pub(crate) fn runs_every_line(&self) -> bool {
        self.commands.is_none()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns true if `line` runs on the host. With a list of programs, a line outside of the
    /// small grammar runs locally.
    pub(crate) fn runs_on_host(&self, line: &str) -> Result<bool, HandlerError> {
        let Some(remote_programs) = &self.commands else {
            return Ok(true);
        };
        let Ok(script) = command_line::parse(line) else {
            return Ok(false);
        };
        let programs = shell::programs(&script);
        let is_remote = |names: &Vec<String>| {
            names
                .first()
                .is_some_and(|name| remote_programs.contains(name))
        };
        match programs.iter().filter(|names| is_remote(names)).count() {
            0 => Ok(false),
            all if all == programs.len() => Ok(true),
            _ => Err(errors::invalid_argument(format!(
                "some commands of the line run on {}, others locally",
                self.address
            ))
            .suggest("run them in separate calls")),
        }
    }

    /// Returns the command that runs `line` on the host. Fails if a setting of `unsupported_settings` is
    /// set. Each setting has its name, and whether the call sets it.
    pub(crate) fn prepare_command(
        &self,
        line: &str,
        unsupported_settings: &[(&str, bool)],
        launcher: &ProgramLauncher,
        ctx: &ToolContext,
    ) -> Result<PreparedCommand, HandlerError> {
        if let Some((name, _)) = unsupported_settings.iter().find(|(_, is_given)| *is_given) {
            return Err(errors::invalid_argument(format!(
                "`{name}` is not supported for commands on {}",
                self.address
            ))
            .suggest("put it in the command line, such as `cd DIRECTORY && NAME=value COMMAND`"));
        }
        if !self.may_be_reached(launcher, ctx) {
            return Err(sandbox::sandbox_error(&format!(
                "it would run on {}, outside its sandbox",
                self.address
            ))
            .suggest(
                "The operator can allow it: set `sandbox: {network: true}` in the rule that \
                allows the command and in the sandboxes of the tool, the agent and its callers.",
            ));
        }
        Ok(PreparedCommand::Program(Box::new(
            launcher.unrestricted_command(self.ssh_command(line, launcher, &ctx.workdir)),
        )))
    }

    /// Returns the local command that runs `line` on the host.
    fn ssh_command(&self, line: &str, launcher: &ProgramLauncher, folder: &Path) -> Command {
        let mut allowed = launcher.env.clone();
        allowed.push(SSH_AGENT_VARIABLE.to_owned());
        let mut command = process::command(
            SSH_PROGRAM,
            folder,
            process::environment(&allowed, Default::default()),
        );
        // After the dashes, neither the host nor the line can be an option.
        command
            .args(SSH_OPTIONS)
            .arg("--")
            .arg(&self.address)
            .arg(line);
        command
    }

    /// Returns true if all sandboxes of the call permit network access.
    fn may_be_reached(&self, launcher: &ProgramLauncher, ctx: &ToolContext) -> bool {
        let mut outer = launcher.sandbox().into_iter().chain(&ctx.sandboxes);
        let allowed_by_rules = match &ctx.run_mode {
            RunMode::Direct(direct) => direct
                .commands
                .iter()
                .flatten()
                .all(|command| command.sandbox.network),
            RunMode::Shell => true,
        };
        allowed_by_rules && outer.all(|sandbox| sandbox.network)
    }

    /// Adds the host to a result, and a note about the end of the command.
    pub(crate) fn describe_result(&self, output: &mut Value, finished: &FinishedProgram) {
        output["host"] = Value::from(self.address.as_str());
        let host = &self.address;
        if finished.timed_out {
            output["note"] = Value::from(format!(
                "Processes that it started on {host} may still \
                be running."
            ));
        } else if process::exit_code(finished.status) == SSH_CONNECTION_FAILED_CODE {
            output["note"] = Value::from(format!(
                "`ssh` could not connect to {host}, or the command itself exited with 255."
            ));
        }
    }

    /// Returns the note for an approval prompt.
    pub(crate) fn preview(&self, line: &str) -> Result<Option<String>, HandlerError> {
        Ok(self
            .runs_on_host(line)?
            .then(|| format!("runs on {} over SSH", self.address)))
    }
}

/// Returns true for `host`, `user@host` or `ssh://user@host:port`. Rejects addresses that a program
/// could parse as an option or as several words.
fn is_address(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@:/[]%".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && text.chars().all(is_plain)
        && text.len() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_addresses_must_be_one_word_and_not_an_option() {
        for good in ["box", "me@box.internal", "ssh://me@box:2222", "[::1]"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "-oProxyCommand=x",
            "a b",
            "a;b",
            "a\nb",
            "$(x)",
            "@x",
            "a'b",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn ssh_command_ends_its_options_and_passes_the_line_as_one_argument() {
        let host = RemoteHost::from_config(Some("box".to_owned()), None)
            .unwrap()
            .unwrap();
        let line = "-v; echo 'a b' \"$x\"\nrm y";
        let command = host.ssh_command(line, &ProgramLauncher::default(), Path::new("."));
        let args: Vec<_> = command
            .as_std()
            .get_args()
            .map(|arg| arg.to_str().unwrap())
            .collect();
        assert_eq!(args[args.len() - 3..], ["--", "box", line]);
    }

    #[test]
    fn listed_programs_run_on_the_remote_host() {
        let host = RemoteHost::from_config(
            Some("box".to_owned()),
            Some(vec!["docker".to_owned(), "make".to_owned()]),
        )
        .unwrap()
        .unwrap();
        assert!(host.runs_on_host("docker ps && make all").unwrap());
        assert!(
            !host.runs_on_host("git status").unwrap()
                && !host.runs_on_host("for x in 1; do docker ps; done").unwrap()
        );
        assert!(host.runs_on_host("git status && docker ps").is_err());
    }
}
