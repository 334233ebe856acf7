//! `gdn ps`: lists the swarms that run on this machine.

use std::path::PathBuf;

use clap::Args;
use goondan::StateRoot;
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::{CommandOutput, TextTable};
use crate::remote::{self, RemoteSwarm};

const EXAMPLES: &str = "\
Examples:
  gdn ps           List the swarms that run on this machine
  gdn ps --json    Print them as JSON";

/// Arguments of `gdn ps`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PsArgs {}

/// Lists the swarms that processes of this machine run, in all workspaces of the state root.
pub(crate) async fn run(
    _args: &PsArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let running = remote::running_everywhere(state_root).await?;
    if output.json {
        return output.json_pretty(&running.iter().map(as_json).collect::<Vec<_>>());
    }
    if running.is_empty() {
        return output.note("No swarm is running. Start one with `gdn run` or `gdn serve`.");
    }
    let mut table = TextTable::new(&["SWARM", "PROCESS", "GENERATION", "AGENTS", "PROJECT"]);
    for remote in &running {
        let swarm = &remote.swarm;
        table.row(vec![
            swarm.name.clone(),
            remote.process().to_string(),
            swarm.generation.to_string(),
            swarm.agents.join(", "),
            project(remote).map_or_else(String::new, |path| path.display().to_string()),
        ]);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    Ok(())
}

/// Returns the project directory of a running swarm, if it is recorded.
fn project(remote: &RemoteSwarm) -> Option<PathBuf> {
    let last = remote.workspace().last_generation().ok().flatten();
    last.map(|last| last.root)
}

/// Returns a running swarm as JSON.
fn as_json(remote: &RemoteSwarm) -> Value {
    json!({
        "swarm": remote.swarm.name,
        "process": remote.process(),
        "generation": remote.swarm.generation,
        "agents": remote.swarm.agents,
        "workspace": remote.workspace().id,
        "project": project(remote).map(|path| path.to_string_lossy().into_owned()),
        "version": remote.swarm.version,
    })
}
