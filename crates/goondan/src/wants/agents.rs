//! What the permissions of agents allow without a question.

use std::collections::BTreeSet;

use goondan_spec::kinds::{Action, Agent, Entry, ExportSpec, Permission, Permissions, Tool, Workdir};
use goondan_spec::{Bundle, Resource, pattern};

use super::{Asks, Want};
use crate::project;

/// What agents may do without being asked: run programs, use the network, change the project.
pub(super) fn powers(bundle: &Bundle, asks: Asks) -> Vec<Want> {
    bundle.agents().values().flat_map(|agent| of_agent(bundle, agent, asks)).collect()
}

fn of_agent(bundle: &Bundle, agent: &Resource<Agent>, asks: Asks) -> Vec<Want> {
    let who = &agent.id;
    let told = [
        (Permission::Execute, format!("lets {who} run programs without a question")),
        (Permission::Network, format!("lets {who} use the network without a question")),
        (Permission::Write, format!("lets {who} change files in the project")),
    ];
    let matters = |power: Permission| power != Permission::Write || agent.spec.workdir != Workdir::Instance;
    let mut wants = Vec::new();
    for (power, what) in told.into_iter().filter(|(power, _)| matters(*power)) {
        let names: Vec<String> = offered(bundle, agent)
            .filter(|(_, name, export, own)| has(power, export, *own) && may(agent, name, export, power, asks))
            .map(|(_, name, ..)| name)
            .collect();
        if !names.is_empty() {
            wants.push(Want::new(format!("{what}: {}", names.join(", ")), agent.origin.as_ref()));
        }
    }
    wants
}

/// Every export that the agent is offered: its tool, its name, what the YAML makes of it, and what it is where it is built in.
fn offered<'b>(
    bundle: &'b Bundle,
    agent: &'b Resource<Agent>,
) -> impl Iterator<Item = (&'b Resource<Tool>, String, &'b ExportSpec, Option<&'static ExportSpec>)> {
    agent.spec.tools.iter().flat_map(|used| {
        let tool: &Resource<Tool> = &bundle.tools()[&used.tool];
        let is_chosen = |export: &&ExportSpec| used.exports.as_ref().is_none_or(|names| names.contains(&export.name));
        tool.spec.exports.iter().filter(is_chosen).map(move |export| {
            (tool, format!("{}__{}", used.tool.name, export.name), export, built_in(&tool.spec.entry, &export.name))
        })
    })
}

/// The export as this program knows it: a Tool may state other permissions, and that changes nothing of what it does.
fn built_in(entry: &Entry, export: &str) -> Option<&'static ExportSpec> {
    let Entry::Builtin(name) = entry else { return None };
    project::base_export(name, export)
}

fn has(power: Permission, export: &ExportSpec, own: Option<&ExportSpec>) -> bool {
    let uses =
        |export: &ExportSpec| export.permissions.contains(&power) || export.optional_permissions.contains(&power);
    uses(export) || own.is_some_and(uses)
}

/// Whether any call of the export may run without a question. What the export makes use of, nobody is asked for: it is asked
/// about by itself.
fn may(agent: &Resource<Agent>, name: &str, export: &ExportSpec, power: Permission, asks: Asks) -> bool {
    let permissions = agent.spec.permissions.as_ref();
    let needs = match export.optional_permissions.contains(&power) {
        true => &BTreeSet::from([power]),
        false => &export.permissions,
    };
    let allows = |action: &Action| *action == Action::Allow || (*action == Action::Ask && asks == Asks::Agreed);
    possible(permissions, name, needs).iter().any(allows)
}

/// What a policy may say about calls of an export, whatever their arguments are. A rule about arguments may match or not.
fn possible(permissions: Option<&Permissions>, name: &str, needs: &BTreeSet<Permission>) -> Vec<Action> {
    let Some(permissions) = permissions else {
        let is_asked = needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
        return vec![if is_asked { Action::Ask } else { Action::Allow }];
    };
    let mut possible = vec![permissions.default];
    for rule in &permissions.rules {
        let is_about = rule.tool.as_ref().is_none_or(|tool| pattern::matches(tool, name))
            && rule.permission.is_none_or(|permission| needs.contains(&permission));
        if !is_about {
            continue;
        }
        if rule.args.is_empty() {
            possible.clear();
        }
        possible.push(rule.action);
    }
    possible
}
