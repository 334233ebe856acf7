//! `gdn tool-host`: the process for a tool library with `isolation: process`.

use std::path::PathBuf;

use clap::Args;
use goondan::HostCommand;

use crate::exit::CliError;

const TOOL_HOST_COMMAND: &str = "tool-host";

/// Arguments of `gdn tool-host`.
#[derive(Debug, Args)]
pub(crate) struct ToolHostArgs {
    /// The library
    path: PathBuf,
}

/// Serves the library on standard input and output until the input ends.
pub(crate) fn run(args: &ToolHostArgs) -> Result<(), CliError> {
    Ok(goondan::tool_host::run(&args.path)?)
}

/// Returns the command that starts this process; `None` if the path of the executable is unknown.
pub(crate) fn command() -> Option<HostCommand> {
    let program = std::env::current_exe().ok()?;
    Some(HostCommand {
        program,
        args: vec![TOOL_HOST_COMMAND.into()],
    })
}
