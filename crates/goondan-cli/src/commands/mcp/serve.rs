//! `gdn mcp serve`: serves the agents of a swarm to an MCP client over stdio.

use clap::Args;
use goondan::StateRoot;
use goondan::spec::Code;
use goondan_serve::mcp;

use crate::commands::run::{RunSession, SignalReceiver, run_with_signals};
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project::StartArgs;
use crate::project_path::ProjectPathArg;

const EXAMPLES: &str = "\
Examples (started by an MCP client; see docs/mcp-server.md):
  gdn mcp serve                              Let an MCP client call this swarm's agents
  gdn mcp serve ~/swarms/reviewer --watch    Reload the project when it changes";

/// Arguments of `gdn mcp serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpServeArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Serves an MCP client over stdio until it disconnects or a signal arrives.
pub(super) async fn run(
    args: McpServeArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| {
        serve_client_over_stdio(&args, signals, state_root, output).await
    })
    .await
}

/// Starts the swarm and serves the MCP client on standard input and output.
async fn serve_client_over_stdio(
    args: &McpServeArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let swarm_args = (&args.project, &args.start);
    let session =
        RunSession::for_client(swarm_args, args.watch, signals, state_root, output).await?;
    let service = session.endpoint.service.clone();
    let connection = mcp::serve(&service, tokio::io::stdin(), tokio::io::stdout());
    session
        .serve_client(
            connection,
            |error| CliError::failure(Code::INTERNAL_ERROR, error.to_string()),
            output,
        )
        .await
}
