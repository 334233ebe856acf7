//! What the permissions of agents allow without a question.

use std::collections::BTreeSet;

use goondan_spec::kinds::{Action, Agent, Entry, ExportSpec, Permission, Permissions, Workdir};
use goondan_spec::{Bundle, Resource, pattern};

use super::{Leeway, Want};
use crate::project;

/// What agents may do without being asked: run programs, use the network, change files that matter.
pub(super) fn powers(bundle: &Bundle, leeway: Leeway) -> Vec<Want> {
    let place = place(bundle, leeway);
    bundle.agents().values().flat_map(|agent| of_agent(bundle, agent, place, leeway)).collect()
}

/// Where agents change files, apart from folders of their own.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the folder that whoever runs the project has named.
    Named,
    /// In the project: those that work there, or all of them, where one that works there can send others there.
    Project { all: bool },
}

fn place(bundle: &Bundle, leeway: Leeway) -> Place {
    let sends_others = |agent: &Resource<Agent>| offered(bundle, agent).any(|offer| offer.is_spawn());
    let mut there = bundle.agents().values().filter(|agent| agent.spec.workdir != Workdir::Instance);
    match leeway.workdir {
        true => Place::Named,
        false => Place::Project { all: there.any(|agent| sends_others(agent)) },
    }
}

fn of_agent(bundle: &Bundle, agent: &Resource<Agent>, place: Place, leeway: Leeway) -> Vec<Want> {
    let who = &agent.id;
    let (is_there, place) = match place {
        Place::Named => (true, "the folder of `--workdir`"),
        Place::Project { all } => (all || agent.spec.workdir != Workdir::Instance, "the project"),
    };
    let run = (Permission::Execute, format!("lets {who} run programs without a question"));
    let reach = (Permission::Network, format!("lets {who} use the network without a question"));
    let change =
        is_there.then(|| (Permission::Write, format!("lets {who} change files in {place} without a question")));
    let mut wants = Vec::new();
    for (power, what) in [run, reach].into_iter().chain(change) {
        let names: Vec<String> = offered(bundle, agent)
            .filter(|offer| offer.has(power) && offer.may(agent.spec.permissions.as_ref(), power, leeway))
            .map(|offer| offer.name)
            .collect();
        if !names.is_empty() {
            wants.push(Want::new(format!("{what}: {}", names.join(", ")), agent.origin.as_ref()));
        }
    }
    wants
}

/// An export that an agent is offered.
struct Offer<'b> {
    /// `resource__export`.
    name: String,
    /// What the YAML makes of it.
    export: &'b ExportSpec,
    /// What it is where it is built in: a Tool may state other permissions, and that changes nothing of what it does.
    own: Option<&'static ExportSpec>,
}

fn offered<'b>(bundle: &'b Bundle, agent: &'b Resource<Agent>) -> impl Iterator<Item = Offer<'b>> {
    agent.spec.tools.iter().flat_map(|used| {
        let tool = &bundle.tools()[&used.tool].spec;
        let is_chosen = |export: &&ExportSpec| used.exports.as_ref().is_none_or(|names| names.contains(&export.name));
        tool.exports.iter().filter(is_chosen).map(move |export| {
            let own = match &tool.entry {
                Entry::Builtin(name) => project::base_export(name, &export.name),
                Entry::Library(_) | Entry::Executable(_) => None,
            };
            Offer { name: format!("{}__{}", used.tool.name, export.name), export, own }
        })
    })
}

impl Offer<'_> {
    /// Whether it makes other instances, which may work in the folder of who makes them.
    fn is_spawn(&self) -> bool {
        self.own.is_some_and(|own| own.name == "spawn")
    }

    fn has(&self, power: Permission) -> bool {
        let mut known = [Some(self.export), self.own].into_iter().flatten();
        known.any(|export| export.permissions.contains(&power) || export.optional_permissions.contains(&power))
    }

    /// Whether any call may run without a question. What the export makes use of, nobody is asked for: it is asked about by
    /// itself.
    fn may(&self, permissions: Option<&Permissions>, power: Permission, leeway: Leeway) -> bool {
        let needs = match self.export.optional_permissions.contains(&power) {
            true => &BTreeSet::from([power]),
            false => &self.export.permissions,
        };
        let allows = |action: &Action| *action == Action::Allow || (*action == Action::Ask && leeway.yes);
        possible(permissions, &self.name, needs).iter().any(allows)
    }
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
