//! `introspection`: information about the agent itself and other agents.

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "introspection",
    about: "Describes an agent and the other agents of its swarm.",
    open: |_| {
        Ok(vec![
            ToolExport::new::<AgentsList>("agents_list", &Arc::new(()))
                .with_permission(Permission::Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// List the agents of the swarm: which one you are, which ones you can call, and their instance
/// counts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentsList {}

impl ToolOperation for AgentsList {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let catalog = ctx.runtime.catalog().await?;
        let instances = ctx.runtime.list_instances(true).await?;
        let agents: Vec<Value> = catalog
            .available_agents
            .iter()
            .map(|name| {
                let mut agent = json!({
                    "name": name,
                    "self": *name == catalog.self_agent,
                    "entry": *name == catalog.entry_agent,
                    "callable": catalog.callable_agents.contains(name),
                    "instances": instances.iter().filter(|instance| instance.target == *name).count(),
                });
                if let Some(description) = catalog.descriptions.get(name) {
                    agent["description"] = json!(description);
                }
                agent
            })
            .collect();
        let output = json!({
            "swarmName": catalog.swarm_name,
            "selfAgent": catalog.self_agent,
            "instanceKey": ctx.instance_key,
            "count": agents.len(),
            "agents": agents,
        });
        Ok(titled_output("Looked up the agents", output))
    }
}
