//! What the permissions of agents allow without a question.

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_engine::policy;
use goondan_spec::bundle::Origin;
use goondan_spec::kinds::{
    Action, Agent, Entry, ExportSpec, InstructionFile, PATCHED, Permission, PermissionRule,
    RuleSandbox, Workdir,
};
use goondan_spec::{Bundle, Resource, pattern};

use super::Want;
use crate::project;

/// What agents may do without being asked: run programs outside of a sandbox, use the network, work outside of the project.
pub(super) fn powers(bundle: &Bundle) -> Vec<Want> {
    bundle
        .agents()
        .values()
        .flat_map(|agent| of_agent(bundle, agent))
        .collect()
}

fn of_agent(bundle: &Bundle, agent: &Resource<Agent>) -> Vec<Want> {
    let who = &agent.id;
    let run = (
        Permission::Execute,
        format!("lets {who} run programs without a question"),
    );
    let reach = (
        Permission::Network,
        format!("lets {who} use the network without a question"),
    );
    let mut wants: Vec<Want> = outside(agent).into_iter().collect();
    for (power, what) in [run, reach] {
        let used: Vec<Offer<'_>> = offered(bundle, agent)
            .filter(|offer| offer.has(power) && offer.may(&agent.spec, power))
            .collect();
        // What a package makes a tool into is the package's to answer for: with other content it may be another one.
        let (of_packages, own): (Vec<&Offer<'_>>, Vec<&Offer<'_>>) =
            used.iter().partition(|offer| {
                offer
                    .origin
                    .is_some_and(|(file, _)| bundle.package_of(file).is_some())
            });
        let names: Vec<&str> = own.iter().map(|offer| offer.name.as_str()).collect();
        if !names.is_empty() {
            wants.push(Want::new(
                format!("{what}: {}", names.join(", ")),
                agent.origin.as_ref(),
            ));
        }
        wants.extend(
            of_packages
                .iter()
                .map(|offer| Want::new(format!("{what}: {}", offer.name), offer.origin)),
        );
    }
    wants
}

/// The folder outside of the project that an agent works in.
fn outside(agent: &Resource<Agent>) -> Option<Want> {
    let Workdir::Repository(folder) = &agent.spec.workdir else {
        return None;
    };
    let what = format!(
        "lets {} work in {}, which is more than the folder of the project",
        agent.id,
        folder.display()
    );
    Some(Want::new(what, agent.origin.as_ref()))
}

/// The files outside of the project that agents do what they say. Whoever may write them may be somebody else than who wrote the
/// project, so trust in the project is no trust in them.
pub(super) fn obeyed(bundle: &Bundle) -> Vec<Want> {
    let of_agent = |agent: &Resource<Agent>| -> Vec<Want> {
        let files = agent
            .spec
            .instructions
            .iter()
            .flat_map(|found| &found.files);
        let outside = files.filter_map(|file| Some((file, file.outside.as_ref()?)));
        let want = |(file, folder): (&InstructionFile, &PathBuf)| {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            let what = format!(
                "has {} do what {} says",
                agent.id,
                folder.join(name).display()
            );
            Want {
                folder: Some(folder.clone()),
                ..Want::new(what, agent.origin.as_ref())
            }
        };
        outside.map(want).collect()
    };
    bundle
        .agents()
        .values()
        .flat_map(|agent| of_agent(agent))
        .collect()
}

/// An export that an agent is offered.
struct Offer<'b> {
    /// `resource__export`.
    name: String,
    /// What the YAML makes of it.
    export: &'b ExportSpec,
    /// What it is where it is built in: a Tool may state other permissions, and that changes nothing of what it does.
    own: Option<&'static ExportSpec>,
    /// Where the Tool is written; `None` for one that is built in.
    origin: Option<&'b Origin>,
}

fn offered<'b>(bundle: &'b Bundle, agent: &'b Resource<Agent>) -> impl Iterator<Item = Offer<'b>> {
    agent.spec.tools.iter().flat_map(|used| {
        let resource = &bundle.tools()[&used.tool];
        let (tool, origin) = (&resource.spec, resource.origin.as_ref());
        let is_chosen = |export: &&ExportSpec| {
            used.exports
                .as_ref()
                .is_none_or(|names| names.contains(&export.name))
        };
        tool.exports.iter().filter(is_chosen).map(move |export| {
            let own = match &tool.entry {
                Entry::Builtin(name) => project::base_export(name, &export.name),
                Entry::Library(_)
                | Entry::Executable(_)
                | Entry::Module(_)
                | Entry::Mcp(_)
                | Entry::A2a(_) => None,
            };
            Offer {
                name: format!("{}__{}", used.tool.name, export.name),
                export,
                own,
                origin,
            }
        })
    })
}

impl Offer<'_> {
    fn has(&self, power: Permission) -> bool {
        let mut known = [Some(self.export), self.own].into_iter().flatten();
        known.any(|export| {
            export.permissions.contains(&power) || export.optional_permissions.contains(&power)
        })
    }

    /// Whether any call may run without a question. What the export makes use of, nobody is asked for: it is asked about by
    /// itself.
    fn may(&self, agent: &Agent, power: Permission) -> bool {
        let is_needed = self.export.permissions.contains(&power);
        let needs = match !is_needed && self.export.optional_permissions.contains(&power) {
            true => &BTreeSet::from([power]),
            false => &self.export.permissions,
        };
        self.possible(agent, needs).contains(&Action::Allow)
    }

    /// What a policy may say about calls of the export, whatever their arguments are. A rule about arguments may match or
    /// not.
    fn possible(&self, agent: &Agent, needs: &BTreeSet<Permission>) -> Vec<Action> {
        let Some(permissions) = &agent.permissions else {
            let is_asked =
                needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
            return vec![if is_asked { Action::Ask } else { Action::Allow }];
        };
        let mut possible = vec![permissions.default];
        for rule in &permissions.rules {
            let is_about = rule
                .tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, &self.name))
                && rule
                    .permission
                    .is_none_or(|permission| needs.contains(&permission));
            if !is_about || !self.has_arguments(rule) || self.is_contained(agent, rule) {
                continue;
            }
            if rule.args.is_empty() {
                possible.clear();
            }
            possible.push(rule.action);
        }
        possible
    }

    /// Whether the export has the arguments that a rule names. Of one that says nothing of them, that is not known. Those that
    /// a Tool leaves out are there all the same.
    fn has_arguments(&self, rule: &PermissionRule) -> bool {
        let properties =
            |export: &'_ ExportSpec| export.parameters.get("properties")?.as_object().cloned();
        let Some(mut known) = properties(self.export) else {
            return true;
        };
        known.extend(self.own.and_then(properties).into_iter().flatten());
        rule.args
            .keys()
            .all(|name| name == PATCHED || known.contains_key(name))
    }

    /// Whether what a rule allows runs in a sandbox that the project has not opened: commands that match a pattern, in a
    /// folder of the conversation's own. In the project they could write what its user's own programs obey.
    fn is_contained(&self, agent: &Agent, rule: &PermissionRule) -> bool {
        if policy::opens_network(agent.permissions.as_ref(), &self.name) {
            return false;
        }
        let commands = self
            .own
            .map(ExportSpec::marked_arguments)
            .unwrap_or_default()
            .commands;
        // A rule about a redirection opens the place that it names.
        let is_apart_there =
            |pattern: &String| pattern.contains(['*', '?']) && !pattern.starts_with(['>', '<']);
        let is_pattern = |name: &String| rule.args.get(name).is_some_and(is_apart_there);
        let is_apart = agent.workdir == Workdir::Instance && rule.sandbox == RuleSandbox::Usual;
        is_apart && goondan_tools::has_sandbox() && commands.iter().any(is_pattern)
    }
}
