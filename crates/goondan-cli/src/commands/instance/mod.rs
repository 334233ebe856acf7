//! `gdn instance`.

mod adopt;
mod delete;
mod export;
mod import;
mod list;
mod retry;
mod show;
mod unfinished;

use clap::{Args, Subcommand};
use goondan::StateRoot;
use goondan::runtime::store::jsonl::{LockError, OpenWorkspaceError};

use crate::exit::CliError;
use crate::instances::{Scope, ScopeArgs};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  gdn instance list
  gdn instance list --all
  gdn instance show assistant:main
  gdn instance retry assistant:main --project my-swarm
  gdn instance export assistant:main -o main.jsonl
  gdn instance import main.jsonl --as assistant:copy
  gdn instance delete assistant:ticket-42 --force";

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
    /// Show a conversation, what its turn has left unfinished, and which of its events failed
    Show(show::ShowArgs),
    /// Start events again whose turns failed
    Retry(retry::RetryArgs),
    /// Write conversations as JSON Lines
    Export(export::ExportArgs),
    /// Read conversations that `export` has written
    Import(import::ImportArgs),
    /// Make state that lies elsewhere that of a project: what an earlier version kept, or the project before it was moved
    Adopt(adopt::AdoptArgs),
    /// Delete a conversation and everything that belongs to it
    Delete(delete::DeleteArgs),
}

/// Which conversation is meant.
#[derive(Debug, Args)]
struct Which {
    /// The conversation, as `agent:key`; an agent or a key alone will do where it is unique
    #[arg(value_name = "INSTANCE")]
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
fn not_opened(error: &OpenWorkspaceError) -> CliError {
    let refused = CliError::failure("WORKSPACE_ERROR", format!("{}.", in_sentence_case(&error.to_string())));
    match error {
        OpenWorkspaceError::Locked(LockError::Held { .. }) => {
            refused.suggest("Nothing was changed. Wait until that process has ended, or end it with Ctrl-C.")
        }
        _ => refused,
    }
}

/// A message of a library as a sentence.
fn in_sentence_case(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Looks at conversations on disk, or goes on with one.
pub(crate) fn run(args: &InstanceArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    match &args.command {
        InstanceCommand::List(args) => list::run(args, state_root, output),
        InstanceCommand::Show(args) => show::run(args, state_root, output),
        InstanceCommand::Retry(args) => super::block_on(retry::run(args, state_root, output)),
        InstanceCommand::Adopt(args) => adopt::run(args, state_root, output),
        InstanceCommand::Export(args) => export::run(args, state_root, output),
        InstanceCommand::Import(args) => import::run(args, state_root, output),
        InstanceCommand::Delete(args) => delete::run(args, state_root, output),
    }
}
