//! `gdn man`: writes the manual pages of all commands.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};

use crate::args::CommandLine;
use crate::exit::CliError;
use crate::long_help::with_command_texts;
use goondan::spec::reason;

const EXAMPLES: &str = "\
Examples:
  gdn man ~/.local/share/man/man1      Write the pages to a directory that `man gdn-run` searches";

/// Arguments of `gdn man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Write the pages into this directory, created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Returns all commands with their explanations and examples.
fn explained_commands() -> Command {
    with_command_texts(CommandLine::command(), &mut Vec::new())
}

/// Writes a page for `gdn` and one for each subcommand.
pub(crate) fn run(args: &ManArgs) -> Result<(), CliError> {
    let created = fs::create_dir_all(&args.folder);
    created
        .and_then(|()| clap_mangen::generate_to(explained_commands(), &args.folder))
        .map_err(|error| {
            CliError::configuration(format!(
                "The pages can't be written to `{}`: {error}.",
                args.folder.display(),
                error = reason(&error)
            ))
            .suggest("Choose a directory that you may write to.")
        })
}
