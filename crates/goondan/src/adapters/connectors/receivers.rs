//! Agents that receive the events of a connection.

use goondan_spec::kinds::{Connection, ToolEntry};
use goondan_spec::{Bundle, Resource, ResourceId};

/// Returns the agents that receive the events of a connection.
pub(crate) fn receivers<'b>(
    bundle: &'b Bundle,
    connection: &'b Resource<Connection>,
) -> Vec<&'b ResourceId> {
    let swarm = match &connection.spec.swarm {
        Some(swarm) => bundle.swarms().get(swarm),
        None => bundle.swarms().values().next(),
    };
    let entry = swarm.map(|swarm| &swarm.spec.entry_agent);
    let rules = &connection.spec.ingress;
    let routed_agents = rules
        .iter()
        .filter_map(|rule| rule.agent.as_ref().or(entry));
    // Unmatched events go to the entry agent. With routing rules for all events, it receives none.
    let mut agents: Vec<&ResourceId> = if rules.is_empty() {
        entry.into_iter().collect()
    } else {
        routed_agents.collect()
    };
    agents.dedup();
    agents
}

/// Returns true if every agent that receives events of `connection` has the built-in tool `tool`.
pub(super) fn all_receivers_have(
    bundle: &Bundle,
    connection: &Resource<Connection>,
    tool: &str,
) -> bool {
    let agents = receivers(bundle, connection);
    let is_the_tool = |id: &ResourceId| {
        bundle
            .tools()
            .get(id)
            .is_some_and(|definition| definition.spec.entry == ToolEntry::Builtin(tool.to_owned()))
    };
    let has_tool = |agent: &&ResourceId| {
        bundle
            .agents()
            .get(*agent)
            .is_some_and(|agent| agent.spec.tools.iter().any(|used| is_the_tool(&used.tool)))
    };
    !agents.is_empty() && agents.iter().all(has_tool)
}
