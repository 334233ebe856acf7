//! Capabilities that the permissions of agents grant without approval.

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_engine::policy;
use goondan_spec::bundle::ResourceOrigin;
use goondan_spec::kinds::{
    Agent, AgentWorkdir, ExportSpec, InstructionFile, PATCHED_PATH_ARGUMENT, Permission,
    PermissionAction, PermissionRule, RuleSandbox, ToolEntry,
};
use goondan_spec::{Bundle, Resource, pattern};

use super::RequestedCapability;
use crate::start::project;

/// Returns the capabilities that agents have without approval: programs outside of a sandbox,
/// network access, and a working directory outside of the project.
pub(super) fn granted_capabilities(bundle: &Bundle) -> Vec<RequestedCapability> {
    bundle
        .agents()
        .values()
        .flat_map(|agent| of_agent(bundle, agent))
        .collect()
}

fn of_agent(bundle: &Bundle, agent: &Resource<Agent>) -> Vec<RequestedCapability> {
    let who = &agent.id;
    let run = (
        Permission::Execute,
        format!("lets {who} run programs without approval"),
    );
    let reach = (
        Permission::Network,
        format!("lets {who} use the network without approval"),
    );
    let mut wants: Vec<RequestedCapability> = outside(agent).into_iter().collect();
    for (power, what) in [run, reach] {
        let used: Vec<OfferedExport<'_>> = offered(bundle, agent)
            .filter(|offer| offer.has(power) && offer.may_run_unapproved(&agent.spec, power))
            .collect();
        // Tools that a package defines are attributed to the package, because their meaning can
        // change with its content.
        let (of_packages, own): (Vec<&OfferedExport<'_>>, Vec<&OfferedExport<'_>>) =
            used.iter().partition(|offer| {
                offer
                    .origin
                    .is_some_and(|(file, _)| bundle.package_of(file).is_some())
            });
        let names: Vec<&str> = own.iter().map(|offer| offer.name.as_str()).collect();
        if !names.is_empty() {
            wants.push(RequestedCapability::new(
                format!("{what}: {}", names.join(", ")),
                agent.origin.as_ref(),
            ));
        }
        wants.extend(of_packages.iter().map(|offer| {
            RequestedCapability::new(format!("{what}: {}", offer.name), offer.origin)
        }));
    }
    wants
}

/// Returns an agent's working directory if it is outside of the project.
fn outside(agent: &Resource<Agent>) -> Option<RequestedCapability> {
    let AgentWorkdir::Repository(folder) = &agent.spec.workdir else {
        return None;
    };
    let what = format!(
        "lets {} work in {}, which contains more than the project directory",
        agent.id,
        folder.display()
    );
    Some(RequestedCapability::new(what, agent.origin.as_ref()))
}

/// Returns files outside of the project that control agents. Other users may be able to write them,
/// so trust in the project does not cover them.
pub(super) fn controlling_files(bundle: &Bundle) -> Vec<RequestedCapability> {
    let of_agent = |agent: &Resource<Agent>| -> Vec<RequestedCapability> {
        let files = agent
            .spec
            .instructions
            .iter()
            .flat_map(|found| &found.files);
        let outside = files.filter_map(|file| Some((file, file.outside.as_ref()?)));
        let want = |(file, folder): (&InstructionFile, &PathBuf)| {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            let what = format!(
                "makes {} follow the instructions in {}",
                agent.id,
                folder.join(name).display()
            );
            RequestedCapability {
                folder: Some(folder.clone()),
                ..RequestedCapability::new(what, agent.origin.as_ref())
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

/// Export that an agent can call.
struct OfferedExport<'b> {
    /// Full tool name, `resource__export`.
    name: String,
    /// Export as the YAML declares it.
    export: &'b ExportSpec,
    /// Built-in definition, if any. A Tool can declare other permissions, but that does not change
    /// the behavior of the export.
    own: Option<&'static ExportSpec>,
    /// Position of the Tool; `None` for a built-in one.
    origin: Option<&'b ResourceOrigin>,
}

fn offered<'b>(
    bundle: &'b Bundle,
    agent: &'b Resource<Agent>,
) -> impl Iterator<Item = OfferedExport<'b>> {
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
                ToolEntry::Builtin(name) => project::base_export(name, &export.name),
                ToolEntry::Library(_)
                | ToolEntry::Executable(_)
                | ToolEntry::Module(_)
                | ToolEntry::Mcp(_)
                | ToolEntry::A2a(_) => None,
            };
            OfferedExport {
                name: format!("{}__{}", used.tool.name, export.name),
                export,
                own,
                origin,
            }
        })
    })
}

impl OfferedExport<'_> {
    fn has(&self, power: Permission) -> bool {
        let mut known = [Some(self.export), self.own].into_iter().flatten();
        known.any(|export| {
            export.permissions.contains(&power) || export.optional_permissions.contains(&power)
        })
    }

    /// Returns true if some call may run without approval. An optional permission is checked
    /// separately from the required ones.
    fn may_run_unapproved(&self, agent: &Agent, power: Permission) -> bool {
        let is_needed = self.export.permissions.contains(&power);
        let needs = match !is_needed && self.export.optional_permissions.contains(&power) {
            true => &BTreeSet::from([power]),
            false => &self.export.permissions,
        };
        self.possible(agent, needs)
            .contains(&PermissionAction::Allow)
    }

    /// Returns the possible actions of the policy for calls with any arguments. A rule about
    /// arguments may or may not match.
    fn possible(&self, agent: &Agent, needs: &BTreeSet<Permission>) -> Vec<PermissionAction> {
        let Some(permissions) = &agent.permissions else {
            let is_asked =
                needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
            return vec![if is_asked {
                PermissionAction::Ask
            } else {
                PermissionAction::Allow
            }];
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

    /// Returns true if the export has the arguments that a rule names, or declares none. Built-in
    /// arguments exist even if the Tool omits them.
    fn has_arguments(&self, rule: &PermissionRule) -> bool {
        let properties =
            |export: &'_ ExportSpec| export.parameters.get("properties")?.as_object().cloned();
        let Some(mut known) = properties(self.export) else {
            return true;
        };
        known.extend(self.own.and_then(properties).into_iter().flatten());
        rule.args
            .keys()
            .all(|name| name == PATCHED_PATH_ARGUMENT || known.contains_key(name))
    }

    /// Returns true if calls that the rule allows run in an unmodified sandbox: commands that match
    /// a pattern, in the conversation's own directory. In the project directory, they could write
    /// files that the user's programs execute.
    fn is_contained(&self, agent: &Agent, rule: &PermissionRule) -> bool {
        if policy::opens_network(agent.permissions.as_ref(), &self.name) {
            return false;
        }
        let commands = self
            .own
            .map(ExportSpec::marked_arguments)
            .unwrap_or_default()
            .commands;
        // A rule about a redirection opens the path that it names.
        let is_apart_there =
            |pattern: &String| pattern.contains(['*', '?']) && !pattern.starts_with(['>', '<']);
        let is_pattern = |name: &String| rule.args.get(name).is_some_and(is_apart_there);
        let is_apart =
            agent.workdir == AgentWorkdir::Instance && rule.sandbox == RuleSandbox::Usual;
        is_apart && goondan_tools::has_sandbox() && commands.iter().any(is_pattern)
    }
}
