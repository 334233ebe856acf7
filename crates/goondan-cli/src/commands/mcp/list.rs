//! `gdn mcp list`.

use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;
use goondan::mcp::{Catalog, Look};
use goondan::ports::tool::ToolError;
use goondan::spec::Resource;
use goondan::spec::kinds::{Entry, Tool};
use serde_json::{Value, json};

use super::{Place, Servers};
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: Place,
    /// Start every server, and ask which tools it has
    #[arg(long)]
    connect: bool,
}

/// What came of reaching a server.
pub(crate) type Reached = (Arc<Resource<Tool>>, Result<Look, ToolError>);

/// Reaches all servers at the same time.
pub(crate) async fn reach(servers: &Servers) -> Vec<Reached> {
    let root = servers.bundle.root();
    let look = |tool: &Arc<Resource<Tool>>| {
        let tool = Arc::clone(tool);
        async move {
            let look = servers.tools.look(&tool, root).await;
            (tool, look)
        }
    };
    futures::future::join_all(servers.all().map(look)).await
}

pub(super) async fn run(
    args: &ListArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let servers = Servers::of(&args.place, args.connect, state_root, output).await?;
    let rows: Vec<Row> = match args.connect {
        true => reach(&servers)
            .await
            .into_iter()
            .map(|(tool, look)| Row::reached(tool, look))
            .collect(),
        false => servers
            .all()
            .map(|tool| Row::remembered(&servers, tool))
            .collect(),
    };
    if output.json {
        output.json_pretty(&rows.iter().map(Row::json).collect::<Vec<Value>>())?;
    } else if rows.is_empty() {
        output.note("The project has no MCP servers. A server is a Tool with `spec.mcp`.")?;
    } else {
        rows.iter().try_for_each(|row| row.show(output))?;
    }
    match rows.iter().any(|row| row.error.is_some()) {
        true => Err(CliError::shown(Exit::Failure)),
        false => Ok(()),
    }
}

/// What to do about an error, unless it is what was just done.
fn suggestion(error: Option<&ToolError>) -> Option<&str> {
    error?
        .suggestion
        .as_deref()
        .filter(|suggestion| !suggestion.contains("gdn mcp list --connect"))
}

/// What is known of a server.
struct Row {
    tool: Arc<Resource<Tool>>,
    catalog: Option<Catalog>,
    took_ms: Option<u128>,
    error: Option<ToolError>,
    logged_in: Option<bool>,
}

impl Row {
    fn reached(tool: Arc<Resource<Tool>>, look: Result<Look, ToolError>) -> Self {
        match look {
            Ok(Look { catalog, took }) => Row {
                tool,
                catalog: Some(catalog),
                took_ms: Some(took.as_millis()),
                error: None,
                logged_in: None,
            },
            Err(error) => Row {
                tool,
                catalog: None,
                took_ms: None,
                error: Some(error),
                logged_in: None,
            },
        }
    }

    fn remembered(servers: &Servers, tool: &Arc<Resource<Tool>>) -> Self {
        let root = servers.bundle.root();
        Row {
            tool: Arc::clone(tool),
            catalog: servers.tools.remembered(tool, root),
            took_ms: None,
            error: None,
            logged_in: servers.tools.is_logged_in(tool, root),
        }
    }

    fn address(&self) -> String {
        match &self.tool.spec.entry {
            Entry::Mcp(server) => server.shown(),
            _ => String::new(),
        }
    }

    fn state(&self) -> String {
        let mut state = match (&self.catalog, &self.error) {
            (_, Some(error)) => error.message.clone(),
            (Some(catalog), None) => {
                let speaks = format!("speaks {}", catalog.protocol);
                let took = self
                    .took_ms
                    .map(|took| format!(", answered in {took} ms"))
                    .unwrap_or_default();
                let (count, tokens) = (catalog.tools.len(), catalog.tokens());
                format!("{count} tools (about {tokens} tokens), {speaks}{took}")
            }
            (None, None) => "not met yet; `--connect` asks what it has".to_owned(),
        };
        if self.logged_in == Some(true) {
            state.push_str(", logged in");
        }
        state
    }

    fn show(&self, output: &Output) -> Result<(), CliError> {
        let (name, faint, error) = (style::NAME, style::FAINT, style::ERROR);
        let address = shown::line(self.address()).to_string();
        output.line(&format!(
            "{name}{}{name:#}  {faint}{address}{faint:#}",
            shown::line(&self.tool.id.name)
        ))?;
        let state = shown::line(self.state()).to_string();
        match self.error {
            Some(_) => output.line(&format!("  {error}{state}{error:#}"))?,
            None => output.line(&format!("  {state}"))?,
        }
        if let Some(suggestion) = suggestion(self.error.as_ref()) {
            output.line(&format!("  {}", shown::line(suggestion)))?;
        }
        for listed in self.catalog.iter().flat_map(|catalog| &catalog.tools) {
            let about = listed.export.description.lines().next().unwrap_or_default();
            let about: String = about.chars().take(100).collect();
            let name = format!("{}__{}", self.tool.id.name, listed.export.name);
            output.line(&format!(
                "    {}  {faint}{}{faint:#}",
                shown::line(name),
                shown::line(about)
            ))?;
        }
        let notes = self.catalog.iter().flat_map(|catalog| &catalog.notes);
        notes
            .into_iter()
            .try_for_each(|note| output.line(&format!("  {}", shown::line(note))))
    }

    fn json(&self) -> Value {
        let error = self
            .error
            .as_ref()
            .map(|error| json!({"code": error.code, "message": error.message, "suggestion": suggestion(Some(error))}));
        json!({
            "tool": self.tool.id.name,
            "server": self.address(),
            "catalog": self.catalog,
            "schemaTokens": self.catalog.as_ref().map(Catalog::tokens),
            "tookMs": self.took_ms.and_then(|took| u64::try_from(took).ok()),
            "loggedIn": self.logged_in,
            "error": error,
        })
    }
}
