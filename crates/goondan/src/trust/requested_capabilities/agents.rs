//! Capabilities that the permissions of agents grant without approval.

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
        .flat_map(|agent| capabilities_of(bundle, agent))
        .collect()
}

/// Returns the capabilities that one agent has without approval.
fn capabilities_of(bundle: &Bundle, agent: &Resource<Agent>) -> Vec<RequestedCapability> {
    let agent_id = &agent.id;
    let execution = (
        Permission::Execute,
        format!("lets {agent_id} run programs without approval"),
    );
    let network = (
        Permission::Network,
        format!("lets {agent_id} use the network without approval"),
    );
    let mut requests: Vec<RequestedCapability> = outside(agent).into_iter().collect();
    for (permission, predicate) in [execution, network] {
        let unapproved_exports: Vec<OfferedExport<'_>> = offered_exports(bundle, agent)
            .filter(|export| {
                export.may_need(permission) && export.may_run_unapproved(&agent.spec, permission)
            })
            .collect();
        // Tools that a package defines are attributed to the package, because their meaning can
        // change with its content.
        let (of_packages, project_exports): (Vec<&OfferedExport<'_>>, Vec<&OfferedExport<'_>>) =
            unapproved_exports.iter().partition(|export| {
                export
                    .origin
                    .is_some_and(|(file, _)| bundle.package_of(file).is_some())
            });
        let names: Vec<&str> = project_exports
            .iter()
            .map(|export| export.name.as_str())
            .collect();
        if !names.is_empty() {
            requests.push(RequestedCapability::new(
                format!("{predicate}: {}", names.join(", ")),
                agent.origin.as_ref(),
            ));
        }
        requests.extend(of_packages.iter().map(|export| {
            RequestedCapability::new(format!("{predicate}: {}", export.name), export.origin)
        }));
    }
    requests
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
            .flat_map(|sources| &sources.files);
        let outside = files.filter_map(|file| Some((file, file.outside.as_ref()?)));
        let request = |(file, folder): (&InstructionFile, &PathBuf)| {
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
        outside.map(request).collect()
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

/// Returns the exports that the agent can call.
fn offered_exports<'b>(
    bundle: &'b Bundle,
    agent: &'b Resource<Agent>,
) -> impl Iterator<Item = OfferedExport<'b>> {
    agent.spec.tools.iter().flat_map(|used| {
        let resource = &bundle.tools()[&used.tool];
        let (tool, origin) = (&resource.spec, resource.origin.as_ref());
        let is_chosen = |export: &&ExportSpec| used.selects(&export.name);
        tool.exports.iter().filter(is_chosen).map(move |export| {
            let builtin_definition = match &tool.entry {
                ToolEntry::Builtin(name) => project::base_export(name, &export.name),
                ToolEntry::Library(_)
                | ToolEntry::Executable(_)
                | ToolEntry::Module(_)
                | ToolEntry::Embedded
                | ToolEntry::Mcp(_)
                | ToolEntry::A2a(_) => None,
            };
            OfferedExport {
                name: format!("{}__{}", used.tool.name, export.name),
                export,
                own: builtin_definition,
                origin,
            }
        })
    })
}

impl OfferedExport<'_> {
    /// Returns true if a call may need the permission, by the Tool's declaration or by the built-in
    /// definition.
    fn may_need(&self, permission: Permission) -> bool {
        let mut definitions = [Some(self.export), self.own].into_iter().flatten();
        definitions.any(|export| {
            export.permissions.contains(&permission)
                || export.optional_permissions.contains(&permission)
        })
    }

    /// Returns true if some call may run without approval. An optional permission is checked
    /// separately from the required ones.
    fn may_run_unapproved(&self, agent: &Agent, permission: Permission) -> bool {
        let required = &self.export.permissions;
        let is_allowed = |needed: Option<Permission>| {
            self.possible_actions(agent, needed)
                .contains(&PermissionAction::Allow)
        };
        if !required.contains(&permission) && self.export.optional_permissions.contains(&permission)
        {
            return is_allowed(Some(permission));
        }
        match required.is_empty() {
            true => is_allowed(None),
            false => required.iter().all(|&needed| is_allowed(Some(needed))),
        }
    }

    /// Returns the possible actions of the policy for one of the needed permissions, with any
    /// arguments. A rule about arguments may or may not match.
    fn possible_actions(&self, agent: &Agent, needed: Option<Permission>) -> Vec<PermissionAction> {
        let Some(permissions) = &agent.permissions else {
            let needs_approval = matches!(needed, Some(Permission::Execute | Permission::Network));
            return vec![if needs_approval {
                PermissionAction::Ask
            } else {
                PermissionAction::Allow
            }];
        };
        let mut actions = vec![permissions.default];
        for rule in &permissions.rules {
            let is_about = rule
                .tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, &self.name))
                && rule
                    .permission
                    .is_none_or(|permission| needed == Some(permission));
            if !is_about || !self.has_arguments(rule) || self.is_contained(agent, rule) {
                continue;
            }
            if rule.args.is_empty() {
                actions.clear();
            }
            actions.push(rule.action);
        }
        actions
    }

    /// Returns true if the export has the arguments that a rule names, or declares none. Built-in
    /// arguments exist even if the Tool omits them.
    fn has_arguments(&self, rule: &PermissionRule) -> bool {
        let properties =
            |export: &'_ ExportSpec| export.parameters.get("properties")?.as_object().cloned();
        let Some(mut declared) = properties(self.export) else {
            return true;
        };
        declared.extend(self.own.and_then(properties).into_iter().flatten());
        rule.args
            .keys()
            .all(|name| name == PATCHED_PATH_ARGUMENT || declared.contains_key(name))
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
        let is_sandboxed_pattern =
            |pattern: &String| pattern.contains(['*', '?']) && !pattern.starts_with(['>', '<']);
        let is_pattern = |name: &String| rule.args.get(name).is_some_and(is_sandboxed_pattern);
        let has_own_sandbox =
            agent.workdir == AgentWorkdir::Instance && rule.sandbox == RuleSandbox::Usual;
        has_own_sandbox && goondan_tools::has_sandbox() && commands.iter().any(is_pattern)
    }
}
