//! Agents as tools.

use std::sync::Arc;

use goondan::Swarm;
use goondan::spec::JsonObject;
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

/// What the names of the tools begin with.
const PREFIX: &str = "ask_";

/// What a call says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// The text for the agent.
    pub(super) message: String,
    /// The key of the conversation.
    #[serde(default)]
    pub(super) conversation: Option<String>,
}

/// A tool for each agent, the entry agent's first.
pub(super) fn all(swarm: &Swarm) -> Vec<Tool> {
    let entry = swarm.entry_agent();
    let mut agents = swarm.agents();
    agents.sort_by_key(|agent| *agent != entry);
    agents
        .iter()
        .map(|agent| tool(swarm, agent, *agent == entry))
        .collect()
}

/// The agent that a tool asks.
pub(super) fn agent(swarm: &Swarm, tool: &str) -> Option<String> {
    let name = tool.strip_prefix(PREFIX)?;
    swarm.agents().into_iter().find(|agent| agent == name)
}

fn tool(swarm: &Swarm, agent: &str, is_entry: bool) -> Tool {
    let about = swarm.description(agent);
    let role = if is_entry {
        ", which speaks for the swarm"
    } else {
        ""
    };
    let about = about.unwrap_or_else(|| {
        format!(
            "Asks the agent {agent} of the swarm {}{role}.",
            swarm.name()
        )
    });
    Tool::new(format!("{PREFIX}{agent}"), about, input())
        .with_title(agent.to_owned())
        .with_raw_output_schema(output())
}

fn input() -> Arc<JsonObject> {
    object(json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "minLength": 1, "description": "What to tell the agent, or to ask it."},
            "conversation": {
                "type": "string",
                "minLength": 1,
                "description": "A name for the conversation. The agent remembers what was said under the same name. \
                                A new conversation begins where it is left out; the result says its name.",
            },
        },
        "required": ["message"],
        "additionalProperties": false,
    }))
}

fn output() -> Arc<JsonObject> {
    object(json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "description": "The answer of the agent."},
            "conversation": {"type": "string", "description": "The name under which the conversation goes on."},
            "finishReason": {
                "type": "string",
                "description": "The reason why the answer is incomplete: length, contextWindow or pause. Absent for a complete answer.",
            },
        },
        "required": ["answer", "conversation"],
    }))
}

fn object(value: Value) -> Arc<JsonObject> {
    Arc::new(value.as_object().cloned().unwrap_or_default())
}
