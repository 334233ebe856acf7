//! Who can have which agent do something. What an agent may do is what it may and all that call it may (rule S1b).

use goondan_spec::kinds::{Agent, Entry};
use goondan_spec::{Bundle, Resource, ResourceId};

/// Exports by which an agent reaches others, by the built-in tool that they belong to.
const REACHING: [(&str, &[&str]); 4] = [
    ("agents", &["request", "send", "spawn"]),
    ("sessions", &["send", "spawn"]),
    ("squad", &["route"]),
    ("task", &["run"]),
];

/// The agents that have a built-in tool that reaches others, ordered by their ids. What libraries of the project do is not known
/// before they run.
pub struct Callers<'b> {
    bundle: &'b Bundle,
    agents: Vec<&'b Resource<Agent>>,
}

impl<'b> Callers<'b> {
    /// Those of a project.
    pub fn of(bundle: &'b Bundle) -> Self {
        let agents = bundle.agents().values().map(AsRef::as_ref);
        let mut agents: Vec<_> = agents
            .filter(|agent| reaches_others(bundle, &agent.spec))
            .collect();
        agents.sort_by_cached_key(|agent| agent.id.to_string());
        Callers { bundle, agents }
    }

    /// Those that can call `agent`: they share a swarm with it.
    pub fn of_agent(&self, agent: &ResourceId) -> impl Iterator<Item = &'b Resource<Agent>> {
        let swarms = self.bundle.swarms().values();
        let swarms: Vec<_> = swarms
            .map(|swarm| &swarm.spec.agents)
            .filter(|agents| agents.contains(agent))
            .collect();
        let others = self
            .agents
            .iter()
            .copied()
            .filter(move |caller| caller.id != *agent);
        others.filter(move |caller| swarms.iter().any(|agents| agents.contains(&caller.id)))
    }
}

fn reaches_others(bundle: &Bundle, agent: &Agent) -> bool {
    agent.tools.iter().any(|used| {
        let Entry::Builtin(name) = &bundle.tools()[&used.tool].spec.entry else {
            return false;
        };
        let Some((_, reaching)) = REACHING.iter().find(|(tool, _)| tool == name) else {
            return false;
        };
        let offered = bundle.tools()[&used.tool]
            .spec
            .exports
            .iter()
            .map(|export| &export.name);
        let mut chosen = offered.filter(|name| {
            used.exports
                .as_ref()
                .is_none_or(|names| names.contains(name))
        });
        chosen.any(|name| reaching.contains(&name.as_str()))
    })
}
