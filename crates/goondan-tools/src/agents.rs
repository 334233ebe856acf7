//! `agents`: communication with the other agents of the swarm.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{
    AgentEventInput, HandlerError, RequestOptions, SpawnOptions, SpawnedAgentInfo, ToolContext,
    ToolOutput,
};
use goondan_core::reserved_names::{REQUEST_EVENT, SEND_EVENT};
use goondan_spec::Code;
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::config_error::ConfigError;
use crate::paths::FileRoot;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "agents",
    about: "Talks to the other agents of the swarm.",
    config: &[(
        "timeoutMs",
        "default idle timeout for requests to other agents, in milliseconds (default 1800000)",
    )],
    error_message_limit: Some(1500),
    // Longer than the longest `timeoutMs` of a request, so that a silent agent is reported as such.
    timeout: Some(Duration::from_millis(MAX_REQUEST_TIMEOUT_MS + 60_000)),
    open: |opening| {
        let config: AgentsToolConfig = opening.config()?;
        if config
            .timeout_ms
            .is_some_and(|ms| !(1..=MAX_REQUEST_TIMEOUT_MS).contains(&ms))
        {
            return Err(ConfigError::Range {
                field: "timeoutMs",
                most: MAX_REQUEST_TIMEOUT_MS,
            });
        }
        let (config, none) = (Arc::new(config), Arc::new(()));
        // The engine derives event ids from the call id, so that a repeated call is the same event.
        Ok(vec![
            ToolExport::new::<AskAgent>("request", &config).idempotent(),
            ToolExport::new::<NotifyAgent>("send", &none).idempotent(),
            ToolExport::new::<SpawnAgentInstance>("spawn", &none).idempotent(),
            ToolExport::new::<ListInstances>("list", &none).read_only(),
            ToolExport::new::<ListAgents>("catalog", &none).read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Longest timeout of a request in milliseconds: a day.
const MAX_REQUEST_TIMEOUT_MS: u64 = 86_400_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentsToolConfig {
    timeout_ms: Option<u64>,
}

/// Send a request to another agent and wait for its answer. With `async`, return at once.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AskAgent {
    /// The agent, from `agents__catalog`.
    #[schemars(length(min = 1))]
    target: String,
    /// Request.
    #[schemars(length(min = 1))]
    input: String,
    /// Target's conversation; default: your own key.
    instance_key: Option<String>,
    /// Event type.
    #[serde(default = "request_type")]
    event_type: String,
    /// Idle timeout: the request fails after this time without progress of the target. Pending
    /// approvals count as progress. Default: the tool's; with `async`, none.
    #[schemars(range(min = 1, max = 86_400_000))]
    timeout_ms: Option<u64>,
    /// Return at once; the answer arrives later as a message.
    #[serde(default, rename = "async")]
    async_: bool,
    /// Extra data for the request.
    metadata: Option<JsonObject>,
}

impl ToolOperation for AskAgent {
    type Shared = AgentsToolConfig;

    async fn run(
        self,
        ctx: &ToolContext,
        config: &AgentsToolConfig,
    ) -> Result<ToolOutput, HandlerError> {
        check_key(ctx, &self.target, self.instance_key.as_deref()).await?;
        let event = event(
            self.event_type,
            self.input,
            self.instance_key,
            self.metadata,
        );
        let options = RequestOptions {
            timeout_ms: self
                .timeout_ms
                .or(config.timeout_ms.filter(|_| !self.async_)),
            async_: self.async_,
        };
        ctx.progress
            .update(&format!("Asking {}", self.target), JsonObject::new());
        let answer = ctx.runtime.request(&self.target, event, options).await?;
        let metadata = JsonObject::from_iter([
            ("target".to_owned(), json!(answer.target)),
            ("eventId".to_owned(), json!(answer.event_id)),
            ("correlationId".to_owned(), json!(answer.correlation_id)),
        ]);
        // The model reads the answer without these ids.
        let mut output = json!({
            "response": answer.response,
            "accepted": answer.accepted,
            "async": answer.asynchronous,
        });
        for (name, value) in &metadata {
            output[name] = value.clone();
        }
        Ok(ToolOutput {
            metadata,
            ..titled_output(format!("Asked {}", self.target), output)
        })
    }
}

/// Send a message to another agent without waiting for an answer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NotifyAgent {
    /// The agent, from `agents__catalog`.
    #[schemars(length(min = 1))]
    target: String,
    /// Message.
    #[schemars(length(min = 1))]
    input: String,
    /// Target's conversation; default: your own key.
    instance_key: Option<String>,
    /// Event type.
    #[serde(default = "send_type")]
    event_type: String,
    /// Extra data for the message.
    metadata: Option<JsonObject>,
}

impl ToolOperation for NotifyAgent {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        check_key(ctx, &self.target, self.instance_key.as_deref()).await?;
        let event = event(
            self.event_type,
            self.input,
            self.instance_key,
            self.metadata,
        );
        let sent = ctx.runtime.send(&self.target, event).await?;
        let output =
            json!({"target": sent.target, "eventId": sent.event_id, "accepted": sent.accepted});
        Ok(titled_output(format!("Notified {}", self.target), output))
    }
}

/// Create an instance of an agent of the swarm.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpawnAgentInstance {
    /// The agent, from `agents__catalog`.
    #[schemars(length(min = 1))]
    target: String,
    /// Conversation key; generated if not given. An existing conversation is reused.
    instance_key: Option<String>,
    /// Working directory for the tools of the new instance, inside this agent's working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    cwd: Option<String>,
}

impl ToolOperation for SpawnAgentInstance {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        check_key(ctx, &self.target, self.instance_key.as_deref()).await?;
        // A sub-agent gets no more access than its caller (rule S1b), including the file system.
        let place = self
            .cwd
            .map(|cwd| FileRoot::from_context(ctx)?.resolve(&cwd))
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
        Ok(titled_output(title, output))
    }
}

/// List the agent instances that this conversation spawned, or all that it can reach.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListInstances {
    /// List all instances within reach: also those of the same key.
    #[serde(default)]
    include_all: bool,
}

impl ToolOperation for ListInstances {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let agents = ctx.runtime.list_instances(self.include_all).await?;
        let id = |info: &SpawnedAgentInfo| InstanceId::new(&*info.target, &*info.instance_key);
        let agents = retain_reachable(ctx, agents, id).await?;
        let agents: Vec<Value> = agents.into_iter().map(instance).collect();
        let title = format!("{} instances", agents.len());
        Ok(titled_output(
            title,
            json!({"count": agents.len(), "agents": agents}),
        ))
    }
}

/// List the agents of the swarm, and which ones this agent can call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListAgents {}

impl ToolOperation for ListAgents {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let catalog = ctx.runtime.catalog().await?;
        let mut output = json!({
            "swarmName": catalog.swarm_name,
            "entryAgent": catalog.entry_agent,
            "selfAgent": catalog.self_agent,
            "availableCount": catalog.available_agents.len(),
            "callableCount": catalog.callable_agents.len(),
            "availableAgents": catalog.available_agents,
            "callableAgents": catalog.callable_agents,
        });
        if !catalog.descriptions.is_empty() {
            output["descriptions"] = json!(catalog.descriptions);
        }
        Ok(titled_output("Looked up the agents", output))
    }
}

/// Fails if the key names a conversation that the call may not use.
async fn check_key(ctx: &ToolContext, target: &str, key: Option<&str>) -> Result<(), HandlerError> {
    let Some(key) = key else { return Ok(()) };
    let rule = format!(
        "{{tool: \"agents__*\", args: {{instanceKey: {}}}, action: allow}}",
        json!(key)
    );
    check_reach(ctx, &InstanceId::new(target, key), &rule).await
}

/// Keeps the `items` whose conversations the calling conversation may access.
pub(crate) async fn retain_reachable<T>(
    ctx: &ToolContext,
    mut items: Vec<T>,
    id: impl Fn(&T) -> InstanceId,
) -> Result<Vec<T>, HandlerError> {
    let reached = ctx.runtime.within_reach(items.iter().map(&id).collect());
    let reached: HashSet<InstanceId> = reached.await?.into_iter().collect();
    items.retain(|item| reached.contains(&id(item)));
    Ok(items)
}

/// Fails if the calling conversation may not access the conversation. `rule` would allow it.
pub(crate) async fn check_reach(
    ctx: &ToolContext,
    id: &InstanceId,
    rule: &str,
) -> Result<(), HandlerError> {
    if !ctx.runtime.within_reach(vec![id.clone()]).await?.is_empty() {
        return Ok(());
    }
    let message = format!("`{id}` has another key, and this conversation did not start it");
    Err(HandlerError::new(message)
        .code(Code::TOOL_DENIED)
        .suggest(format!(
            "Use your own conversations. The operator can allow this one: add `{rule}` to \
            `spec.permissions.rules` of the agent."
        )))
}

/// Creates the event that is sent to an agent.
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
    REQUEST_EVENT.to_owned()
}

fn send_type() -> String {
    SEND_EVENT.to_owned()
}
