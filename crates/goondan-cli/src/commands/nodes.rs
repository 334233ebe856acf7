//! `gdn nodes`: lists the nodes that share a database, and their workspaces.

use clap::Args;
use goondan::internal::untrusted_text;

use crate::exit::CliError;
use crate::output::{CommandOutput, TextTable};
use crate::store::{self, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  gdn nodes --store postgres://gdn@db/swarms    Show the nodes and their workspaces
  gdn nodes --json | jq .                       With GOONDAN_STORE set";

/// Arguments of `gdn nodes`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("store", |arg| {
    arg.help("Read from this PostgreSQL database (postgres://USER@HOST/NAME)")
}))]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists the nodes with a recent heartbeat.
pub(crate) async fn run(args: &NodesArgs, output: &CommandOutput) -> Result<(), CliError> {
    let database = args.store.required()?;
    let nodes = database
        .nodes()
        .await
        .map_err(|error| store::unusable_error(&error))?;
    if output.json {
        return output.json_pretty(&nodes);
    }
    if nodes.is_empty() {
        return output.note(&format!(
            "No nodes found in {}.",
            untrusted_text::line(database.address())
        ));
    }
    let mut table = TextTable::new(&[
        "NODE",
        "WORKSPACE",
        "STATE",
        "TURNS",
        "PROJECT",
        "MACHINE",
        "PROCESS",
        "SINCE",
    ]);
    for node in nodes {
        let since = super::instance::local(node.since);
        let project = node.generation.unwrap_or_default();
        let (turns, process) = (node.running.to_string(), node.process.to_string());
        table.row(vec![
            node.id,
            node.workspace,
            node.state,
            turns,
            project,
            node.machine,
            process,
            since,
        ]);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    Ok(())
}
