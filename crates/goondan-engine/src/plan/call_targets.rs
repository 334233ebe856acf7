//! Names and purposes of agents in the definitions of the tools that call agents.

use std::sync::Arc;

use goondan_core::schema::ArgumentSchema;
use goondan_spec::kinds::Swarm;
use goondan_spec::{Bundle, Resource};
use serde_json::{Value, json};

use super::description_of;
use crate::tooling::registry::{RegisteredTool, ToolRegistry};

/// Built-in tool sets that call agents, each with the argument that names the agent.
const TARGET_ARGUMENTS: [(&str, &str); 3] = [
    ("agents__", "target"),
    ("task__", "agent"),
    ("squad__", "targetAgent"),
];

/// Agents of a swarm with their purposes.
pub(super) struct AgentPurposes {
    names: Vec<String>,
    /// One line per agent; `None` if no agent states a purpose.
    text: Option<String>,
}

impl AgentPurposes {
    /// Collects the agents of a swarm.
    pub(super) fn from_swarm(bundle: &Bundle, swarm: &Resource<Swarm>) -> Self {
        let agents = swarm.spec.agents.iter();
        let mut agents: Vec<_> = agents.filter_map(|id| bundle.agents().get(id)).collect();
        agents.sort_by(|one, other| one.id.name.cmp(&other.id.name));
        let line = |name: &str, purpose: Option<&str>| match purpose {
            Some(purpose) => format!("{name}: {}", purpose.trim()),
            None => name.to_owned(),
        };
        let lines: Vec<String> = agents
            .iter()
            .map(|agent| line(&agent.id.name, description_of(agent)))
            .collect();
        let is_described = agents.iter().any(|agent| description_of(agent).is_some());
        AgentPurposes {
            names: agents.iter().map(|agent| agent.id.name.clone()).collect(),
            text: is_described.then(|| lines.join("\n")),
        }
    }
}

/// Adds the agents and their purposes to the tools in `registry` that call agents, unless no agent
/// states a purpose.
pub(super) fn describe_targets(registry: &mut ToolRegistry, purposes: &AgentPurposes) {
    let Some(text) = &purposes.text else {
        return;
    };
    let tools: Vec<Arc<RegisteredTool>> = registry.tools().cloned().collect();
    for tool in tools {
        let built_in = tool.builtin.as_deref().unwrap_or_default();
        let argument = TARGET_ARGUMENTS
            .iter()
            .find(|(set, _)| built_in.starts_with(set));
        if let Some(described) =
            argument.and_then(|(_, name)| with_agents(&tool, name, text, &purposes.names))
        {
            registry.register(Arc::new(described));
        }
    }
}

/// Returns the tool with the agents in its argument `name`; `None` if it has no such argument.
fn with_agents(
    tool: &RegisteredTool,
    name: &str,
    text: &str,
    names: &[String],
) -> Option<RegisteredTool> {
    let mut tool = tool.clone();
    let pointer = format!("/properties/{name}");
    let argument = tool
        .spec
        .parameters
        .pointer_mut(&pointer)?
        .as_object_mut()?;
    let description = argument.get("description").and_then(Value::as_str);
    let description = format!("{}\n{text}", description.unwrap_or_default());
    argument.insert("description".to_owned(), json!(description.trim()));
    argument.insert("enum".to_owned(), json!(names));
    tool.schema = ArgumentSchema::new(tool.spec.parameters.clone());
    tool.definition.parameters = tool.spec.model_parameters();
    Some(tool)
}
