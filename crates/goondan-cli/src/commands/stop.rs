//! `gdn stop`: stops the process that runs a swarm.

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::spec::Code;

use super::send::find;
use crate::complete;
use crate::exit::CliError;
use crate::output::{CommandOutput, style};
use crate::project_path::ProjectPathOption;
use crate::remote::{self, RemoteSwarm};

const EXAMPLES: &str = "\
Examples:
  gdn stop                     Stop the process that runs this project
  gdn stop --project my-swarm  Stop the process of another project
  gdn stop --all               Stop all swarms that `gdn ps` lists";

/// Arguments of `gdn stop`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    project: ProjectPathOption,
    /// Stop this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    /// Stop the swarms of all projects
    #[arg(long, conflicts_with_all = ["project", "swarm"])]
    all: bool,
}

/// Asks processes to stop, and waits until they have. Running turns resume at the next start.
pub(crate) async fn run(
    args: &StopArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let running = if args.all {
        remote::running_everywhere(state_root).await?
    } else {
        vec![find(&args.project, args.swarm.as_deref(), state_root, output).await?]
    };
    if running.is_empty() {
        return output.note("No swarm is running.");
    }
    for remote in &running {
        terminate(remote.process())?;
    }
    for remote in &running {
        report(remote, output).await?;
    }
    Ok(())
}

/// Waits for the end of a process, and reports it.
async fn report(remote: &RemoteSwarm, output: &CommandOutput) -> Result<(), CliError> {
    let name = untrusted_text::line(&remote.swarm.name).to_string();
    let process = remote.process();
    if !remote.wait_for_exit().await {
        return output.note(&format!(
            "Process {process} still finishes its turns in the swarm {name}. `gdn ps` lists it \
            until it ends."
        ));
    }
    if output.json {
        let stopped = serde_json::json!({"swarm": remote.swarm.name, "process": process});
        return output.json_line(&stopped);
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}Stopped{good:#} the swarm {name}, process {process}."
    ))
}

/// Sends SIGTERM to the process.
#[cfg(unix)]
fn terminate(process: u32) -> Result<(), CliError> {
    match remote::send_signal(process, nix::sys::signal::Signal::SIGTERM) {
        // The process has ended in the meantime.
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(CliError::failure(
            Code::INTERNAL_ERROR,
            format!("Could not stop process {process}: {error}."),
        )),
    }
}

/// Always fails, because this platform has no SIGTERM.
#[cfg(not(unix))]
fn terminate(process: u32) -> Result<(), CliError> {
    Err(CliError::failure(
        Code::INTERNAL_ERROR,
        "`gdn stop` is not supported on this platform.",
    )
    .suggest(format!(
        "End process {process} with Ctrl-C in its terminal."
    )))
}
