//! `gdn mcp serve`.

use clap::Args;
use goondan::StateRoot;
use goondan::spec::Code;
use goondan_serve::mcp;

use crate::commands::run::{Session, Signals, watched};
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project::StartArgs;

const EXAMPLES: &str = "\
Examples (a client starts them; docs/mcp-server.md says how):
  gdn mcp serve                              Let an MCP client ask the agents of the swarm of this folder
  gdn mcp serve ~/swarms/reviewer --watch    Reload the project when it changes";

/// Arguments of `gdn mcp serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Talks to a client until it goes, or a signal comes.
pub(super) async fn run(
    args: ServeArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| talk(&args, signals, state_root, output).await).await
}

async fn talk(
    args: &ServeArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let what = (&args.project, &args.start);
    let session = Session::for_client(what, args.watch, signals, state_root, output).await?;
    let service = session.door.service.clone();
    let talk = mcp::serve(&service, tokio::io::stdin(), tokio::io::stdout());
    session
        .attend(
            talk,
            |error| CliError::failure(Code::INTERNAL_ERROR, error.to_string()),
            output,
        )
        .await
}
