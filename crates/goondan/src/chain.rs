//! Who can have which agent do something. What an agent may do is what it may and all that call it may (rule S1b).

use std::collections::BTreeMap;

use goondan_spec::kinds::{Agent, Entry};
use goondan_spec::{Bundle, Resource, ResourceId};

/// Exports by which an agent reaches others, by the built-in tool that they belong to.
const REACHING: [(&str, &[&str]); 4] = [
    ("agents", &["request", "send", "spawn"]),
    ("sessions", &["send", "spawn"]),
    ("squad", &["route"]),
    ("task", &["run"]),
];

/// The agents that can call `agent`: those that share a swarm with it and have a built-in tool that reaches others. What
/// libraries of the project do is not known before they run.
pub fn callers<'b>(bundle: &'b Bundle, agent: &ResourceId) -> Vec<&'b Resource<Agent>> {
    let swarms = bundle.swarms().values().filter(|swarm| swarm.spec.agents.contains(agent));
    let members = swarms.flat_map(|swarm| &swarm.spec.agents).filter(|member| *member != agent);
    let members: BTreeMap<String, &Resource<Agent>> =
        members.filter_map(|member| Some((member.to_string(), bundle.agents().get(member)?.as_ref()))).collect();
    members.into_values().filter(|member| reaches_others(bundle, &member.spec)).collect()
}

fn reaches_others(bundle: &Bundle, agent: &Agent) -> bool {
    agent.tools.iter().any(|used| {
        let Entry::Builtin(name) = &bundle.tools()[&used.tool].spec.entry else { return false };
        let Some((_, reaching)) = REACHING.iter().find(|(tool, _)| tool == name) else { return false };
        let offered = bundle.tools()[&used.tool].spec.exports.iter().map(|export| &export.name);
        let mut chosen = offered.filter(|name| used.exports.as_ref().is_none_or(|names| names.contains(name)));
        chosen.any(|name| reaching.contains(&name.as_str()))
    })
}
