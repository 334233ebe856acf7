//! `sessions`: the conversations of the swarm. A session is an agent instance; its id is
//! `agent:key`.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::agent_event::TurnTerms;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus};
use goondan_core::ports::tool::{
    AgentEventInput, HandlerError, RequestOptions, SpawnOptions, ToolContext, ToolOutput,
};
use goondan_core::reserved_names::SEND_EVENT;
use goondan_core::tool_allowlist::ToolAllowlist;
use goondan_spec::Code;
use goondan_spec::kinds::Permission::{Read, Write};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agents;
use crate::builtin_tool::BuiltinTool;
use crate::host_capabilities;
use crate::tool_operation::{ToolExport, ToolOperation, json_number, titled_output};

/// The tools of a read-only sub-agent.
pub const READ_ONLY_TOOLS: [&str; 6] = [
    "fs__read",
    "fs__grep",
    "fs__glob",
    "fs__ls",
    "memory__search",
    "memory__get",
];

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "sessions",
    about: "Lists and reads conversations, sends messages to them, and runs read-only sub-agents. \
        A session is an agent's conversation; its id is `agent:key`.",
    // Longer than the longest silence of a sub-agent.
    timeout: Some(Duration::from_secs(1_860)),
    open: |_| {
        let none = Arc::new(());
        // The ids of a child, of its request and of sent events are derived from the call id.
        Ok(vec![
            ToolExport::new::<ListSessions>("list", &none)
                .with_permission(Read)
                .read_only(),
            ToolExport::new::<SessionHistory>("history", &none)
                .with_permission(Read)
                .read_only(),
            ToolExport::new::<SendToSession>("send", &none)
                .with_permission(Write)
                .idempotent(),
            ToolExport::new::<SpawnSubagent>("spawn", &none)
                .with_permission(Read)
                .idempotent(),
            ToolExport::new::<ListSubagents>("subagents", &none)
                .with_permission(Read)
                .read_only(),
            ToolExport::new::<SessionStatus>("status", &none)
                .with_permission(Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// List the sessions that you can use, the most recently changed first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSessions {
    /// Maximum sessions.
    #[serde(default = "most_sessions")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

impl ToolOperation for ListSessions {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let sessions = host_capabilities::sessions(ctx)?.sessions().await?;
        let mut sessions = agents::retain_reachable(ctx, sessions, InstanceMeta::id).await?;
        let total = sessions.len();
        sessions.sort_by_key(|session| (std::cmp::Reverse(session.updated_at), session.id()));
        let own_session = calling_session(ctx);
        let listed_sessions: Vec<Value> = sessions
            .iter()
            .take(self.limit)
            .map(|session| session_json(session, &own_session))
            .collect();
        let output =
            json!({"count": listed_sessions.len(), "total": total, "sessions": listed_sessions});
        Ok(titled_output(
            format!("{} of {total} sessions", output["count"]),
            output,
        ))
    }
}

/// Read the newest messages of a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionHistory {
    /// Session id from `sessions__list`.
    #[schemars(length(min = 1))]
    session_id: String,
    /// Maximum messages; the newest are returned.
    #[serde(default = "most_messages")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

impl ToolOperation for SessionHistory {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let session = find(ctx, &self.session_id).await?;
        let messages = host_capabilities::sessions(ctx)?
            .history(&session.id())
            .await?;
        let left_out = messages.len().saturating_sub(self.limit);
        let listed_messages: Vec<Value> = messages[left_out..]
            .iter()
            .map(|message| message_json(message))
            .collect();
        let output = json!({
            "session_id": session.id().to_string(),
            "count": listed_messages.len(),
            "total": messages.len(),
            "messages": listed_messages,
        });
        Ok(titled_output(
            format!("Read {} messages of {}", shown_count(&output), session.id()),
            output,
        ))
    }
}

/// Send a message to a session without waiting for a result.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendToSession {
    /// Session id from `sessions__list`.
    #[schemars(length(min = 1))]
    session_id: String,
    /// Message.
    #[schemars(length(min = 1))]
    content: String,
}

impl ToolOperation for SendToSession {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let session = find(ctx, &self.session_id).await?.id();
        let event = AgentEventInput {
            event_type: Some(SEND_EVENT.to_owned()),
            input: self.content,
            instance_key: Some(session.instance_key.clone()),
            ..AgentEventInput::default()
        };
        let sent = ctx.runtime.send(&session.agent, event).await?;
        let output = json!({"session_id": session.to_string(), "eventId": sent.event_id, "accepted": sent.accepted});
        Ok(titled_output(format!("Sent to {session}"), output))
    }
}

/// Let a sub-agent research something and answer. It is a new copy of this agent with only the
/// tools that read files and notes. It does not see this conversation: include everything it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnSubagent {
    /// Question, and how to answer.
    #[schemars(length(min = 1))]
    prompt: String,
}

impl ToolOperation for SpawnSubagent {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let narrowing = Some(ToolAllowlist::of_exports(READ_ONLY_TOOLS));
        ctx.progress.update("Asking a sub-agent", JsonObject::new());
        let asked = SessionRequest {
            agent: &ctx.agent_name,
            input: self.prompt,
            narrowing,
            event_type: "session.spawn",
        };
        let answer = request_answer(ctx, asked).await?;
        let output = json!({"session_id": answer.session.to_string(), "response": answer.text});
        Ok(titled_output("Asked a sub-agent", output))
    }
}

pub(crate) struct SessionRequest<'a> {
    pub(crate) agent: &'a str,
    pub(crate) input: String,
    pub(crate) narrowing: Option<ToolAllowlist>,
    pub(crate) event_type: &'static str,
}

pub(crate) struct SessionAnswer {
    pub(crate) session: InstanceId,
    pub(crate) text: String,
}

/// Opens a session in the caller's working directory, sends a request, and waits for the answer.
pub(crate) async fn request_answer(
    ctx: &ToolContext,
    ask: SessionRequest<'_>,
) -> Result<SessionAnswer, HandlerError> {
    let cwd = Some(ctx.workdir.display().to_string());
    let options = SpawnOptions {
        cwd,
        narrowing: ask.narrowing.clone(),
        ..SpawnOptions::default()
    };
    let key = ctx.runtime.spawn(ask.agent, options).await?.instance_key;
    let event = AgentEventInput {
        event_type: Some(ask.event_type.to_owned()),
        input: ask.input,
        instance_key: Some(key.clone()),
        terms: TurnTerms {
            narrowing: ask.narrowing,
            ..TurnTerms::default()
        },
        ..AgentEventInput::default()
    };
    let options = RequestOptions::default();
    let answer = ctx.runtime.request(ask.agent, event, options).await?;
    let text = match answer.response {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    Ok(SessionAnswer {
        session: InstanceId::new(ask.agent, key),
        text,
    })
}

/// List the active sessions that this session spawned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSubagents {
    /// Include finished sessions.
    #[serde(default)]
    include_idle: bool,
}

impl ToolOperation for ListSubagents {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let own_session = calling_session(ctx);
        let is_wanted = |session: &&InstanceMeta| {
            session.owner.as_ref() == Some(&own_session)
                && (session.status == InstanceStatus::Processing
                    || (self.include_idle && session.status == InstanceStatus::Idle))
        };
        let sessions = host_capabilities::sessions(ctx)?.sessions().await?;
        let listed_sessions: Vec<Value> = sessions
            .iter()
            .filter(is_wanted)
            .map(|session| session_json(session, &own_session))
            .collect();
        let output = json!({"count": listed_sessions.len(), "subagents": listed_sessions});
        Ok(titled_output(
            format!("{} sub-agents", shown_count(&output)),
            output,
        ))
    }
}

/// Show the state of this session: id, message count, and token usage of its finished turns.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionStatus {
    /// Another session id from `sessions__list`.
    session_id: Option<String>,
}

impl ToolOperation for SessionStatus {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let power = host_capabilities::sessions(ctx)?;
        let id = match &self.session_id {
            Some(id) => find(ctx, id).await?.id(),
            None => calling_session(ctx),
        };
        let session = power
            .sessions()
            .await?
            .into_iter()
            .find(|session| session.id() == id);
        let messages = power.history(&id).await?.len();
        let spending = session
            .as_ref()
            .map(|session| session.spending)
            .unwrap_or_default();
        let mut output = json!({
            "session_id": id.to_string(),
            "agent": id.agent,
            "status": session.as_ref().map_or("idle", |session| status(session)),
            "messages": messages,
            "tokens": {
                "prompt": spending.usage.prompt_tokens,
                "completion": spending.usage.completion_tokens,
                "total": spending.usage.total_tokens,
            },
        });
        if let Some(cost) = spending.cost {
            output["cost"] = json!({"amount": json_number(round_cost(cost)), "currency": power.currency(&id).await});
        }
        Ok(titled_output(format!("{id}: {messages} messages"), output))
    }
}

/// Rounds to a millionth, so that a price shows no floating-point noise.
fn round_cost(cost: f64) -> f64 {
    (cost * 1_000_000.0).round() / 1_000_000.0
}

fn calling_session(ctx: &ToolContext) -> InstanceId {
    InstanceId::new(&*ctx.agent_name, &*ctx.instance_key)
}

/// Finds the session with that id.
async fn find(ctx: &ToolContext, id: &str) -> Result<InstanceMeta, HandlerError> {
    let sessions = host_capabilities::sessions(ctx)?.sessions().await?;
    let instance_id = id
        .split_once(':')
        .map(|(agent, key)| InstanceId::new(agent, key));
    let found = instance_id.and_then(|id| sessions.into_iter().find(|session| session.id() == id));
    // Only sessions within reach, so that the error does not show whether another one exists.
    let reached = agents::retain_reachable(ctx, Vec::from_iter(found), InstanceMeta::id).await?;
    reached.into_iter().next().ok_or_else(|| {
        let rule = format!(
            "{{tool: \"sessions__*\", args: {{session_id: {}}}, action: allow}}",
            json!(id)
        );
        let message = format!("there is no session `{id}` that this conversation may use");
        HandlerError::new(message)
            .code(Code::TOOL_SESSION_NOT_FOUND)
            .suggest(format!(
                "sessions__list shows the sessions that you can use. The operator can allow another \
                one: add `{rule}` to `spec.permissions.rules` of the agent."
            ))
    })
}

/// Returns the JSON of a session for the model. `own` is the id of the calling session.
fn session_json(session: &InstanceMeta, own: &InstanceId) -> Value {
    let mut json = json!({
        "session_id": session.id().to_string(),
        "agent": session.agent,
        "instanceKey": session.instance_key,
        "status": status(session),
        "self": session.id() == *own,
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
    });
    if let Some(owner) = &session.owner {
        json["owner"] = json!(owner.to_string());
    }
    json
}

/// Returns the name of the session state.
fn status(session: &InstanceMeta) -> &'static str {
    match session.status {
        InstanceStatus::Idle => "idle",
        InstanceStatus::Processing => "processing",
        InstanceStatus::Retired => "retired",
    }
}

/// Returns the JSON of a message of another conversation.
fn message_json(message: &Message) -> Value {
    let mut json =
        json!({"role": message.data.role, "text": message.text(), "createdAt": message.created_at});
    let calls: Vec<&str> = message
        .tool_calls()
        .map(|call| call.tool_name.as_str())
        .collect();
    if !calls.is_empty() {
        json["toolCalls"] = json!(calls);
    }
    json
}

/// Returns the `count` in an output.
fn shown_count(output: &Value) -> u64 {
    output["count"].as_u64().unwrap_or_default()
}

fn most_sessions() -> usize {
    20
}

fn most_messages() -> usize {
    50
}
