//! Agents that nothing can reach, sub-agents without tools, and working directories that a bundle
//! expects to be shared.

use std::collections::{HashMap, HashSet};

use goondan_spec::kinds::{Agent, AgentWorkdir, ExtensionEntry, ToolEntry};
use goondan_spec::meta::BASE_PACKAGE;
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ResourceId};
use goondan_tools::SUBAGENT_TOOLS;

use super::{agents_of, builtin, used_exports, warning};
use crate::adapters::connectors::receivers;
use crate::trust::effective_permissions::AgentCallers;

/// Shortest name that counts as a name in a prompt. Shorter words occur by chance.
const MIN_NAME_CHARS: usize = 3;

/// Built-in tools that use files of the working directory.
const FILE_TOOLS: [&str; 3] = ["file-system", "fs", "bash"];

/// Returns the warnings about the agents of a swarm.
pub(super) fn check(bundle: &Bundle, swarm: &ResourceId) -> Vec<Diagnostic> {
    let mut warnings = unreachable_agents(bundle, swarm);
    warnings.extend(agents_of(bundle, swarm).filter_map(|agent| idle_subagents(bundle, agent)));
    warnings.extend(separate_directories(bundle, swarm));
    warnings
}

/// Returns a warning for each agent that the prompt of another agent names, although no agent can
/// call it and no connection routes events to it.
fn unreachable_agents(bundle: &Bundle, swarm: &ResourceId) -> Vec<Diagnostic> {
    // Code of the project can call agents.
    if agents_of(bundle, swarm).any(|agent| runs_code(bundle, &agent.spec)) {
        return Vec::new();
    }
    let Some(entry) = bundle
        .swarms()
        .get(swarm)
        .map(|swarm| &swarm.spec.entry_agent)
    else {
        return Vec::new();
    };
    let callers = AgentCallers::of(bundle);
    let connections = bundle.connections_of(swarm);
    let routed: HashSet<&ResourceId> = connections
        .flat_map(|connection| receivers(bundle, connection))
        .collect();
    let is_unreachable = |agent: &&Resource<Agent>| {
        agent.id != *entry
            && !routed.contains(&agent.id)
            && callers.callers_of(&agent.id).next().is_none()
    };
    let unreachable: Vec<_> = agents_of(bundle, swarm).filter(is_unreachable).collect();
    let names = unreachable.iter().map(|agent| agent.id.name.as_str());
    let naming_agents = naming_agents(agents_of(bundle, swarm), &names.collect());
    let problem = |agent: &Resource<Agent>| {
        let naming = naming_agents.get(&*agent.id.name)?;
        let message = format!(
            "The prompt of {} names `{}`, but no agent can call it.",
            naming.id, agent.id.name
        );
        let suggestion = format!("add `Tool/agents` to `spec.tools` of {}", naming.id);
        Some(warning(Code::UNREACHABLE_AGENT, agent, "metadata.name", message).suggest(suggestion))
    };
    unreachable.into_iter().filter_map(problem).collect()
}

/// Returns true if a tool or an extension of the agent runs code of the project.
fn runs_code(bundle: &Bundle, agent: &Agent) -> bool {
    let tools = agent.tools.iter();
    let mut entries = tools.filter_map(|used| Some(&bundle.tools().get(&used.tool)?.spec.entry));
    let extensions = agent.extensions.iter();
    let mut layers =
        extensions.filter_map(|used| Some(&bundle.extensions().get(&used.extension)?.spec.entry));
    entries.any(|entry| {
        matches!(
            entry,
            ToolEntry::Library(_) | ToolEntry::Module(_) | ToolEntry::Embedded
        )
    }) || layers.any(|entry| !matches!(entry, ExtensionEntry::Builtin(_)))
}

/// Returns, for each of the names, the first other agent whose prompt contains it as a word.
fn naming_agents<'b>(
    agents: impl Iterator<Item = &'b Resource<Agent>>,
    names: &HashSet<&str>,
) -> HashMap<&'b str, &'b Resource<Agent>> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut naming = HashMap::new();
    for agent in agents {
        let prompt = agent.spec.prompt.as_ref();
        let text = prompt.map_or("", |prompt| prompt.text.as_str());
        let words = text.split(|c| !is_part(c));
        for name in words.filter(|word| names.contains(word) && *word != agent.id.name) {
            if name.chars().count() >= MIN_NAME_CHARS {
                naming.entry(name).or_insert(agent);
            }
        }
    }
    naming
}

/// Returns a warning if the agent has tools, but its sub-agents get none of them.
fn idle_subagents(bundle: &Bundle, agent: &Resource<Agent>) -> Option<Diagnostic> {
    let tools = &agent.spec.tools;
    let exports = || {
        tools.iter().flat_map(|used| {
            let name = builtin(bundle, used);
            let exports = used_exports(bundle, used);
            exports.filter_map(move |export| Some(format!("{}__{export}", name?)))
        })
    };
    let spawns = exports().any(|name| name == "sessions__spawn");
    let has_tools = exports().any(|name| SUBAGENT_TOOLS.contains(&name.as_str()));
    // Without other tools, the sub-agent has the same abilities as the agent.
    let others = tools
        .iter()
        .any(|used| builtin(bundle, used) != Some("sessions"));
    if !spawns || has_tools || !others {
        return None;
    }
    let message = format!(
        "Sub-agents of {} have no tools: `sessions__spawn` gives them only tools that read files \
            and notes.",
        agent.id
    );
    let problem = warning(Code::IDLE_SUBAGENT, agent, "spec.tools", message);
    Some(problem.suggest(format!(
        "add `Tool/fs` to `spec.tools` of {}, or select other `exports` of the sessions tool",
        agent.id
    )))
}

/// Returns a warning if a bundle of Goondan in TypeScript has several agents with file tools in
/// separate working directories. There, all agents work in the directory of the bundle.
fn separate_directories(bundle: &Bundle, swarm: &ResourceId) -> Option<Diagnostic> {
    let package = bundle.package()?;
    let dependencies = &package.spec.dependencies;
    dependencies.iter().find(|one| one.name == BASE_PACKAGE)?;
    let uses_files = |agent: &&Resource<Agent>| {
        let mut tools = agent.spec.tools.iter();
        agent.spec.workdir == AgentWorkdir::Instance
            && bundle.place(&agent.id, "spec.workdir").is_none()
            && tools
                .any(|used| builtin(bundle, used).is_some_and(|name| FILE_TOOLS.contains(&name)))
    };
    let agents: Vec<_> = agents_of(bundle, swarm).filter(uses_files).collect();
    let (first, others) = agents.split_first()?;
    if others.is_empty() {
        return None;
    }
    let names: Vec<String> = agents.iter().map(|agent| agent.id.to_string()).collect();
    let message = format!(
        "{} have file tools, but each conversation has its own working directory, so they share \
            no files.",
        names.join(", ")
    );
    let problem = warning(Code::SEPARATE_WORKDIRS, first, "spec.workdir", message);
    Some(problem.suggest(
        "add `workdir: project` to the `spec` of each agent that shares files, or `workdir: \
            instance` to keep them apart",
    ))
}
