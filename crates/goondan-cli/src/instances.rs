//! Stored conversations, and their selection by name.

use std::path::PathBuf;

use clap::Args;
use goondan::ids::InstanceId;
use goondan::spec::Code;
use goondan::workspace::InstanceSummary;
use goondan::workspace::database::SharedDatabase;
use goondan::{StateRoot, Workspace};

use crate::commands::quoted;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;
use crate::project_path;
use crate::remote::RemoteSwarm;
use crate::store;
use goondan::spec::reason;

/// Scope of a search for conversations, shared by all commands that search.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScopeArgs {
    /// Search this project [default: the current project, or all projects outside of one]
    #[arg(short, long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Search only this workspace
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    workspace: Option<String>,
}

/// Scope of a search for conversations.
#[derive(Debug, Clone)]
pub(crate) enum ConversationScope {
    /// All workspaces.
    Everywhere,
    /// The workspace with this ID.
    Workspace(String),
    /// The workspaces of the project in this directory. None need to exist yet.
    Project(PathBuf, Vec<Workspace>),
}

impl ScopeArgs {
    /// Resolves the options to a scope; `all` selects every workspace by default.
    pub(crate) fn scope(
        &self,
        all: bool,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<ConversationScope, CliError> {
        let root = match (&self.workspace, &self.project) {
            (Some(id), _) => return Ok(ConversationScope::Workspace(id.clone())),
            (None, Some(path)) => Some(project::load(path)?.root),
            (None, None) if all => None,
            (None, None) => project_path::find_around(output)?
                .map(std::path::absolute)
                .transpose()?,
        };
        let Some(root) = root else {
            return Ok(ConversationScope::Everywhere);
        };
        let workspaces = state_root
            .workspaces_of(&root)
            .map_err(|error| unreadable_root(state_root, &error))?;
        Ok(ConversationScope::Project(root, workspaces))
    }
}

/// Conversation and the workspace that contains it.
#[derive(Debug, Clone)]
pub(crate) struct FoundConversation {
    pub(crate) workspace: Workspace,
    pub(crate) summary: InstanceSummary,
    /// Title that a user gave the conversation. For files, see [`Self::read_title`].
    pub(crate) title: Option<String>,
}

impl FoundConversation {
    /// Returns `agent:key`, the form that lists print.
    pub(crate) fn name(&self) -> String {
        self.summary.id.to_string()
    }

    /// Reads the title from the files of the workspace.
    pub(crate) fn read_title(&mut self) {
        self.title = self.workspace.title(&self.summary.id);
    }
}

/// Returns all conversations in the scope, newest first, from the database or else from files.
pub(crate) async fn all(
    database: Option<&SharedDatabase>,
    state_root: &StateRoot,
    scope: &ConversationScope,
) -> Result<Vec<FoundConversation>, CliError> {
    match database {
        Some(database) => in_database(database, state_root, scope).await,
        None => in_files(state_root, scope),
    }
}

/// Returns the conversations in files, newest first.
pub(crate) fn in_files(
    state_root: &StateRoot,
    scope: &ConversationScope,
) -> Result<Vec<FoundConversation>, CliError> {
    let mut conversations = Vec::new();
    for workspace in workspaces(state_root, scope)? {
        let summaries = workspace
            .instances()
            .map_err(|error| unreadable_workspace_error(&workspace, &error))?;
        conversations.extend(summaries.into_iter().map(|summary| FoundConversation {
            workspace: workspace.clone(),
            summary,
            title: None,
        }));
    }
    conversations.sort_by_key(|conversation| std::cmp::Reverse(conversation.summary.updated_at));
    Ok(conversations)
}

/// Returns all conversations in files that have an event log, each with its workspace.
pub(crate) fn with_events(
    state_root: &StateRoot,
    scope: &ConversationScope,
) -> Result<Vec<(Workspace, InstanceId)>, CliError> {
    let mut conversations = Vec::new();
    for workspace in workspaces(state_root, scope)? {
        let ids = workspace
            .instances_with_events()
            .map_err(|error| unreadable_workspace_error(&workspace, &error))?;
        conversations.extend(ids.into_iter().map(|id| (workspace.clone(), id)));
    }
    Ok(conversations)
}

/// Returns the conversations in a database, newest first.
pub(crate) async fn in_database(
    database: &SharedDatabase,
    state_root: &StateRoot,
    scope: &ConversationScope,
) -> Result<Vec<FoundConversation>, CliError> {
    let ids = match scope {
        ConversationScope::Everywhere => database
            .workspaces()
            .await
            .map_err(|error| store::unusable_error(&error))?,
        ConversationScope::Workspace(id) => vec![id.clone()],
        ConversationScope::Project(_, workspaces) => workspaces
            .iter()
            .map(|workspace| workspace.id.clone())
            .collect(),
    };
    let mut conversations = Vec::new();
    for id in ids {
        let workspace = state_root.workspace(&id);
        let reader = database
            .look(&workspace)
            .await
            .map_err(|error| store::unusable_error(&error))?;
        let summaries = reader
            .summaries()
            .await
            .map_err(|error| store::read_error(&error))?;
        let mut titles = reader
            .titles()
            .await
            .map_err(|error| store::read_error(&error))?;
        conversations.extend(summaries.into_iter().map(|summary| FoundConversation {
            workspace: workspace.clone(),
            title: titles.remove(&summary.id),
            summary,
        }));
    }
    conversations.sort_by_key(|conversation| std::cmp::Reverse(conversation.summary.updated_at));
    Ok(conversations)
}

/// Returns the conversation `name` of a running swarm: `agent:key`, or only its agent or key if
/// unique. A conversation whose first turn has just begun is known by its full name only.
pub(crate) async fn in_running_swarm(
    remote: &RemoteSwarm,
    name: &str,
    state_root: &StateRoot,
) -> Result<InstanceId, CliError> {
    if let Some((agent, key)) = name.split_once(':')
        && remote.swarm.agents.iter().any(|known| known == agent)
    {
        return Ok(InstanceId::new(agent, key));
    }
    let scope = ConversationScope::Workspace(remote.workspace().id.clone());
    let instances = all(None, state_root, &scope).await?;
    let chosen =
        choose(&instances, name)?.ok_or_else(|| unknown_conversation_error(&scope, name))?;
    Ok(chosen.summary.id)
}

/// Selects a conversation by `agent:key`, or by an agent or key if that is unique. Returns `None`
/// without a match, and fails if several match.
pub(crate) fn choose(
    all: &[FoundConversation],
    name: &str,
) -> Result<Option<FoundConversation>, CliError> {
    let exact: Vec<&FoundConversation> = all.iter().filter(|found| found.name() == name).collect();
    let matches = if exact.is_empty() {
        all.iter()
            .filter(|found| has_agent_or_key(found, name))
            .collect()
    } else {
        exact
    };
    match matches.as_slice() {
        [] => Ok(None),
        [conversation] => Ok(Some((*conversation).clone())),
        conversations => Err(ambiguous_name_error(name, conversations)),
    }
}

/// Returns the error for a conversation name without a match in `scope`.
pub(crate) fn unknown_conversation_error(scope: &ConversationScope, name: &str) -> CliError {
    let hint = match scope {
        ConversationScope::Project(..) => {
            "List this project's conversations with `gdn conversation list`, or those of all \
                projects with `gdn conversation list --all`."
        }
        _ => {
            "List all conversations with `gdn conversation list --all`; choose another state root \
                with `--state-root`."
        }
    };
    CliError::failure(
        Code::INSTANCE_NOT_FOUND,
        format!("There is no conversation `{name}`{}.", scope_suffix(scope)),
    )
    .suggest(hint)
}

/// Describes the scope as the end of a sentence, such as " of the project in /srv/bot". Empty for
/// all workspaces.
pub(crate) fn scope_suffix(scope: &ConversationScope) -> String {
    match scope {
        ConversationScope::Everywhere => String::new(),
        ConversationScope::Workspace(id) => format!(" in the workspace `{id}`"),
        ConversationScope::Project(root, _) => format!(" of the project in {}", root.display()),
    }
}

/// Describes the scope for a sentence about a search; see [`scope_suffix`].
pub(crate) fn scope_of_search(scope: &ConversationScope) -> String {
    match scope {
        ConversationScope::Project(root, _) => format!(" for the project in {}", root.display()),
        other => scope_suffix(other),
    }
}

/// Returns true if `name` is the agent or the key of the conversation.
fn has_agent_or_key(found: &FoundConversation, name: &str) -> bool {
    found.summary.id.agent == name || found.summary.id.instance_key == name
}

/// Returns the error of a name that several conversations match.
fn ambiguous_name_error(name: &str, found: &[&FoundConversation]) -> CliError {
    let choices: Vec<String> = found
        .iter()
        .map(|found| {
            format!(
                "{} --workspace {}",
                quoted(&found.name()),
                found.workspace.id
            )
        })
        .collect();
    CliError::usage(format!("`{name}` matches several conversations."))
        .suggest(format!("Use one of:\n{}", choices.join("\n")))
}

/// Returns the workspaces of the scope. Fails if a named workspace does not exist.
pub(crate) fn workspaces(
    state_root: &StateRoot,
    scope: &ConversationScope,
) -> Result<Vec<Workspace>, CliError> {
    if let ConversationScope::Project(_, workspaces) = scope {
        return Ok(workspaces.clone());
    }
    let found_workspaces = state_root
        .workspaces()
        .map_err(|error| unreadable_root(state_root, &error))?;
    let ConversationScope::Workspace(requested_id) = scope else {
        return Ok(found_workspaces);
    };
    let ids: Vec<String> = found_workspaces
        .iter()
        .map(|workspace| workspace.id.clone())
        .collect();
    let selected: Vec<Workspace> = found_workspaces
        .into_iter()
        .filter(|workspace| workspace.id == *requested_id)
        .collect();
    if selected.is_empty() {
        let hint = if ids.is_empty() {
            "There are no workspaces yet.".to_owned()
        } else {
            format!("Use one of: {}.", ids.join(", "))
        };
        return Err(CliError::failure(
            Code::WORKSPACE_NOT_FOUND,
            format!("There is no workspace `{requested_id}`."),
        )
        .suggest(hint));
    }
    Ok(selected)
}

/// Returns the error of a state root that can't be read.
fn unreadable_root(state_root: &StateRoot, error: &std::io::Error) -> CliError {
    CliError::configuration(format!(
        "The state root `{}` can't be read: {error}.",
        state_root.0.display(),
        error = reason(error)
    ))
    .suggest("Choose another state root with `--state-root` or GOONDAN_STATE_ROOT.")
}

/// Returns the error of a workspace that can't be read.
fn unreadable_workspace_error(workspace: &Workspace, error: &std::io::Error) -> CliError {
    CliError::failure(
        Code::INTERNAL_ERROR,
        format!(
            "The workspace `{}` can't be read: {error}.",
            workspace.dir.display(),
            error = reason(error)
        ),
    )
}
