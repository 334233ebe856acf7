//! State that a project may have had before and does not use now: it is told, never silently taken or dropped (rule C3).

use std::path::Path;

use goondan::spec::kinds::Swarm;
use goondan::spec::{Bundle, Resource};
use goondan::{Elsewhere, StateRoot};

use crate::commands::quoted;
use crate::retyped;

/// What there is, in words: what was found, and what to do about it. It is no error where the state root can't be read: who
/// needs it says so.
pub(crate) fn words(
    state_root: &StateRoot,
    bundle: &Bundle,
    swarm: &Resource<Swarm>,
) -> Vec<[String; 2]> {
    let found = state_root.elsewhere(bundle, swarm).unwrap_or_default();
    found
        .iter()
        .map(|elsewhere| {
            [
                what(state_root, elsewhere),
                remedy(elsewhere, bundle.root(), swarm),
            ]
        })
        .collect()
}

fn what(state_root: &StateRoot, elsewhere: &Elsewhere) -> String {
    match elsewhere {
        Elsewhere::Moved(workspace, owner) => format!(
            "The state of this project when it stood at {} is in the workspace `{}`.",
            owner.path.display(),
            workspace.id
        ),
        Elsewhere::Renamed(workspace) => format!(
            "The state of this project under the names that it had before is in the workspace `{}`.",
            workspace.id
        ),
        Elsewhere::Shared(workspace) => {
            // Whoever ran last is a hint for people, no more.
            let last = state_root
                .workspace(&workspace.id)
                .last_generation()
                .ok()
                .flatten();
            let last =
                last.map(|last| format!(" The project in {} used it last.", last.root.display()));
            format!(
                "The workspace `{}` is from an earlier version, where all projects with a swarm of that name shared it.{}",
                workspace.id,
                last.unwrap_or_default()
            )
        }
    }
}

fn remedy(elsewhere: &Elsewhere, root: &Path, swarm: &Resource<Swarm>) -> String {
    let root = quoted(&root.to_string_lossy());
    format!(
        "To go on with it here: gdn instance adopt {} --project {root} --swarm {}{}",
        elsewhere.workspace().id,
        swarm.id.name,
        retyped::state_root()
    )
}
