//! `gdn mcp list`: lists the MCP servers of a project and their tools.

use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::mcp::{CatalogLookup, McpCatalog};
use goondan::ports::tool::HandlerError;
use goondan::spec::Resource;
use goondan::spec::kinds::{Tool, ToolEntry};
use serde_json::{Value, json};

use super::{McpTargetArgs, ProjectMcpServers};
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, style};

/// Arguments of `gdn mcp list`.
#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    #[command(flatten)]
    target: McpTargetArgs,
    /// Connect to every server and list its tools
    #[arg(long)]
    connect: bool,
}

/// Result of connecting to a server.
pub(crate) type McpLookResult = (Arc<Resource<Tool>>, Result<CatalogLookup, HandlerError>);

/// Connects to all servers in parallel.
pub(crate) async fn connect_to_all(servers: &ProjectMcpServers) -> Vec<McpLookResult> {
    let root = servers.bundle.root();
    let query = |tool: &Arc<Resource<Tool>>| {
        let tool = Arc::clone(tool);
        async move {
            let query = servers.tools.query_server(&tool, root).await;
            (tool, query)
        }
    };
    futures::future::join_all(servers.all().map(query)).await
}

/// Lists the servers. With `--connect`, connects to them and fails if a server can't be reached.
pub(super) async fn run(
    args: &McpListArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let servers = ProjectMcpServers::of(&args.target, args.connect, state_root, output).await?;
    let rows: Vec<McpServerRow> = if args.connect {
        connect_to_all(&servers)
            .await
            .into_iter()
            .map(|(tool, lookup)| McpServerRow::reached(tool, lookup))
            .collect()
    } else {
        servers
            .all()
            .map(|tool| McpServerRow::from_cache(&servers, tool))
            .collect()
    };
    if output.json {
        output.json_pretty(
            &rows
                .iter()
                .map(McpServerRow::to_json)
                .collect::<Vec<Value>>(),
        )?;
    } else if rows.is_empty() {
        output.note("The project has no MCP servers. Add a Tool with `spec.mcp`.")?;
    } else {
        rows.iter().try_for_each(|row| row.print(output))?;
    }
    if rows.iter().any(|row| row.error.is_some()) {
        Err(CliError::already_printed(CommandExit::Failure))
    } else {
        Ok(())
    }
}

/// Returns an error's suggestion, unless it names the command that just ran.
fn suggestion(error: Option<&HandlerError>) -> Option<&str> {
    error?
        .suggestion
        .as_deref()
        .filter(|suggestion| !suggestion.contains("gdn mcp list --connect"))
}

/// MCP server with its tools, for the output.
struct McpServerRow {
    tool: Arc<Resource<Tool>>,
    catalog: Option<McpCatalog>,
    took_ms: Option<u128>,
    error: Option<HandlerError>,
    logged_in: Option<bool>,
}

impl McpServerRow {
    /// Creates the row of a server from the result of a connection.
    fn reached(tool: Arc<Resource<Tool>>, lookup: Result<CatalogLookup, HandlerError>) -> Self {
        match lookup {
            Ok(CatalogLookup { catalog, took }) => McpServerRow {
                tool,
                catalog: Some(catalog),
                took_ms: Some(took.as_millis()),
                error: None,
                logged_in: None,
            },
            Err(error) => McpServerRow {
                tool,
                catalog: None,
                took_ms: None,
                error: Some(error),
                logged_in: None,
            },
        }
    }

    /// Creates the row of a server from its cached tools, without connecting to it.
    fn from_cache(servers: &ProjectMcpServers, tool: &Arc<Resource<Tool>>) -> Self {
        let root = servers.bundle.root();
        McpServerRow {
            tool: Arc::clone(tool),
            catalog: servers.tools.cached_catalog(tool, root),
            took_ms: None,
            error: None,
            logged_in: servers.tools.is_logged_in(tool, root),
        }
    }

    /// Returns the URL or the command line of the server.
    fn server_address(&self) -> String {
        match &self.tool.spec.entry {
            ToolEntry::Mcp(server) => server.display_address(),
            _ => String::new(),
        }
    }

    /// Describes the tools of the server, or the error of the connection.
    fn state_text(&self) -> String {
        let mut state = match (&self.catalog, &self.error) {
            (_, Some(error)) => error.message.clone(),
            (Some(catalog), None) => {
                let speaks = format!("MCP {}", catalog.protocol);
                let took = self
                    .took_ms
                    .map(|took| format!(", answered in {took} ms"))
                    .unwrap_or_default();
                let (count, tokens) = (catalog.tools.len(), catalog.tokens());
                format!("{count} tools (about {tokens} tokens), {speaks}{took}")
            }
            (None, None) => "tools not known yet; run with `--connect` to list them".to_owned(),
        };
        if self.logged_in == Some(true) {
            state.push_str(", logged in");
        }
        state
    }

    /// Prints the server with its tools, notes and suggestion.
    fn print(&self, output: &CommandOutput) -> Result<(), CliError> {
        let (name, faint, error) = (style::NAME, style::FAINT, style::ERROR);
        let address = untrusted_text::line(self.server_address()).to_string();
        output.line(&format!(
            "{name}{}{name:#}  {faint}{address}{faint:#}",
            untrusted_text::line(&self.tool.id.name)
        ))?;
        let state = untrusted_text::line(self.state_text()).to_string();
        match self.error {
            Some(_) => output.line(&format!("  {error}{state}{error:#}"))?,
            None => output.line(&format!("  {state}"))?,
        }
        if let Some(suggestion) = suggestion(self.error.as_ref()) {
            output.line(&format!("  {}", untrusted_text::line(suggestion)))?;
        }
        for listed in self.catalog.iter().flat_map(|catalog| &catalog.tools) {
            let about = listed.export.description.lines().next().unwrap_or_default();
            let about: String = about.chars().take(100).collect();
            let name = format!("{}__{}", self.tool.id.name, listed.export.name);
            output.line(&format!(
                "    {}  {faint}{}{faint:#}",
                untrusted_text::line(name),
                untrusted_text::line(about)
            ))?;
        }
        let notes = self.catalog.iter().flat_map(|catalog| &catalog.notes);
        notes
            .into_iter()
            .try_for_each(|note| output.line(&format!("  {}", untrusted_text::line(note))))
    }

    /// Returns the row as JSON.
    fn to_json(&self) -> Value {
        let error = self
            .error
            .as_ref()
            .map(|error| json!({"code": error.code, "message": error.message, "suggestion": suggestion(Some(error))}));
        json!({
            "tool": self.tool.id.name,
            "server": self.server_address(),
            "catalog": self.catalog,
            "schemaTokens": self.catalog.as_ref().map(McpCatalog::tokens),
            "tookMs": self.took_ms.and_then(|took| u64::try_from(took).ok()),
            "loggedIn": self.logged_in,
            "error": error,
        })
    }
}
