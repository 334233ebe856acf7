//! `gdn sandbox-exec`: the process that restricts itself and then executes a tool's program.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use goondan::HelperCommand;

const SANDBOX_EXEC_COMMAND: &str = "sandbox-exec";

/// Arguments of `gdn sandbox-exec`.
#[derive(Debug, Args)]
pub(crate) struct SandboxExecArgs {
    /// The restrictions, as JSON
    restrictions: String,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process with the program. Returns only on failure.
pub(crate) fn run(args: &SandboxExecArgs) -> ExitCode {
    goondan::enter_sandbox(&args.restrictions, &args.command)
}

/// Returns the command that starts this helper; `None` if the path of the executable is unknown.
pub(crate) fn command() -> Option<HelperCommand> {
    let program = std::env::current_exe().ok()?;
    Some(HelperCommand {
        program,
        args: vec![SANDBOX_EXEC_COMMAND.into()],
    })
}
