//! `gdn sandbox-exec`: the process that restricts itself before it becomes a program of a tool.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use goondan::HelperCommand;

const NAME: &str = "sandbox-exec";

/// Arguments of `gdn sandbox-exec`.
#[derive(Debug, Args)]
pub(crate) struct SandboxExecArgs {
    /// What to restrict, as JSON
    restrictions: String,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program, or says why not.
pub(crate) fn run(args: &SandboxExecArgs) -> ExitCode {
    goondan::enter_sandbox(&args.restrictions, &args.command)
}

/// How this program starts itself as such a process; `None` where it cannot find itself.
pub(crate) fn command() -> Option<HelperCommand> {
    let program = std::env::current_exe().ok()?;
    Some(HelperCommand {
        program,
        args: vec![NAME.into()],
    })
}
