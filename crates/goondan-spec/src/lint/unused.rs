//! Warns about resources that nothing refers to.

use std::collections::HashSet;

use crate::ResourceId;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Code, Diagnostic};
use crate::parallel;
use crate::resource::Resource;
use crate::resource::Resources;

/// Reports agents without a swarm, tools and extensions without an agent, and connectors without a
/// connection.
///
/// Models are skipped because the free-form config of a tool may name one. Without a swarm, nothing
/// is in use yet, so nothing is reported.
pub(super) fn lint(decoded: &DecodedResources) -> Vec<Diagnostic> {
    if decoded.swarms.is_empty() {
        return Vec::new();
    }
    let agents = decoded.agents.values();
    let swarm_agents = decoded
        .swarms
        .values()
        .flat_map(|swarm| &swarm.spec.agents)
        .collect();
    let tools = agents
        .clone()
        .flat_map(|agent| agent.spec.tools.iter().map(|used| &used.tool))
        .collect();
    let extensions = agents
        .flat_map(|agent| agent.spec.extensions.iter().map(|used| &used.extension))
        .collect();
    let connectors = decoded
        .connections
        .values()
        .map(|connection| &connection.spec.connector)
        .collect();
    let mut warnings = unused_warnings(
        &decoded.agents,
        &swarm_agents,
        "is in no swarm",
        "add it to the `agents` of a Swarm",
    );
    warnings.extend(unused_warnings(
        &decoded.tools,
        &tools,
        "is used by no agent",
        "add it to the `tools` of an Agent",
    ));
    warnings.extend(unused_warnings(
        &decoded.extensions,
        &extensions,
        "is used by no agent",
        "add it to the `extensions` of an Agent",
    ));
    warnings.extend(unused_warnings(
        &decoded.connectors,
        &connectors,
        "has no connection",
        "add a Connection with this `connectorRef`",
    ));
    warnings
}

/// Returns a warning for each resource that nothing uses.
fn unused_warnings<T: Send + Sync>(
    all: &Resources<T>,
    used: &HashSet<&ResourceId>,
    how: &str,
    remedy: &str,
) -> Vec<Diagnostic> {
    let forgotten: Vec<_> = all
        .values()
        .filter(|resource| !used.contains(&resource.id))
        .collect();
    parallel::map(&forgotten, |resource| unused_warning(resource, how, remedy))
        .into_iter()
        .flatten()
        .collect()
}

/// Returns `None` for a built-in resource, which has no origin: it need not be used.
fn unused_warning<T>(resource: &Resource<T>, how: &str, remedy: &str) -> Option<Diagnostic> {
    let (file, at) = resource.origin.clone()?;
    Some(
        Diagnostic::new(Code::UNUSED, format!("`{}` {how}.", resource.id))
            .in_file(file)
            .at(at)
            .of(&resource.id)
            .field("metadata.name")
            .suggest(format!("{remedy}, or remove it")),
    )
}
