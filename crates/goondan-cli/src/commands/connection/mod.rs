//! `gdn connection`: lists connections, approves senders and tests the routing of events.

mod list;
mod test;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use goondan::adapters::connectors::BoundConnection;
use goondan::internal::untrusted_text;
use goondan::spec::kinds::Connection;
use goondan::spec::{Bundle, Code, Resource, ResourceId};
use goondan::{StateRoot, Workspace};
use goondan_connect::{ConnectionStateDir, needs_no_approval};
use serde_json::json;

use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::suggested_command;

const EXAMPLES: &str = "\
Examples:
  gdn connection list                          List connections and senders waiting for approval
  gdn connection approve desk 1234567          Approve a sender
  gdn connection test desk                     Show the route of a sample event
  gdn connection test desk --event '{\"text\": \"Hi\", \"properties\": {\"chatId\": \"7\"}}'";

/// Arguments of `gdn connection`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConnectionArgs {
    #[command(subcommand)]
    command: ConnectionCommand,
}

#[derive(Debug, Subcommand)]
enum ConnectionCommand {
    /// List connections with their state, pending senders and undelivered replies
    List(ConnectionTargetArgs),
    /// Approve a sender, even while the connection runs
    Approve(ConnectionApproveArgs),
    /// Show where an event would go, without starting a turn
    Test(test::ConnectionTestArgs),
}

/// Options that select the swarm.
#[derive(Debug, Args)]
struct ConnectionTargetArgs {
    #[command(flatten)]
    project: ProjectPathOption,
    /// Use the connections of this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
}

/// Arguments of `gdn connection approve`.
#[derive(Debug, Args)]
struct ConnectionApproveArgs {
    /// The connection
    #[arg(value_name = "NAME", add = complete::connections())]
    name: String,
    /// The sender's id, as `gdn connection list` shows it
    #[arg(value_name = "SENDER")]
    sender: String,
    #[command(flatten)]
    target: ConnectionTargetArgs,
}

/// A swarm of the project, whose connections a command uses.
struct SwarmConnections {
    bundle: Arc<Bundle>,
    swarm: ResourceId,
    workspace: Workspace,
}

impl ConnectionTargetArgs {
    /// Returns options that select the same swarm in another command, each with a leading space.
    fn options(&self) -> String {
        let project = self
            .project
            .given_path()
            .map(|path| suggested_command::option("--project", &path.to_string_lossy()));
        let swarm = self
            .swarm
            .as_deref()
            .map(|name| suggested_command::option("--swarm", name));
        [
            project.unwrap_or_default(),
            swarm.unwrap_or_default(),
            suggested_command::state_root(),
        ]
        .concat()
    }

    /// Loads the project and finds the swarm with its workspace.
    fn find(
        &self,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<SwarmConnections, CliError> {
        let path: PathBuf = self.project.find(output)?;
        let (bundle, swarm) = project::chosen_swarm(&path, self.swarm.as_deref(), output)?;
        let workspace = state_root.workspace_of(&bundle, &bundle.swarms()[&swarm]);
        Ok(SwarmConnections {
            bundle,
            swarm,
            workspace,
        })
    }
}

impl SwarmConnections {
    /// Returns the connections of the swarm.
    fn all(&self) -> impl Iterator<Item = &Arc<Resource<Connection>>> {
        self.bundle.connections_of(&self.swarm)
    }

    /// Returns the connection with this name. Fails and lists the names if there is none.
    fn connection(&self, name: &str) -> Result<&Arc<Resource<Connection>>, CliError> {
        self.all()
            .find(|connection| connection.id.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = self
                    .all()
                    .map(|connection| connection.id.name.as_str())
                    .collect();
                let message = format!(
                    "Swarm `{}` has no connection `{}`.",
                    self.swarm.name,
                    untrusted_text::line(name)
                );
                let unknown =
                    CliError::new(CommandExit::Usage, Code::CONNECTION_NOT_FOUND, message);
                if names.is_empty() {
                    unknown.suggest(
                        "The swarm has no connections. Add a document with \
                            `kind: Connection`.",
                    )
                } else {
                    unknown.suggest(format!("Use one of: {}.", names.join(", ")))
                }
            })
    }

    /// Returns the connection with its connector's settings, without the values of variables.
    fn bound(&self, connection: &Resource<Connection>) -> Result<BoundConnection, CliError> {
        BoundConnection::without_values(&self.bundle, connection).ok_or_else(|| {
            let message = format!("`{}` does not exist.", connection.spec.connector);
            CliError::new(CommandExit::Usage, Code::CONNECTION_NOT_FOUND, message)
                .suggest("Name a Connector of the project.")
        })
    }

    /// Returns the directory with the state of a connection.
    fn state_dir(&self, name: &str) -> ConnectionStateDir {
        ConnectionStateDir::of(&self.workspace.dir, name)
    }
}

/// Runs the selected subcommand.
pub(crate) fn run(
    args: &ConnectionArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match &args.command {
        ConnectionCommand::List(target) => list::run(target, state_root, output),
        ConnectionCommand::Approve(args) => approve(args, state_root, output),
        ConnectionCommand::Test(args) => test::run(args, state_root, output),
    }
}

/// Approves a sender. Fails if the connection accepts its senders without approval.
fn approve(
    args: &ConnectionApproveArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let connections = args.target.find(state_root, output)?;
    let connection = connections.connection(&args.name)?;
    let sender = args.sender.trim();
    if let Some(reason) = needs_no_approval(&connections.bound(connection)?) {
        let suggestion = "Nothing was changed. `spec.allow.senders` of a Connection lists the \
            allowed senders; `gdn connection list` shows the senders waiting for approval.";
        let message = format!("The connection needs no approval of senders. {reason}");
        return Err(CliError::usage(message).suggest(suggestion));
    }
    let is_new = connections.state_dir(&connection.id.name).approve(sender)?;
    if output.json {
        return output
            .json_line(&json!({"connection": args.name, "sender": sender, "isNew": is_new}));
    }
    let outcome = if is_new {
        "is approved"
    } else {
        "was already approved"
    };
    output.note(&format!("{} {outcome}.", untrusted_text::line(sender)))
}
