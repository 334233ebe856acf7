//! `gdn cancel`: cancels the running turn of a conversation.

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan_serve::client::conversation_path;

use super::send::find;
use crate::complete;
use crate::exit::CliError;
use crate::instances;
use crate::output::{CommandOutput, style};
use crate::project_path::ProjectPathOption;

const EXAMPLES: &str = "\
Examples:
  gdn cancel assistant:main    Cancel the running turn of a conversation
  gdn cancel main              The same, if only one agent has a conversation `main`";

/// Arguments of `gdn cancel`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CancelArgs {
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(value_name = "CONVERSATION", add = complete::instances())]
    name: String,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Cancel in this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
}

/// Cancels the running turn of a conversation in the process that runs the swarm.
pub(crate) async fn run(
    args: &CancelArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let remote = find(&args.project, args.swarm.as_deref(), state_root, output).await?;
    let id = instances::in_running_swarm(&remote, &args.name, state_root).await?;
    let path = conversation_path(&id, "turn");
    remote.client.delete(&path).await?;
    if output.json {
        let cancelled = serde_json::json!({"agent": id.agent, "instanceKey": id.instance_key});
        return output.json_line(&cancelled);
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}Cancelled{good:#} the turn of {}.",
        untrusted_text::line(&id)
    ))
}
