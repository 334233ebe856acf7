//! `gdn tool-host`: the process that a tool library with `isolation: process` runs in.

use std::path::PathBuf;

use clap::Args;
use goondan::HostCommand;

use crate::exit::CliError;

const NAME: &str = "tool-host";

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

/// How this program starts itself as such a process; `None` where it cannot find itself.
pub(crate) fn command() -> Option<HostCommand> {
    let program = std::env::current_exe().ok()?;
    Some(HostCommand {
        program,
        args: vec![NAME.into()],
    })
}
