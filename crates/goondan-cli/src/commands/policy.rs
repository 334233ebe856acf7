//! `gdn policy`: what the rules of a project say about a call, and why; and what people have allowed.

mod approvals;
mod explain;
mod explained;

use clap::{Args, Subcommand};
use goondan::StateRoot;

use self::approvals::ApprovalsArgs;
use self::explain::ExplainArgs;
use crate::exit::CliError;
use crate::output::Output;

/// Arguments of `gdn policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Explain what happens to a tool call, and which rule decides
    Explain(ExplainArgs),
    /// List the approvals that are remembered, or take them back
    Approvals(ApprovalsArgs),
}

/// Explains, or looks at approvals.
pub(crate) async fn run(
    args: &PolicyArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match &args.command {
        PolicyCommand::Explain(args) => explain::run(args, output),
        PolicyCommand::Approvals(args) => approvals::run(args, state_root, output).await,
    }
}
