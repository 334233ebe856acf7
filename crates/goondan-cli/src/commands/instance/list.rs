//! `gdn instance list`.

use chrono::{DateTime, Local, Utc};
use clap::Args;
use goondan::StateRoot;
use serde::Serialize;

use crate::exit::CliError;
use crate::instances::{self, Found};
use crate::output::{Output, Table};

/// Arguments of `gdn instance list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only conversations of this agent
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Look only in this workspace
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,
    /// At most that many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, conflicts_with = "all")]
    limit: usize,
    /// All of them
    #[arg(long)]
    all: bool,
}

/// One conversation, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    agent: String,
    instance_key: String,
    workspace: String,
    status: String,
    messages: usize,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl From<&Found> for Row {
    fn from(found: &Found) -> Self {
        let summary = &found.summary;
        Row {
            agent: summary.id.agent.clone(),
            instance_key: summary.id.instance_key.clone(),
            workspace: found.workspace.id.clone(),
            status: summary.status.clone(),
            messages: summary.messages,
            created_at: summary.created_at,
            updated_at: summary.updated_at,
        }
    }
}

/// Lists conversations.
pub(super) fn run(args: &ListArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let mut found = instances::all(state_root, args.workspace.as_deref())?;
    if let Some(agent) = &args.agent {
        found.retain(|found| found.summary.id.agent == *agent);
    }
    let limit = if args.all { usize::MAX } else { args.limit };
    let hidden = found.len().saturating_sub(limit);
    found.truncate(limit);
    if output.json {
        return output.json_pretty(&found.iter().map(Row::from).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return output.note("No instances found.");
    }
    let mut table = Table::new(&["INSTANCE", "WORKSPACE", "STATUS", "MESSAGES", "CREATED", "UPDATED"]);
    for found in &found {
        let summary = &found.summary;
        let (created, updated) = (local(summary.created_at), local(summary.updated_at));
        let messages = summary.messages.to_string();
        table.row([found.name(), found.workspace.id.clone(), summary.status.clone(), messages, created, updated]);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    if hidden > 0 {
        output.note(&format!("{hidden} more; `--all` shows them."))?;
    }
    Ok(())
}

/// A moment as the person at this machine reads it.
pub(super) fn local(moment: DateTime<Utc>) -> String {
    moment.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}
