//! Connections in the topology.

use std::sync::Arc;

use goondan::Swarm;
use goondan::spec::kinds::{Connection, IngressRule};
use goondan::spec::{Bundle, Resource};

use crate::wire::ConnectionBody;

/// Returns the connections of the swarm.
pub(super) fn of_swarm(swarm: &Swarm, bundle: &Bundle) -> Vec<ConnectionBody> {
    let entry_agent = swarm.entry_agent();
    let body = |connection: Arc<Resource<Connection>>| ConnectionBody {
        name: connection.id.name.clone(),
        connector: connection.spec.connector.name.clone(),
        agents: target_agents(&connection.spec, &entry_agent),
    };
    resources(swarm, bundle).map(body).collect()
}

/// Returns the Connection resources of the swarm.
pub(super) fn resources(
    swarm: &Swarm,
    bundle: &Bundle,
) -> impl Iterator<Item = Arc<Resource<Connection>>> {
    let name = swarm.name();
    let id = bundle.swarms().keys().find(|id| id.name == name);
    let connections = id.map(|id| bundle.connections_of(id).cloned());
    connections.into_iter().flatten()
}

/// Returns the agents that get events of a connection. An event without a matching rule goes to the
/// entry agent.
fn target_agents(connection: &Connection, entry_agent: &str) -> Vec<String> {
    let mut agents: Vec<String> = Vec::new();
    let matches_all = |rule: &IngressRule| rule.event.is_none() && rule.properties.is_empty();
    let routed = connection.ingress.iter().map(|rule| match &rule.agent {
        Some(agent) => agent.name.clone(),
        None => entry_agent.to_owned(),
    });
    let rest = (!connection.ingress.iter().any(matches_all)).then(|| entry_agent.to_owned());
    for agent in routed.chain(rest) {
        if !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    agents
}
