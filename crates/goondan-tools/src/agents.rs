//! `agents`: communication with the other agents of the swarm.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    AgentEventInput, RequestOptions, SpawnOptions, SpawnedAgentInfo, ToolContext, ToolError,
    ToolOutput,
};
use goondan_core::reserved::{REQUEST, SEND};
use goondan_spec::kinds::PATH;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::define::{Export, Operation, titled};
use crate::paths::Root;
use crate::table::{Builtin, ConfigError};

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "agents",
    about: "Talks to the other agents of the swarm.",
    config: &[(
        "timeoutMs",
        "how long an agent that is asked may give no sign of life where a call does not say, in milliseconds (default 1800000)",
    )],
    error_message_limit: Some(1500),
    // Longer than the longest `timeoutMs` of a request, so that a silent agent is reported as such.
    timeout: Some(Duration::from_millis(LONGEST + 60_000)),
    open: |opening| {
        let config: Config = opening.config()?;
        if config
            .timeout_ms
            .is_some_and(|ms| !(1..=LONGEST).contains(&ms))
        {
            return Err(ConfigError::Range {
                field: "timeoutMs",
                most: LONGEST,
            });
        }
        let (config, none) = (Arc::new(config), Arc::new(()));
        // The engine derives event ids from the call id, so that a repeated call is the same event.
        Ok(vec![
            Export::new::<Request>("request", &config).idempotent(),
            Export::new::<Tell>("send", &none).idempotent(),
            Export::new::<Spawn>("spawn", &none).idempotent(),
            Export::new::<List>("list", &none).read_only(),
            Export::new::<Catalog>("catalog", &none).read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// Longest timeout of a request in milliseconds: a day.
const LONGEST: u64 = 86_400_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    timeout_ms: Option<u64>,
}

/// Ask another agent and wait for its answer, or with `async` get the answer before a later step.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    /// The agent to ask; `agents__catalog` lists them.
    #[schemars(length(min = 1))]
    target: String,
    /// What to ask.
    #[schemars(length(min = 1))]
    input: String,
    /// The target's conversation; the caller's own key if not given.
    instance_key: Option<String>,
    /// The type of the event.
    #[serde(default = "request_type")]
    event_type: String,
    /// How long the agent may give no sign of life before it is given up, in milliseconds; what the tool is set to if not
    /// given. As long as it works, or a person is asked, the answer is waited for.
    #[schemars(range(min = 1, max = 86_400_000))]
    timeout_ms: Option<u64>,
    /// Return at once; the answer arrives as a message before a later step.
    #[serde(default, rename = "async")]
    async_: bool,
    /// Data that travels with the question.
    metadata: Option<JsonObject>,
}

impl Operation for Request {
    type Shared = Config;

    async fn run(self, ctx: &ToolContext, config: &Config) -> Result<ToolOutput, ToolError> {
        let event = event(
            self.event_type,
            self.input,
            self.instance_key,
            self.metadata,
        );
        let options = RequestOptions {
            timeout_ms: self.timeout_ms.or(config.timeout_ms),
            async_: self.async_,
        };
        ctx.progress
            .update(&format!("Asking {}", self.target), JsonObject::new());
        let answer = ctx.runtime.request(&self.target, event, options).await?;
        let output = json!({
            "target": answer.target,
            "eventId": answer.event_id,
            "correlationId": answer.correlation_id,
            "accepted": answer.accepted,
            "async": answer.async_,
            "response": answer.response,
        });
        Ok(titled(format!("Asked {}", self.target), output))
    }
}

/// Tell another agent something without waiting for an answer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tell {
    /// The agent to tell; `agents__catalog` lists them.
    #[schemars(length(min = 1))]
    target: String,
    /// What to tell.
    #[schemars(length(min = 1))]
    input: String,
    /// The target's conversation; the caller's own key if not given.
    instance_key: Option<String>,
    /// The type of the event.
    #[serde(default = "send_type")]
    event_type: String,
    /// Data that travels with the message.
    metadata: Option<JsonObject>,
}

impl Operation for Tell {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let event = event(
            self.event_type,
            self.input,
            self.instance_key,
            self.metadata,
        );
        let sent = ctx.runtime.send(&self.target, event).await?;
        let output =
            json!({"target": sent.target, "eventId": sent.event_id, "accepted": sent.accepted});
        Ok(titled(format!("Told {}", self.target), output))
    }
}

/// Create an instance of an agent of the swarm.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spawn {
    /// The agent; `agents__catalog` lists them.
    #[schemars(length(min = 1))]
    target: String,
    /// The key of the new conversation; generated if not given. An existing key is used again.
    instance_key: Option<String>,
    /// The folder in which its tools work, instead of the agent's own. It must be inside this agent's working directory.
    #[schemars(length(min = 1), extend("format" = PATH))]
    cwd: Option<String>,
}

impl Operation for Spawn {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        // A sub-agent gets no more access than its caller (rule S1b), including the file system.
        let place = self
            .cwd
            .map(|cwd| Root::of(ctx)?.resolve(&cwd))
            .transpose()?;
        let cwd = place.map(|place| place.path.display().to_string());
        let options = SpawnOptions {
            instance_key: self.instance_key,
            cwd,
            ..SpawnOptions::default()
        };
        let instance = ctx.runtime.spawn(&self.target, options).await?;
        let title = format!("Prepared {}:{}", instance.target, instance.instance_key);
        let output = json!({
            "target": instance.target,
            "instanceKey": instance.instance_key,
            "spawned": instance.spawned,
            "cwd": instance.cwd,
        });
        Ok(titled(title, output))
    }
}

/// List the agent instances that this conversation has spawned, or all of the swarm.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    /// List all instances, not just the caller's own.
    #[serde(default)]
    include_all: bool,
}

impl Operation for List {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let agents = ctx.runtime.list(self.include_all).await?;
        let agents: Vec<Value> = agents.into_iter().map(instance).collect();
        let title = format!("{} instances", agents.len());
        Ok(titled(
            title,
            json!({"count": agents.len(), "agents": agents}),
        ))
    }
}

/// List the agents of the swarm, and which of them can be asked from here.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Catalog {}

impl Operation for Catalog {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let catalog = ctx.runtime.catalog().await?;
        let output = json!({
            "swarmName": catalog.swarm_name,
            "entryAgent": catalog.entry_agent,
            "selfAgent": catalog.self_agent,
            "availableCount": catalog.available_agents.len(),
            "callableCount": catalog.callable_agents.len(),
            "availableAgents": catalog.available_agents,
            "callableAgents": catalog.callable_agents,
        });
        Ok(titled("Looked up the agents", output))
    }
}

fn event(
    event_type: String,
    input: String,
    key: Option<String>,
    metadata: Option<JsonObject>,
) -> AgentEventInput {
    AgentEventInput {
        event_type: Some(event_type),
        input,
        instance_key: key,
        metadata: metadata.unwrap_or_default(),
        ..AgentEventInput::default()
    }
}

/// Returns an instance for the model, with all fields.
fn instance(info: SpawnedAgentInfo) -> Value {
    json!({
        "target": info.target,
        "instanceKey": info.instance_key,
        "ownerAgent": info.owner_agent,
        "ownerInstanceKey": info.owner_instance_key,
        "createdAt": info.created_at,
        "cwd": info.cwd,
    })
}

fn request_type() -> String {
    REQUEST.to_owned()
}

fn send_type() -> String {
    SEND.to_owned()
}
