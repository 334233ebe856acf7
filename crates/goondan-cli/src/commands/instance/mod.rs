//! `gdn conversation`: subcommands for stored conversations. The code calls a conversation an
//! instance.

mod adopt;
mod delete;
mod export;
mod fork;
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
use crate::instances::{ConversationScope, ScopeArgs};
use crate::output::CommandOutput;

const EXAMPLES: &str = "\
Examples:
  gdn conversation list                                   List the project's conversations
  gdn conversation list --all                             List the conversations of all projects
  gdn conversation show assistant:main                    Print a conversation
  gdn conversation retry assistant:main                   Retry its failed events
  gdn conversation fork assistant:main                    Copy it under a new key
  gdn conversation export assistant:main -o main.jsonl    Export the conversation to a file
  gdn conversation import main.jsonl --as assistant:copy  Import it under another name
  gdn conversation delete assistant:ticket-42 --force     Delete without confirmation";

/// Arguments of `gdn conversation`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InstanceArgs {
    #[command(subcommand)]
    command: InstanceCommand,
}

#[derive(Debug, Subcommand)]
enum InstanceCommand {
    /// List conversations, the latest first
    List(list::InstanceListArgs),
    /// Show a conversation with its unfinished work and its failed events
    Show(show::InstanceShowArgs),
    /// Retry the failed events of a conversation
    Retry(retry::InstanceRetryArgs),
    /// Copy a conversation, to continue it in another way
    Fork(fork::InstanceForkArgs),
    /// Write conversations as JSON Lines
    Export(export::InstanceExportArgs),
    /// Import conversations that `export` wrote
    Import(import::InstanceImportArgs),
    /// Adopt the workspace of an earlier version, or of the project before it was moved or renamed
    Adopt(adopt::InstanceAdoptArgs),
    /// Delete a conversation and its working directory
    Delete(delete::InstanceDeleteArgs),
}

/// Options that select a conversation.
#[derive(Debug, Args)]
struct InstanceTargetArgs {
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(value_name = "INSTANCE", add = complete::instances())]
    name: String,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Search all projects
    #[arg(long, conflicts_with_all = ["workspace", "project"])]
    all: bool,
}

impl InstanceTargetArgs {
    /// Returns where to search for the conversation: a project, a workspace, or everywhere.
    fn scope(
        &self,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<ConversationScope, CliError> {
        self.scope.scope(self.all, state_root, output)
    }
}

/// Error of a workspace that can't be opened for exclusive access.
pub(super) fn workspace_open_error(error: &OpenWorkspaceError) -> CliError {
    let base_error = CliError::failure(
        Code::WORKSPACE_ERROR,
        format!("{}.", in_sentence_case(&error.to_string())),
    );
    match error {
        OpenWorkspaceError::Locked(LockError::Held { .. }) => base_error
            .suggest("Nothing was changed. Wait until that process ends, or stop it with Ctrl-C."),
        _ => base_error,
    }
}

/// Capitalizes the first letter of a message.
pub(super) fn in_sentence_case(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// Runs the selected subcommand.
pub(crate) fn run(
    args: &InstanceArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match &args.command {
        InstanceCommand::List(args) => super::block_on(list::run(args, state_root, output)),
        InstanceCommand::Show(args) => super::block_on(show::run(args, state_root, output)),
        InstanceCommand::Retry(args) => super::block_on(retry::run(args, state_root, output)),
        InstanceCommand::Fork(args) => super::block_on(fork::run(args, state_root, output)),
        InstanceCommand::Adopt(args) => super::block_on(adopt::run(args, state_root, output)),
        InstanceCommand::Export(args) => super::block_on(export::run(args, state_root, output)),
        InstanceCommand::Import(args) => super::block_on(import::run(args, state_root, output)),
        InstanceCommand::Delete(args) => super::block_on(delete::run(args, state_root, output)),
    }
}
