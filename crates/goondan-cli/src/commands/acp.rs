//! `gdn acp`: connects an editor to a swarm over the Agent Client Protocol.

use clap::Args;
use goondan::StateRoot;
use goondan::spec::Code;
use goondan_serve::acp;

use super::run::{RunSession, SignalReceiver, run_with_signals};
use crate::complete;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project::StartArgs;
use crate::project_path::ProjectPathArg;

const EXAMPLES: &str = "\
Examples (started by an editor; see docs/editors.md):
  gdn acp                                    Connect an editor to the swarm of this directory
  gdn acp ~/swarms/reviewer --workdir .      Run the tools in the directory that the editor opened
  gdn acp --agent writer --watch             Talk to the agent `writer`; reload on changes";

/// Arguments of `gdn acp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Send the editor's prompts to this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Serves an editor over stdio until it disconnects or a signal arrives.
pub(crate) async fn run(
    args: AcpArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| serve_editor(&args, signals, state_root, output).await).await
}

/// Starts the swarm and serves the editor on standard input and output.
async fn serve_editor(
    args: &AcpArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let swarm_args = (&args.project, &args.start);
    let mut session =
        RunSession::for_client(swarm_args, args.watch, signals, state_root, output).await?;
    // The editor is connected for the whole run, so agents need not wait for other clients.
    session.client_listener = None;
    if let Some(agent) = &args.agent {
        session.require_agent(agent)?;
    }
    let service = session.endpoint.service.clone();
    let connection = acp::serve(
        &service,
        args.agent.clone(),
        tokio::io::stdin(),
        tokio::io::stdout(),
    );
    session
        .serve_client(
            connection,
            |error| CliError::failure(Code::INTERNAL_ERROR, error.to_string()),
            output,
        )
        .await
}
