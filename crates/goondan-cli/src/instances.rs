//! Conversations on disk, found by the names that people type.

use goondan::workspace::InstanceSummary;
use goondan::{StateRoot, Workspace};

use crate::exit::CliError;

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

/// All conversations below `state_root`, or those of one workspace; newest first.
pub(crate) fn all(state_root: &StateRoot, workspace: Option<&str>) -> Result<Vec<Found>, CliError> {
    let mut found = Vec::new();
    for place in workspaces(state_root, workspace)? {
        let summaries = place.instances().map_err(|error| unreadable(&place, &error))?;
        found.extend(summaries.into_iter().map(|summary| Found { workspace: place.clone(), summary }));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.summary.updated_at));
    Ok(found)
}

/// The one conversation that `name` means: `agent:key`, or an agent or key that is unique. `None` where nothing has that name.
pub(crate) fn named(state_root: &StateRoot, workspace: Option<&str>, name: &str) -> Result<Option<Found>, CliError> {
    let all = all(state_root, workspace)?;
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
pub(crate) fn unknown(name: &str) -> CliError {
    CliError::failure("INSTANCE_NOT_FOUND", format!("There is no instance `{name}`."))
        .suggest("`gdn instance list` shows which there are; `--state-root` chooses where to look.")
}

fn goes_by(found: &Found, name: &str) -> bool {
    found.summary.id.agent == name || found.summary.id.instance_key == name
}

fn ambiguous(name: &str, found: &[&Found]) -> CliError {
    let choices: Vec<String> =
        found.iter().map(|found| format!("{} --workspace {}", found.name(), found.workspace.id)).collect();
    CliError::usage(format!("`{name}` means several instances."))
        .suggest(format!("Say which one:\n{}", choices.join("\n")))
}

fn workspaces(state_root: &StateRoot, wanted: Option<&str>) -> Result<Vec<Workspace>, CliError> {
    let all = state_root.workspaces().map_err(|error| {
        CliError::configuration(format!("The state root `{}` can't be read: {error}.", state_root.0.display()))
            .suggest("Choose another one with `--state-root` or GOONDAN_STATE_ROOT.")
    })?;
    let Some(wanted) = wanted else { return Ok(all) };
    let ids: Vec<String> = all.iter().map(|workspace| workspace.id.clone()).collect();
    let chosen: Vec<Workspace> = all.into_iter().filter(|workspace| workspace.id == wanted).collect();
    if chosen.is_empty() {
        let known =
            if ids.is_empty() { "There is none yet.".to_owned() } else { format!("There are: {}.", ids.join(", ")) };
        return Err(
            CliError::failure("WORKSPACE_NOT_FOUND", format!("There is no workspace `{wanted}`.")).suggest(known)
        );
    }
    Ok(chosen)
}

fn unreadable(workspace: &Workspace, error: &std::io::Error) -> CliError {
    CliError::failure("INTERNAL_ERROR", format!("The workspace `{}` can't be read: {error}.", workspace.dir.display()))
}
