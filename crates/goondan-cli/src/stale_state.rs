//! Notices about state that a project had earlier and does not use now (rule C3). Such state is
//! reported, but never adopted or deleted automatically.

use std::path::Path;

use goondan::spec::kinds::Swarm;
use goondan::spec::{Bundle, Resource};
use goondan::{StaleState, StateRoot};

use crate::commands::quoted;
use crate::suggested_command;

/// Returns pairs of finding and remedy. An unreadable state root yields none; the commands that
/// need it report the error.
pub(crate) fn stale_state_notices(
    state_root: &StateRoot,
    bundle: &Bundle,
    swarm: &Resource<Swarm>,
) -> Vec<[String; 2]> {
    let stale_states = state_root.stale_state(bundle, swarm).unwrap_or_default();
    stale_states
        .iter()
        .map(|stale_state| {
            [
                finding(state_root, stale_state),
                remedy(stale_state, bundle.root(), swarm),
            ]
        })
        .collect()
}

/// Describes the state and its workspace.
fn finding(state_root: &StateRoot, stale_state: &StaleState) -> String {
    match stale_state {
        StaleState::Moved(workspace, owner) => format!(
            "The state of this project from its former path {} is in the workspace `{}`.",
            owner.path.display(),
            workspace.id
        ),
        StaleState::Renamed(workspace) => format!(
            "The state of this project under its former name is in the workspace `{}`.",
            workspace.id
        ),
        StaleState::Shared(workspace) => {
            // The last user of the workspace is only a hint.
            let last = state_root
                .workspace(&workspace.id)
                .last_generation()
                .ok()
                .flatten();
            let last =
                last.map(|last| format!(" The project in {} used it last.", last.root.display()));
            format!(
                "The workspace `{}` is from an earlier version, where all projects with a swarm of \
                that name shared it.{}",
                workspace.id,
                last.unwrap_or_default()
            )
        }
    }
}

/// Returns the command that adopts the state for this project.
fn remedy(stale_state: &StaleState, root: &Path, swarm: &Resource<Swarm>) -> String {
    let root = quoted(&root.to_string_lossy());
    format!(
        "To use that state here, run: gdn conversation adopt {} --project {root} --swarm {}{}",
        stale_state.workspace().id,
        swarm.id.name,
        suggested_command::state_root()
    )
}
