//! `gdn mcp`: manages the MCP servers of a project, or serves its swarm over MCP.

mod import;
mod list;
mod login;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use goondan::mcp::McpTools;
use goondan::ports::tool::HandlerError;
use goondan::spec::kinds::{Tool, ToolEntry};
use goondan::spec::{Bundle, Code, Resource};
use goondan::{StateRoot, mcp_servers};

pub(crate) use self::list::connect_to_all;
use crate::commands::sandbox_exec;
use crate::exit::{CliError, CommandExit};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples:
  gdn mcp list                      List the project's servers and their cached tools
  gdn mcp list --connect            Connect to all servers and list their tools
  gdn mcp import .mcp.json          Print another program's servers as Tools
  gdn mcp import --write            Find such a file and write tools/mcp.yaml
  gdn mcp login github              Log in to the server of Tool/github
  gdn mcp serve                     Serve the agents of this directory's swarm as tools";

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
    List(list::McpListArgs),
    /// Import servers from another program's configuration
    Import(import::McpImportArgs),
    /// Log in to a remote server
    Login(login::McpLoginArgs),
    /// Log out of a server and delete its tokens
    Logout(login::McpLogoutArgs),
    /// Serve the agents of a swarm to an MCP client
    Serve(serve::McpServeArgs),
}

/// Runs the selected subcommand.
pub(crate) async fn run(
    args: McpArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match args.command {
        McpCommand::List(args) => list::run(&args, state_root, output).await,
        McpCommand::Import(args) => import::run(&args, output),
        McpCommand::Login(args) => login::run(&args, state_root, output).await,
        McpCommand::Serve(args) => serve::run(args, state_root, output).await,
        McpCommand::Logout(args) => login::forget(&args, state_root, output).await,
    }
}

/// Options that select the project and its environment.
#[derive(Debug, Args)]
struct McpTargetArgs {
    #[command(flatten)]
    project: ProjectPathOption,
    /// Read this env file, which overrides .env.local and .env
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
}

/// MCP servers of a project.
pub(crate) struct ProjectMcpServers {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) tools: McpTools,
}

impl ProjectMcpServers {
    /// Opens the MCP servers of the project. With `must_connect`, the servers are started later, so
    /// the project must be trusted.
    async fn of(
        target: &McpTargetArgs,
        must_connect: bool,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<Self, CliError> {
        let trust = TrustSettings::new(state_root, target.trust);
        let path = target.project.find(output)?;
        let (root, bundle, _) = if must_connect {
            project::load_trusted(&path, &trust, output)?
        } else {
            project::load_valid(&path, output)?
        };
        let is_trusted = must_connect || trust.is_given(&root)?;
        ProjectMcpServers::new(bundle, target.env_file.as_deref(), is_trusted, state_root).await
    }

    /// Opens the servers of a loaded project.
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
            crate::output::redactor().clone(),
        )
        .await;
        let tools = tools.map_err(|problem| CliError {
            suggestion: problem.suggestion.clone(),
            ..CliError::configuration(problem.message)
        })?;
        Ok(ProjectMcpServers { bundle, tools })
    }

    /// Returns the Tools that have a server.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource<Tool>>> {
        self.bundle
            .tools()
            .values()
            .filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_)))
    }

    /// Returns the Tool with this name. Fails and lists the names if the Tool has no MCP server.
    fn find(&self, name: &str) -> Result<&Arc<Resource<Tool>>, CliError> {
        self.all().find(|tool| tool.id.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.all().map(|tool| tool.id.name.as_str()).collect();
            let error = CliError::usage(format!("The project has no MCP server `{name}`."));
            error.suggest(if names.is_empty() {
                "Add a Tool with `spec.mcp`, for example with `gdn mcp import`.".to_owned()
            } else {
                format!("Use one of: {}.", names.join(", "))
            })
        })
    }
}

/// Converts the error of an MCP server to a command error, whose message begins with a capital
/// letter.
pub(crate) fn server_error(error: HandlerError) -> CliError {
    let code = error.code.unwrap_or_else(|| Code::MCP_CONNECT.to_string());
    CliError {
        suggestion: error.suggestion,
        ..CliError::with_foreign_code(CommandExit::Failure, code, capitalize(&error.message))
    }
}

/// Converts the first character to upper case, if it is an ASCII letter.
fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}", first.to_ascii_uppercase(), characters.as_str()),
        None => String::new(),
    }
}
