//! `gdn connection`.

mod list;
mod test;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use goondan::connectors::Bound;
use goondan::inside::shown;
use goondan::spec::kinds::Connection;
use goondan::spec::{Bundle, Code, Resource, ResourceId};
use goondan::{StateRoot, Workspace};
use goondan_connect::{Shelf, needs_no_approval};
use serde_json::json;

use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;
use crate::retyped;

const EXAMPLES: &str = "\
Examples:
  gdn connection list                          List the connections, and who waits to be let in
  gdn connection approve desk 1234567          Let a sender in
  gdn connection test desk                     Show where a made-up event would go
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
    /// List connections with their state, strangers that wait, and answers that did not arrive
    List(Place),
    /// Let a sender in, also while the connection runs
    Approve(ApproveArgs),
    /// Show where an event would go, without starting a turn
    Test(test::TestArgs),
}

/// Which connections are meant.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    project: ProjectOption,
    /// Look at the connections of this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
}

/// Arguments of `gdn connection approve`.
#[derive(Debug, Args)]
struct ApproveArgs {
    /// The connection
    #[arg(value_name = "NAME", add = complete::connections())]
    name: String,
    /// The sender's id, as `gdn connection list` shows it
    #[arg(value_name = "SENDER")]
    sender: String,
    #[command(flatten)]
    place: Place,
}

/// A swarm with its connections.
struct Found {
    bundle: Arc<Bundle>,
    swarm: ResourceId,
    workspace: Workspace,
}

impl Place {
    /// The options, each with a space before it, with which another command means the same connections.
    fn options(&self) -> String {
        let project = self
            .project
            .given()
            .map(|path| retyped::option("--project", &path.to_string_lossy()));
        let swarm = self
            .swarm
            .as_deref()
            .map(|name| retyped::option("--swarm", name));
        [
            project.unwrap_or_default(),
            swarm.unwrap_or_default(),
            retyped::state_root(),
        ]
        .concat()
    }

    fn find(&self, state_root: &StateRoot, output: &Output) -> Result<Found, CliError> {
        let path: PathBuf = self.project.find(output)?;
        let (bundle, swarm) = project::chosen_swarm(&path, self.swarm.as_deref(), output)?;
        let workspace = state_root.workspace_of(&bundle, &bundle.swarms()[&swarm]);
        Ok(Found {
            bundle,
            swarm,
            workspace,
        })
    }
}

impl Found {
    fn all(&self) -> impl Iterator<Item = &Arc<Resource<Connection>>> {
        self.bundle.connections_of(&self.swarm)
    }

    fn connection(&self, name: &str) -> Result<&Arc<Resource<Connection>>, CliError> {
        self.all()
            .find(|connection| connection.id.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = self
                    .all()
                    .map(|connection| connection.id.name.as_str())
                    .collect();
                let message = format!(
                    "The swarm {} has no connection `{}`.",
                    self.swarm.name,
                    shown::line(name)
                );
                let unknown = CliError::new(Exit::Usage, Code::CONNECTION_NOT_FOUND, message);
                match names.is_empty() {
                    true => {
                        unknown.suggest("It has none at all. Add a document of `kind: Connection`.")
                    }
                    false => unknown.suggest(format!("Its connections are: {}.", names.join(", "))),
                }
            })
    }

    fn bound(&self, connection: &Resource<Connection>) -> Result<Bound, CliError> {
        Bound::without_values(&self.bundle, connection).ok_or_else(|| {
            let message = format!("`{}` is not there.", connection.spec.connector);
            CliError::new(Exit::Usage, Code::CONNECTION_NOT_FOUND, message)
                .suggest("Name a Connector of the project.")
        })
    }

    fn shelf(&self, name: &str) -> Shelf {
        Shelf::of(&self.workspace.dir, name)
    }
}

/// Looks after connections.
pub(crate) fn run(
    args: &ConnectionArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match &args.command {
        ConnectionCommand::List(place) => list::run(place, state_root, output),
        ConnectionCommand::Approve(args) => approve(args, state_root, output),
        ConnectionCommand::Test(args) => test::run(args, state_root, output),
    }
}

fn approve(args: &ApproveArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let found = args.place.find(state_root, output)?;
    let connection = found.connection(&args.name)?;
    let sender = args.sender.trim();
    if let Some(why) = needs_no_approval(&found.bound(connection)?) {
        let suggestion = "Nothing was changed. `spec.allow.senders` of a Connection names those who may write; \
                          `gdn connection list` shows who waits to be let in.";
        return Err(CliError::usage(format!("Nobody has to be let in. {why}")).suggest(suggestion));
    }
    let is_new = found.shelf(&connection.id.name).approve(sender)?;
    if output.json {
        return output
            .json_line(&json!({"connection": args.name, "sender": sender, "isNew": is_new}));
    }
    let words = if is_new {
        "may write from now on"
    } else {
        "was let in before"
    };
    output.note(&format!("{} {words}.", shown::line(sender)))
}
