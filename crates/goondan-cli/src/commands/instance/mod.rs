//! `gdn instance`.

mod adopt;
mod delete;
mod export;
mod import;
mod list;
mod retry;
mod show;
mod unfinished;

pub(crate) use list::local;

use clap::{Args, Subcommand};
use goondan::StateRoot;
use goondan::spec::Code;
use goondan::{LockError, OpenWorkspaceError};

use crate::complete;
use crate::exit::CliError;
use crate::instances::{Scope, ScopeArgs};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  gdn instance list                                   List the project's conversations
  gdn instance list --all                             List those of all projects
  gdn instance show assistant:main                    Print a conversation
  gdn instance retry assistant:main                   Run its failed events again
  gdn instance export assistant:main -o main.jsonl    Write it to a file
  gdn instance import main.jsonl --as assistant:copy  Read it under another name
  gdn instance delete assistant:ticket-42 --force     Delete without asking";

/// Arguments of `gdn instance`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InstanceArgs {
    #[command(subcommand)]
    command: InstanceCommand,
}

#[derive(Debug, Subcommand)]
enum InstanceCommand {
    /// List conversations, the latest first
    List(list::ListArgs),
    /// Show a conversation with its unfinished work and its failed events
    Show(show::ShowArgs),
    /// Run the failed events of a conversation again
    Retry(retry::RetryArgs),
    /// Write conversations as JSON Lines
    Export(export::ExportArgs),
    /// Read conversations that `export` wrote
    Import(import::ImportArgs),
    /// Take over the workspace of an earlier version, or of the project before it was moved or renamed
    Adopt(adopt::AdoptArgs),
    /// Delete a conversation and its working folder
    Delete(delete::DeleteArgs),
}

/// Which conversation is meant.
#[derive(Debug, Args)]
struct Which {
    /// The conversation as `agent:key`, or its agent or key alone if that is unique
    #[arg(value_name = "INSTANCE", add = complete::instances())]
    name: String,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Look at all projects
    #[arg(long, conflicts_with_all = ["workspace", "project"])]
    all: bool,
}

impl Which {
    fn scope(&self, state_root: &StateRoot, output: &Output) -> Result<Scope, CliError> {
        self.scope.scope(self.all, state_root, output)
    }
}

/// A workspace that a command needs for itself can't be opened.
pub(super) fn not_opened(error: &OpenWorkspaceError) -> CliError {
    let refused = CliError::failure(
        Code::WORKSPACE_ERROR,
        format!("{}.", in_sentence_case(&error.to_string())),
    );
    match error {
        OpenWorkspaceError::Locked(LockError::Held { .. }) => refused.suggest(
            "Nothing was changed. Wait until that process has ended, or end it with Ctrl-C.",
        ),
        _ => refused,
    }
}

/// A message of a library as a sentence.
pub(super) fn in_sentence_case(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// Looks at conversations on disk, or goes on with one.
pub(crate) fn run(
    args: &InstanceArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match &args.command {
        InstanceCommand::List(args) => super::block_on(list::run(args, state_root, output)),
        InstanceCommand::Show(args) => super::block_on(show::run(args, state_root, output)),
        InstanceCommand::Retry(args) => super::block_on(retry::run(args, state_root, output)),
        InstanceCommand::Adopt(args) => super::block_on(adopt::run(args, state_root, output)),
        InstanceCommand::Export(args) => super::block_on(export::run(args, state_root, output)),
        InstanceCommand::Import(args) => super::block_on(import::run(args, state_root, output)),
        InstanceCommand::Delete(args) => super::block_on(delete::run(args, state_root, output)),
    }
}
