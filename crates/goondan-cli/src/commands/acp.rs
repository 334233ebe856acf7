//! `gdn acp`.

use clap::Args;
use goondan::StateRoot;
use goondan::spec::Code;
use goondan_serve::acp;

use super::run::{Session, Signals, watched};
use crate::complete;
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project::StartArgs;

const EXAMPLES: &str = "\
Examples (an editor starts them; docs/editors.md says how):
  gdn acp                                    Let an editor talk to the swarm of this folder
  gdn acp ~/swarms/reviewer --workdir .      Let the tools work in the folder that is open
  gdn acp --agent writer --watch             Talk to that agent, and reload the project when it changes";

/// Arguments of `gdn acp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Let the editor talk to this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Talks to an editor until it goes, or a signal comes.
pub(crate) async fn run(
    args: AcpArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| talk(&args, signals, state_root, output).await).await
}

async fn talk(
    args: &AcpArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let what = (&args.project, &args.start);
    let mut session = Session::for_client(what, args.watch, signals, state_root, output).await?;
    // The editor is there, or nobody is.
    session.somebody = None;
    if let Some(agent) = &args.agent {
        session.require_agent(agent)?;
    }
    let service = session.door.service.clone();
    let talk = acp::serve(
        &service,
        args.agent.clone(),
        tokio::io::stdin(),
        tokio::io::stdout(),
    );
    session
        .attend(
            talk,
            |error| CliError::failure(Code::INTERNAL_ERROR, error.to_string()),
            output,
        )
        .await
}
