//! What an edit changes: the difference of two [`Snapshot`]s.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::snapshot::{AgentPart, Fingerprint, Snapshot};

/// What a reload changes (rules R3 to R5). Lists are sorted by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadPlan {
    /// Resources (`Kind/name`) that are new.
    pub added: Vec<String>,
    /// Resources that differ, by themselves or in a file or variable that they name.
    pub changed: Vec<String>,
    /// Resources that are gone.
    pub removed: Vec<String>,
    /// Agents of the swarm that see something of it, sorted by name.
    pub agents: Vec<AgentChange>,
    /// The swarm's limits (`policy`) differ: they hold from the next turn on.
    pub limits: bool,
}

/// What becomes of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentChange {
    /// The agent.
    pub name: String,
    /// How it is concerned.
    #[serde(flatten)]
    pub effect: AgentEffect,
}

/// How an agent is concerned by a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "effect"
)]
pub enum AgentEffect {
    /// It can be sent to from now on.
    Added,
    /// It differs; running steps and turns go on as they began.
    Changed {
        /// Seen by the next step, also of a turn that runs.
        next_step: Vec<AgentPart>,
        /// Seen by the next turn.
        next_turn: Vec<AgentPart>,
    },
    /// It takes nothing more; turns that run may finish (rule R4).
    Draining,
}

impl ReloadPlan {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == ReloadPlan::default()
    }
}

/// What changes from `old` to `new`.
pub fn diff(old: &Snapshot, new: &Snapshot) -> ReloadPlan {
    let mut plan = ReloadPlan {
        limits: old.limits != new.limits,
        ..ReloadPlan::default()
    };
    let none = BTreeMap::new();
    let kinds: BTreeSet<Kind> = old
        .resources
        .keys()
        .chain(new.resources.keys())
        .copied()
        .collect();
    for kind in kinds {
        let (before, after) = (
            old.resources.get(&kind).unwrap_or(&none),
            new.resources.get(&kind).unwrap_or(&none),
        );
        let shown = |name: &String| format!("{kind}/{name}");
        plan.added.extend(
            after
                .keys()
                .filter(|name| !before.contains_key(*name))
                .map(shown),
        );
        plan.removed.extend(
            before
                .keys()
                .filter(|name| !after.contains_key(*name))
                .map(shown),
        );
        let differs = |(name, now): &(&String, &Fingerprint)| {
            before.get(*name).is_some_and(|then| then != *now)
        };
        plan.changed
            .extend(after.iter().filter(differs).map(|(name, _)| shown(name)));
    }
    let names: BTreeSet<&String> = old.agents.keys().chain(new.agents.keys()).collect();
    plan.agents = names
        .into_iter()
        .filter_map(|name| agent_change(name, old, new))
        .collect();
    plan
}

fn agent_change(name: &str, old: &Snapshot, new: &Snapshot) -> Option<AgentChange> {
    let effect = match (old.agents.get(name), new.agents.get(name)) {
        (None, None) => return None,
        (None, Some(_)) => AgentEffect::Added,
        (Some(_), None) => AgentEffect::Draining,
        (Some(before), Some(after)) => {
            let differs = |part: &AgentPart| before.get(part) != after.get(part);
            let (next_step, next_turn): (Vec<_>, Vec<_>) = after
                .keys()
                .copied()
                .filter(differs)
                .partition(|part| part.is_seen_by_next_step());
            if next_step.is_empty() && next_turn.is_empty() {
                return None;
            }
            AgentEffect::Changed {
                next_step,
                next_turn,
            }
        }
    };
    Some(AgentChange {
        name: name.to_owned(),
        effect,
    })
}
