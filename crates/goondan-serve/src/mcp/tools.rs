//! MCP tools, one for each agent.

use std::sync::Arc;

use goondan::Swarm;
use goondan::spec::JsonObject;
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

/// Prefix of the tool names.
const TOOL_NAME_PREFIX: &str = "ask_";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskArguments {
    /// Message text for the agent. `message` is the older name.
    #[serde(alias = "message")]
    pub(super) input: String,
    /// Conversation key.
    #[serde(default)]
    pub(super) conversation: Option<String>,
}

/// Returns a tool for each agent, the entry agent's first.
pub(super) fn for_swarm(swarm: &Swarm) -> Vec<Tool> {
    let entry = swarm.entry_agent();
    let mut agents = swarm.agents();
    agents.sort_by_key(|agent| *agent != entry);
    agents
        .iter()
        .map(|agent| tool(swarm, agent, *agent == entry))
        .collect()
}

/// Returns the agent that a tool calls.
pub(super) fn agent(swarm: &Swarm, tool: &str) -> Option<String> {
    let name = tool.strip_prefix(TOOL_NAME_PREFIX)?;
    swarm.agents().into_iter().find(|agent| agent == name)
}

/// Describes the tool that calls an agent.
fn tool(swarm: &Swarm, agent: &str, is_entry: bool) -> Tool {
    let about = swarm.description(agent);
    let role = if is_entry { ", the entry agent" } else { "" };
    let about = about.unwrap_or_else(|| {
        format!(
            "Calls the agent {agent} of the swarm {}{role}.",
            swarm.name()
        )
    });
    Tool::new(format!("{TOOL_NAME_PREFIX}{agent}"), about, input())
        .with_title(agent.to_owned())
        .with_raw_output_schema(output())
}

/// JSON Schema of the arguments.
fn input() -> Arc<JsonObject> {
    into_object(json!({
        "type": "object",
        "properties": {
            "input": {"type": "string", "minLength": 1, "description": "Message for the agent."},
            "conversation": {
                "type": "string",
                "minLength": 1,
                "description": "Conversation name. The agent remembers earlier messages of the \
                    conversation. Default: a new conversation, named in the result.",
            },
        },
        "required": ["input"],
        "additionalProperties": false,
    }))
}

/// JSON Schema of the result.
fn output() -> Arc<JsonObject> {
    into_object(json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "description": "The agent's answer."},
            "conversation": {"type": "string", "description": "Conversation name for the next \
                call."},
            "finishReason": {
                "type": "string",
                "description": "Reason for an incomplete answer: length, contextWindow or pause. \
                    Absent for a complete answer.",
            },
        },
        "required": ["answer", "conversation"],
    }))
}

/// Returns the fields of a JSON object.
fn into_object(value: Value) -> Arc<JsonObject> {
    Arc::new(value.as_object().cloned().unwrap_or_default())
}
