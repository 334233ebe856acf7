//! `gdn policy`: the decision on a tool call with its rule, and remembered approvals.

mod approvals;
mod explain;
mod explanation_output;

use clap::{Args, Subcommand};
use goondan::StateRoot;

use self::approvals::PolicyApprovalsArgs;
use self::explain::PolicyExplainArgs;
use crate::exit::CliError;
use crate::output::CommandOutput;

/// Arguments of `gdn policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Explain what happens to a tool call, and which rule decides
    Explain(PolicyExplainArgs),
    /// List or revoke remembered approvals
    Approvals(PolicyApprovalsArgs),
}

/// Runs the selected subcommand.
pub(crate) async fn run(
    args: &PolicyArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match &args.command {
        PolicyCommand::Explain(args) => explain::run(args, output),
        PolicyCommand::Approvals(args) => approvals::run(args, state_root, output).await,
    }
}
