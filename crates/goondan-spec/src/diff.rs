//! Computes the effects of an edit: the difference of two [`BundleSnapshot`]s.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::snapshot::{AgentPart, BundleSnapshot, Fingerprint};

/// Effects of a reload (rules R3 to R5). Lists are sorted by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadPlan {
    /// New resources, as `Kind/name`.
    pub added: Vec<String>,
    /// Changed resources, including changes in their files and variables.
    pub changed: Vec<String>,
    /// Removed resources.
    pub removed: Vec<String>,
    /// Affected agents of the swarm, sorted by name.
    pub agents: Vec<AgentChange>,
    /// Set if the swarm's limits (`policy`) differ. New limits apply from the next turn.
    pub limits: bool,
}

/// Effect of a reload on one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentChange {
    /// Agent name.
    pub name: String,
    /// Kind of effect.
    #[serde(flatten)]
    pub effect: AgentEffect,
}

/// Effect of a reload on an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "effect"
)]
pub enum AgentEffect {
    /// The agent is new and accepts inputs.
    Added,
    /// The agent differs. Running steps and turns continue with the old definition.
    Changed {
        /// Parts that apply from the next step, including steps of a running turn.
        next_step: Vec<AgentPart>,
        /// Parts that apply from the next turn.
        next_turn: Vec<AgentPart>,
    },
    /// The agent is removed. It accepts no inputs, but running turns may finish (rule R4).
    Draining,
}

impl ReloadPlan {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == ReloadPlan::default()
    }
}

/// Computes the changes from `old` to `new`.
pub fn diff(old: &BundleSnapshot, new: &BundleSnapshot) -> ReloadPlan {
    let mut plan = ReloadPlan {
        limits: old.limits != new.limits,
        ..ReloadPlan::default()
    };
    let no_hashes = BTreeMap::new();
    let kinds: BTreeSet<Kind> = old
        .resources
        .keys()
        .chain(new.resources.keys())
        .copied()
        .collect();
    for kind in kinds {
        let (before, after) = (
            old.resources.get(&kind).unwrap_or(&no_hashes),
            new.resources.get(&kind).unwrap_or(&no_hashes),
        );
        let shown_id = |name: &String| format!("{kind}/{name}");
        plan.added.extend(
            after
                .keys()
                .filter(|name| !before.contains_key(*name))
                .map(shown_id),
        );
        plan.removed.extend(
            before
                .keys()
                .filter(|name| !after.contains_key(*name))
                .map(shown_id),
        );
        let differs = |(name, now): &(&String, &Fingerprint)| {
            before.get(*name).is_some_and(|then| then != *now)
        };
        plan.changed
            .extend(after.iter().filter(differs).map(|(name, _)| shown_id(name)));
    }
    let names: BTreeSet<&String> = old.agents.keys().chain(new.agents.keys()).collect();
    plan.agents = names
        .into_iter()
        .filter_map(|name| agent_change(name, old, new))
        .collect();
    plan
}

/// Returns how the agent differs between two snapshots; `None` if it does not differ.
fn agent_change(name: &str, old: &BundleSnapshot, new: &BundleSnapshot) -> Option<AgentChange> {
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
