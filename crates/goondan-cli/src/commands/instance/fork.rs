//! `gdn conversation fork`: copies a conversation, to continue it in another way.

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan_serve::client::conversation_path;
use goondan_serve::wire::{ForkBody, ForkedBody};

use crate::commands::send::find;
use crate::complete;
use crate::exit::CliError;
use crate::instances;
use crate::output::{CommandOutput, style};
use crate::project_path::ProjectPathOption;

/// Arguments of `gdn conversation fork`.
#[derive(Debug, Args)]
pub(super) struct InstanceForkArgs {
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(value_name = "INSTANCE", add = complete::instances())]
    name: String,
    /// Copy the messages up to this one [default: all messages]
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Use this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
}

/// Copies a conversation in the process that runs the swarm. The copy is on disk when this returns.
pub(super) async fn run(
    args: &InstanceForkArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let remote = find(&args.project, args.swarm.as_deref(), state_root, output).await?;
    let id = instances::in_running_swarm(&remote, &args.name, state_root).await?;
    let path = conversation_path(&id, "fork");
    let body = ForkBody {
        message_id: args.message.clone(),
    };
    let forked: ForkedBody = remote.client.post(&path, &body).await?;
    if output.json {
        return output.json_pretty(&forked);
    }
    let good = style::GOOD;
    let copy = format!("{}:{}", forked.agent_name, forked.instance_key);
    output.line(&format!(
        "{good}Forked{good:#} {} to {} with {} messages.",
        untrusted_text::line(&id),
        untrusted_text::line(copy),
        forked.messages
    ))
}
