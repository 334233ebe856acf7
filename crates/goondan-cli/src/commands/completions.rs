//! `gdn completions`: prints a completion script for a shell.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::complete;
use crate::exit::CliError;

const EXAMPLES: &str = "\
Examples:
  gdn completions bash > ~/.local/share/bash-completion/completions/gdn
  gdn completions zsh > ~/.zfunc/_gdn
  gdn completions fish > ~/.config/fish/completions/gdn.fish";

/// Arguments of `gdn completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    shell: Shell,
}

/// Prints the script. It calls `gdn` at each completion, so it always fits the installed version.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    Ok(std::io::stdout()
        .lock()
        .write_all(&complete::script(args.shell)?)?)
}
