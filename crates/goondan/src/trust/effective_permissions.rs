//! Callers of each agent. An agent's permissions are restricted to those of all agents that call it
//! (rule S1b).

use goondan_spec::kinds::{Agent, ToolEntry};
use goondan_spec::{Bundle, Resource, ResourceId};

/// Exports that reach other agents, by built-in tool.
const REACHING_EXPORTS: [(&str, &[&str]); 4] = [
    ("agents", &["request", "send", "spawn"]),
    ("sessions", &["send", "spawn"]),
    ("squad", &["route"]),
    ("task", &["run"]),
];

/// Agents with a built-in tool that reaches other agents, sorted by ID. Calls by libraries of the
/// project are unknown until they run.
pub struct AgentCallers<'b> {
    bundle: &'b Bundle,
    agents: Vec<&'b Resource<Agent>>,
}

impl<'b> AgentCallers<'b> {
    /// Finds the callers in a project.
    pub fn of(bundle: &'b Bundle) -> Self {
        let agents = bundle.agents().values().map(AsRef::as_ref);
        let mut agents: Vec<_> = agents
            .filter(|agent| reaches_others(bundle, &agent.spec))
            .collect();
        agents.sort_by_cached_key(|agent| agent.id.to_string());
        AgentCallers { bundle, agents }
    }

    /// Returns the agents that can call `agent`, because they share a swarm with it.
    pub fn callers_of(&self, agent: &ResourceId) -> impl Iterator<Item = &'b Resource<Agent>> {
        let swarms = self.bundle.swarms().values();
        let swarms: Vec<_> = swarms
            .map(|swarm| &swarm.spec.agents)
            .filter(|agents| agents.contains(agent))
            .collect();
        let other_agents = self
            .agents
            .iter()
            .copied()
            .filter(move |caller| caller.id != *agent);
        other_agents.filter(move |caller| swarms.iter().any(|agents| agents.contains(&caller.id)))
    }
}

/// Returns true if one of the agent's built-in tools can reach other agents.
fn reaches_others(bundle: &Bundle, agent: &Agent) -> bool {
    agent.tools.iter().any(|used| {
        let ToolEntry::Builtin(name) = &bundle.tools()[&used.tool].spec.entry else {
            return false;
        };
        let Some((_, reaching)) = REACHING_EXPORTS.iter().find(|(tool, _)| tool == name) else {
            return false;
        };
        let mut exports = bundle.tools()[&used.tool].spec.exports.iter();
        exports.any(|export| used.selects(&export.name) && reaching.contains(&&*export.name))
    })
}
