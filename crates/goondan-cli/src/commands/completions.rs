//! `gdn completions`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
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

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    // The generator panics where it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gdn", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
