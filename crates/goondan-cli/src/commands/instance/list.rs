//! `gdn instance list`.

use std::path::PathBuf;

use chrono::{DateTime, Local, Utc};
use clap::Args;
use goondan::StateRoot;
use serde::Serialize;

use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, Found, Scope, ScopeArgs};
use crate::output::{Output, Table};
use crate::store::StoreArgs;

/// Arguments of `gdn instance list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// List only conversations of this agent
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// List at most this many conversations [default: 20; no limit with --all]
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// List the conversations of all projects
    #[arg(long, conflicts_with_all = ["workspace", "project"])]
    all: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// So many are listed where nothing else is said.
const LIMIT: usize = 20;

/// One conversation, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    agent: String,
    instance_key: String,
    workspace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<PathBuf>,
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
            project: project(found),
            status: summary.status.clone(),
            messages: summary.messages,
            created_at: summary.created_at,
            updated_at: summary.updated_at,
        }
    }
}

/// The folder of the project that it belongs to, where that is known.
fn project(found: &Found) -> Option<PathBuf> {
    // A note that can't be read is no reason to show nothing.
    found
        .workspace
        .owner()
        .ok()
        .flatten()
        .map(|owner| owner.path)
}

/// Lists conversations.
pub(super) async fn run(
    args: &ListArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let scope = args.scope.scope(args.all, state_root, output)?;
    let mut found = instances::all(args.store.database()?.as_ref(), state_root, &scope).await?;
    if let Some(agent) = &args.agent {
        found.retain(|found| found.summary.id.agent == *agent);
    }
    let limit = args
        .limit
        .unwrap_or(if args.all { usize::MAX } else { LIMIT });
    let hidden = found.len().saturating_sub(limit);
    found.truncate(limit);
    if output.json {
        return output.json_pretty(&found.iter().map(Row::from).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return output.note(&nothing(&scope));
    }
    for line in table(&found, matches!(scope, Scope::Everywhere)).lines() {
        output.line(&line)?;
    }
    if hidden > 0 {
        output.note(&format!(
            "{hidden} more; `--limit {}` shows them.",
            limit + hidden
        ))?;
    }
    Ok(())
}

fn nothing(scope: &Scope) -> String {
    let hint = match scope {
        Scope::Project(..) => " `--all` shows those of all projects.",
        Scope::Everywhere | Scope::Workspace(_) => "",
    };
    format!("No instances found{}.{hint}", instances::of(scope))
}

fn table(found: &[Found], with_projects: bool) -> Table {
    let mut heads = vec![
        "INSTANCE",
        "WORKSPACE",
        "STATUS",
        "MESSAGES",
        "CREATED",
        "UPDATED",
    ];
    heads.extend(with_projects.then_some("PROJECT"));
    let mut table = Table::new(&heads);
    for found in found {
        let summary = &found.summary;
        let (created, updated) = (local(summary.created_at), local(summary.updated_at));
        let messages = summary.messages.to_string();
        let mut row = vec![
            found.name(),
            found.workspace.id.clone(),
            summary.status.clone(),
            messages,
            created,
            updated,
        ];
        row.extend(
            with_projects
                .then(|| project(found).map_or("-".to_owned(), |path| path.display().to_string())),
        );
        table.row(row);
    }
    table
}

/// A moment as the person at this machine reads it.
pub(crate) fn local(moment: DateTime<Utc>) -> String {
    moment
        .with_timezone(&Local)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}
