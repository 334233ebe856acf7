//! Conversations on disk, found by the names that people type.

use std::path::PathBuf;

use clap::Args;
use goondan::database::Database;
use goondan::ids::InstanceId;
use goondan::spec::Code;
use goondan::workspace::InstanceSummary;
use goondan::{StateRoot, Workspace};

use crate::commands::quoted;
use crate::exit::CliError;
use crate::output::Output;
use crate::place;
use crate::project;
use crate::store;
use goondan::spec::reason;

/// Where conversations are looked for; the same words in every command that looks for some.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScopeArgs {
    /// Look at this project [default: the project of this folder, or all projects outside of one]
    #[arg(short, long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Look only in this workspace
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    workspace: Option<String>,
}

/// Where conversations are looked for.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// In all workspaces.
    Everywhere,
    /// In that one.
    Workspace(String),
    /// In those of the project in that folder; they need not exist yet.
    Project(PathBuf, Vec<Workspace>),
}

impl ScopeArgs {
    /// What they amount to, where `all` asks for everything.
    pub(crate) fn scope(
        &self,
        all: bool,
        state_root: &StateRoot,
        output: &Output,
    ) -> Result<Scope, CliError> {
        let root = match (&self.workspace, &self.project) {
            (Some(id), _) => return Ok(Scope::Workspace(id.clone())),
            (None, Some(path)) => Some(project::load(path)?.root),
            (None, None) if all => None,
            (None, None) => place::around(output)?
                .map(std::path::absolute)
                .transpose()?,
        };
        let Some(root) = root else {
            return Ok(Scope::Everywhere);
        };
        let workspaces = state_root
            .workspaces_of(&root)
            .map_err(|error| unreadable_root(state_root, &error))?;
        Ok(Scope::Project(root, workspaces))
    }
}

/// A conversation and the workspace that holds it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Where it lies.
    pub(crate) workspace: Workspace,
    /// What is known of it.
    pub(crate) summary: InstanceSummary,
}

impl Found {
    /// `agent:key`, as lists print it.
    pub(crate) fn name(&self) -> String {
        self.summary.id.to_string()
    }
}

/// All conversations there, newest first: those in the database, or those in files where there is none.
pub(crate) async fn all(
    database: Option<&Database>,
    state_root: &StateRoot,
    scope: &Scope,
) -> Result<Vec<Found>, CliError> {
    match database {
        Some(database) => in_database(database, state_root, scope).await,
        None => in_files(state_root, scope),
    }
}

/// Those in files.
pub(crate) fn in_files(state_root: &StateRoot, scope: &Scope) -> Result<Vec<Found>, CliError> {
    let mut found = Vec::new();
    for place in workspaces(state_root, scope)? {
        let summaries = place
            .instances()
            .map_err(|error| unreadable(&place, &error))?;
        found.extend(summaries.into_iter().map(|summary| Found {
            workspace: place.clone(),
            summary,
        }));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.summary.updated_at));
    Ok(found)
}

/// All in files that have a log, with where they lie.
pub(crate) fn with_events(
    state_root: &StateRoot,
    scope: &Scope,
) -> Result<Vec<(Workspace, InstanceId)>, CliError> {
    let mut found = Vec::new();
    for place in workspaces(state_root, scope)? {
        let ids = place
            .instances_with_events()
            .map_err(|error| unreadable(&place, &error))?;
        found.extend(ids.into_iter().map(|id| (place.clone(), id)));
    }
    Ok(found)
}

/// Those in a database.
pub(crate) async fn in_database(
    database: &Database,
    state_root: &StateRoot,
    scope: &Scope,
) -> Result<Vec<Found>, CliError> {
    let ids = match scope {
        Scope::Everywhere => database
            .workspaces()
            .await
            .map_err(|error| store::unusable(&error))?,
        Scope::Workspace(id) => vec![id.clone()],
        Scope::Project(_, workspaces) => workspaces
            .iter()
            .map(|workspace| workspace.id.clone())
            .collect(),
    };
    let mut found = Vec::new();
    for id in ids {
        let workspace = state_root.workspace(&id);
        let looking = database
            .look(&workspace)
            .await
            .map_err(|error| store::unusable(&error))?;
        let summaries = looking
            .summaries()
            .await
            .map_err(|error| store::failed(&error))?;
        found.extend(summaries.into_iter().map(|summary| Found {
            workspace: workspace.clone(),
            summary,
        }));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.summary.updated_at));
    Ok(found)
}

/// The one of `all` that `name` means: `agent:key`, or an agent or key that is unique. `None` where nothing has that name.
pub(crate) fn choose(all: &[Found], name: &str) -> Result<Option<Found>, CliError> {
    let exact: Vec<&Found> = all.iter().filter(|found| found.name() == name).collect();
    let matches = match exact.is_empty() {
        false => exact,
        true => all.iter().filter(|found| goes_by(found, name)).collect(),
    };
    match matches.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        several => Err(ambiguous(name, several)),
    }
}

/// The error of a name that nothing has.
pub(crate) fn unknown(scope: &Scope, name: &str) -> CliError {
    let hint = match scope {
        Scope::Project(..) => {
            "`gdn instance list` shows which this project has, `gdn instance list --all` those of all projects."
        }
        _ => {
            "`gdn instance list --all` shows which there are; `--state-root` chooses where to look."
        }
    };
    CliError::failure(
        Code::INSTANCE_NOT_FOUND,
        format!("There is no instance `{name}`{}.", of(scope)),
    )
    .suggest(hint)
}

/// Whose conversations they are, for the end of a sentence.
pub(crate) fn of(scope: &Scope) -> String {
    match scope {
        Scope::Everywhere => String::new(),
        Scope::Workspace(id) => format!(" in the workspace `{id}`"),
        Scope::Project(root, _) => format!(" of the project in {}", root.display()),
    }
}

/// As [`of`], where something is looked for.
pub(crate) fn whose(scope: &Scope) -> String {
    match scope {
        Scope::Project(root, _) => format!(" for the project in {}", root.display()),
        other => of(other),
    }
}

fn goes_by(found: &Found, name: &str) -> bool {
    found.summary.id.agent == name || found.summary.id.instance_key == name
}

fn ambiguous(name: &str, found: &[&Found]) -> CliError {
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
    CliError::usage(format!("`{name}` matches several instances."))
        .suggest(format!("Say which one:\n{}", choices.join("\n")))
}

/// The workspaces to look into.
pub(crate) fn workspaces(
    state_root: &StateRoot,
    scope: &Scope,
) -> Result<Vec<Workspace>, CliError> {
    if let Scope::Project(_, workspaces) = scope {
        return Ok(workspaces.clone());
    }
    let all = state_root
        .workspaces()
        .map_err(|error| unreadable_root(state_root, &error))?;
    let Scope::Workspace(wanted) = scope else {
        return Ok(all);
    };
    let ids: Vec<String> = all.iter().map(|workspace| workspace.id.clone()).collect();
    let chosen: Vec<Workspace> = all
        .into_iter()
        .filter(|workspace| workspace.id == *wanted)
        .collect();
    if chosen.is_empty() {
        let known = if ids.is_empty() {
            "There is none yet.".to_owned()
        } else {
            format!("There are: {}.", ids.join(", "))
        };
        return Err(CliError::failure(
            Code::WORKSPACE_NOT_FOUND,
            format!("There is no workspace `{wanted}`."),
        )
        .suggest(known));
    }
    Ok(chosen)
}

fn unreadable_root(state_root: &StateRoot, error: &std::io::Error) -> CliError {
    CliError::configuration(format!(
        "The state root `{}` can't be read: {error}.",
        state_root.0.display(),
        error = reason(error)
    ))
    .suggest("Choose another one with `--state-root` or GOONDAN_STATE_ROOT.")
}

fn unreadable(workspace: &Workspace, error: &std::io::Error) -> CliError {
    CliError::failure(
        Code::INTERNAL_ERROR,
        format!(
            "The workspace `{}` can't be read: {error}.",
            workspace.dir.display(),
            error = reason(error)
        ),
    )
}
