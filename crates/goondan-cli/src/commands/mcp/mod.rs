//! `gdn mcp`.

mod import;
mod list;
mod login;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use goondan::mcp::McpTools;
use goondan::ports::tool::ToolError;
use goondan::spec::kinds::{Entry, Tool};
use goondan::spec::{Bundle, Code, Resource};
use goondan::{StateRoot, mcp_servers};

pub(crate) use self::list::reach;
use crate::commands::sandbox_exec;
use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;
use crate::trust::Trust;

const EXAMPLES: &str = "\
Examples:
  gdn mcp list                      List the project's servers, and what is known about them
  gdn mcp list --connect            Start them all, and ask which tools they have
  gdn mcp import .mcp.json          Print the servers of another program as Tools
  gdn mcp import --write            Find such a file, and write tools/mcp.yaml
  gdn mcp login github              Log in to the server of Tool/github
  gdn mcp serve                     Be a server: its tools ask the agents of this folder's swarm";

/// Arguments of `gdn mcp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// List servers and their tools
    List(list::ListArgs),
    /// Import servers from the file of another program
    Import(import::ImportArgs),
    /// Log in to a server on the web
    Login(login::LoginArgs),
    /// Log out of a server, and forget its tokens
    Logout(login::LogoutArgs),
    /// Be an MCP server: let a client ask the agents of a swarm
    Serve(serve::ServeArgs),
}

/// Looks after MCP servers.
pub(crate) async fn run(
    args: McpArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match args.command {
        McpCommand::List(args) => list::run(&args, state_root, output).await,
        McpCommand::Import(args) => import::run(&args, output),
        McpCommand::Login(args) => login::run(&args, state_root, output).await,
        McpCommand::Serve(args) => serve::run(args, state_root, output).await,
        McpCommand::Logout(args) => login::forget(&args, state_root, output).await,
    }
}

/// Where the servers are.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    project: ProjectOption,
    /// Read variables from this file before .env.local and .env
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
}

/// A project with servers.
pub(crate) struct Servers {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) tools: McpTools,
}

impl Servers {
    /// Those of the project, which must be trusted where `reach` is set: then they are started.
    async fn of(
        place: &Place,
        reach: bool,
        state_root: &StateRoot,
        output: &Output,
    ) -> Result<Self, CliError> {
        let trust = Trust::new(state_root, place.trust);
        let path = place.project.find(output)?;
        let (root, bundle, _) = match reach {
            true => project::load_trusted(&path, &trust, output)?,
            false => project::load_valid(&path, output)?,
        };
        let is_trusted = reach || trust.is_given(&root)?;
        Servers::new(bundle, place.env_file.as_deref(), is_trusted, state_root).await
    }

    /// Those of a project that was looked at.
    pub(crate) async fn new(
        bundle: Arc<Bundle>,
        env_file: Option<&Path>,
        is_trusted: bool,
        state_root: &StateRoot,
    ) -> Result<Self, CliError> {
        let tools = mcp_servers(
            &bundle,
            state_root,
            env_file,
            is_trusted,
            sandbox_exec::command(),
        )
        .await;
        let tools = tools.map_err(|problem| CliError {
            suggestion: problem.suggestion.clone(),
            ..CliError::configuration(problem.message)
        })?;
        Ok(Servers { bundle, tools })
    }

    /// The Tools with a server.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource<Tool>>> {
        self.bundle
            .tools()
            .values()
            .filter(|tool| matches!(tool.spec.entry, Entry::Mcp(_)))
    }

    fn find(&self, name: &str) -> Result<&Arc<Resource<Tool>>, CliError> {
        self.all().find(|tool| tool.id.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.all().map(|tool| tool.id.name.as_str()).collect();
            let error = CliError::usage(format!("The project has no MCP server `{name}`."));
            error.suggest(match names.is_empty() {
                true => {
                    "A server is a Tool with `spec.mcp`; `gdn mcp import` writes one.".to_owned()
                }
                false => format!("Its servers are: {}.", names.join(", ")),
            })
        })
    }
}

/// A failure of a server, as the error that ends a command.
fn failed(error: ToolError) -> CliError {
    let code = error.code.unwrap_or_else(|| Code::MCP_CONNECT.to_string());
    let mut letters = error.message.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let message: String = first.into_iter().chain(letters).collect();
    CliError {
        suggestion: error.suggestion,
        ..CliError::passed_on(Exit::Failure, code, message)
    }
}
