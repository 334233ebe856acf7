//! `gdn conversation list`: lists conversations, the latest first.

use std::path::PathBuf;

use chrono::{DateTime, Local, Utc};
use clap::Args;
use goondan::StateRoot;
use serde::Serialize;

use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, ConversationScope, FoundConversation, ScopeArgs};
use crate::output::{CommandOutput, TextTable};
use crate::store::{self, StoreArgs};

/// Arguments of `gdn conversation list`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Read from")))]
pub(super) struct InstanceListArgs {
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

/// Default maximum number of conversations listed.
const DEFAULT_LIST_LIMIT: usize = 20;

/// Conversation in JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceRow {
    agent: String,
    instance_key: String,
    workspace: String,
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "goondan::internal::path_json::lossy"
    )]
    project: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    status: String,
    messages: usize,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl From<&FoundConversation> for InstanceRow {
    fn from(found: &FoundConversation) -> Self {
        let summary = &found.summary;
        InstanceRow {
            agent: summary.id.agent.clone(),
            instance_key: summary.id.instance_key.clone(),
            workspace: found.workspace.id.clone(),
            project: project(found),
            title: found.title.clone(),
            status: summary.status.clone(),
            messages: summary.messages,
            created_at: summary.created_at,
            updated_at: summary.updated_at,
        }
    }
}

/// Returns the project directory of the workspace, if it is recorded.
fn project(found: &FoundConversation) -> Option<PathBuf> {
    // An unreadable owner record must not hide the conversation.
    found
        .workspace
        .owner()
        .ok()
        .flatten()
        .map(|owner| owner.path)
}

/// Lists conversations as a table or as JSON, latest first.
pub(super) async fn run(
    args: &InstanceListArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let scope = args.scope.scope(args.all, state_root, output)?;
    let database = args.store.database()?;
    let mut all_instances = instances::all(database.as_ref(), state_root, &scope).await?;
    if let Some(agent) = &args.agent {
        all_instances.retain(|instance| instance.summary.id.agent == *agent);
    }
    let limit = args.limit.unwrap_or(if args.all {
        usize::MAX
    } else {
        DEFAULT_LIST_LIMIT
    });
    let hidden = all_instances.len().saturating_sub(limit);
    all_instances.truncate(limit);
    if database.is_none() {
        all_instances
            .iter_mut()
            .for_each(FoundConversation::read_title);
    }
    if output.json {
        return output.json_pretty(
            &all_instances
                .iter()
                .map(InstanceRow::from)
                .collect::<Vec<_>>(),
        );
    }
    if all_instances.is_empty() {
        return output.note(&no_conversations_message(&scope));
    }
    for line in conversation_table(
        &all_instances,
        matches!(scope, ConversationScope::Everywhere),
    )
    .lines()
    {
        output.line(&line)?;
    }
    if hidden > 0 {
        output.note(&format!(
            "{hidden} more; show all with `--limit {}`.",
            limit + hidden
        ))?;
    }
    Ok(())
}

/// Returns the message for an empty list.
fn no_conversations_message(scope: &ConversationScope) -> String {
    let hint = match scope {
        ConversationScope::Project(..) => " List the conversations of all projects with `--all`.",
        ConversationScope::Everywhere | ConversationScope::Workspace(_) => "",
    };
    format!(
        "No conversations found{}.{hint}",
        instances::scope_suffix(scope)
    )
}

/// Formats the conversations as a table; `with_projects` adds a column with their projects. A column
/// with titles is there if a conversation has one.
fn conversation_table(found: &[FoundConversation], with_projects: bool) -> TextTable {
    let mut heads = vec![
        "INSTANCE",
        "WORKSPACE",
        "STATUS",
        "MESSAGES",
        "CREATED",
        "UPDATED",
    ];
    let with_titles = found.iter().any(|found| found.title.is_some());
    heads.extend(with_projects.then_some("PROJECT"));
    heads.extend(with_titles.then_some("TITLE"));
    let mut table = TextTable::new(&heads);
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
        row.extend(with_titles.then(|| found.title.clone().unwrap_or("-".to_owned())));
        table.row(row);
    }
    table
}

/// Formats a time in the local time zone.
pub(crate) fn local(moment: DateTime<Utc>) -> String {
    moment
        .with_timezone(&Local)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}
