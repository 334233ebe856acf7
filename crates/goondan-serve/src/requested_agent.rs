//! Agents that requests name.

use goondan::spec::Code;

use crate::problem::ApiProblem;
use crate::service::Service;

/// Returns the agent with this name. The name of the swarm means its entry agent.
pub(crate) fn agent_named(service: &Service, name: String) -> Result<String, ApiProblem> {
    find_agent(service, &name).ok_or_else(|| {
        let problem = format!("The swarm has no agent `{name}`.");
        let names = service.swarm().agents().join(", ");
        ApiProblem::new(Code::AGENT_NOT_FOUND, problem).suggest(format!("Use one of: {names}."))
    })
}

/// Returns the agent with this name, or the entry agent for the name of the swarm.
pub(crate) fn find_agent(service: &Service, name: &str) -> Option<String> {
    let swarm = service.swarm();
    let agent = swarm.agents().into_iter().find(|agent| agent == name);
    agent.or_else(|| (swarm.name() == name).then(|| swarm.entry_agent()))
}
