//! `sessions`: the conversations of the swarm. A session is an agent instance; its id is
//! `agent:key`.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::Terms;
use goondan_core::message::Message;
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus};
use goondan_core::ports::tool::{
    AgentEventInput, RequestOptions, SpawnOptions, ToolContext, ToolError, ToolOutput,
};
use goondan_core::reserved::SEND;
use goondan_spec::Code;
use goondan_spec::kinds::Permission::{Read, Write};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::define::{Export, Operation, number, titled};
use crate::powers;
use crate::table::Builtin;

/// The tools of a read-only sub-agent.
const READ_ONLY: [&str; 6] = [
    "fs__read",
    "fs__grep",
    "fs__glob",
    "fs__ls",
    "memory__search",
    "memory__get",
];

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "sessions",
    about: "Lists conversations, reads them, sends messages to them, and lets a read-only sub-agent look into something. A \
            session is an instance of an agent; its id is `agent:key`.",
    // Longer than the longest silence of a sub-agent.
    timeout: Some(Duration::from_secs(1_860)),
    open: |_| {
        let none = Arc::new(());
        // The ids of a child, of its request and of sent events are derived from the call id.
        Ok(vec![
            Export::new::<List>("list", &none).needs(Read).read_only(),
            Export::new::<History>("history", &none)
                .needs(Read)
                .read_only(),
            Export::new::<Send>("send", &none).needs(Write).idempotent(),
            Export::new::<Spawn>("spawn", &none)
                .needs(Read)
                .idempotent(),
            Export::new::<Subagents>("subagents", &none)
                .needs(Read)
                .read_only(),
            Export::new::<Status>("status", &none)
                .needs(Read)
                .read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// List the sessions of the swarm, those that changed last first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// How many to list at most.
    #[serde(default = "most_sessions")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

impl Operation for List {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let mut sessions = powers::sessions(ctx)?.sessions().await?;
        let total = sessions.len();
        sessions.sort_by_key(|session| (std::cmp::Reverse(session.updated_at), session.id()));
        let own = own(ctx);
        let shown: Vec<Value> = sessions
            .iter()
            .take(self.limit)
            .map(|session| shown(session, &own))
            .collect();
        let output = json!({"count": shown.len(), "total": total, "sessions": shown});
        Ok(titled(
            format!("{} of {total} sessions", output["count"]),
            output,
        ))
    }
}

/// Read the messages of a session, the last ones if there are many.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct History {
    /// The session, as `sessions__list` names it.
    #[schemars(length(min = 1))]
    session_id: String,
    /// How many messages to read at most, the newest ones.
    #[serde(default = "most_messages")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

impl Operation for History {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let session = find(ctx, &self.session_id).await?;
        let messages = powers::sessions(ctx)?.history(&session.id()).await?;
        let left_out = messages.len().saturating_sub(self.limit);
        let shown: Vec<Value> = messages[left_out..]
            .iter()
            .map(|message| told(message))
            .collect();
        let output = json!({
            "session_id": session.id().to_string(),
            "count": shown.len(),
            "total": messages.len(),
            "messages": shown,
        });
        Ok(titled(
            format!("Read {} messages of {}", shown_count(&output), session.id()),
            output,
        ))
    }
}

/// Send a message to a session, without waiting for what comes of it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Send {
    /// The session, as `sessions__list` names it.
    #[schemars(length(min = 1))]
    session_id: String,
    /// What to tell.
    #[schemars(length(min = 1))]
    content: String,
}

impl Operation for Send {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let session = find(ctx, &self.session_id).await?.id();
        let event = AgentEventInput {
            event_type: Some(SEND.to_owned()),
            input: self.content,
            instance_key: Some(session.instance_key.clone()),
            ..AgentEventInput::default()
        };
        let sent = ctx.runtime.send(&session.agent, event).await?;
        let output = json!({"session_id": session.to_string(), "eventId": sent.event_id, "accepted": sent.accepted});
        Ok(titled(format!("Told {session}"), output))
    }
}

/// Let a sub-agent look into something and answer. The sub-agent is a fresh copy of this agent with only the tools that
/// read files and notes. It knows nothing of this conversation, so tell it everything that it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// What to find out, and how to answer.
    #[schemars(length(min = 1))]
    prompt: String,
}

impl Operation for Spawn {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let narrowing = Some(Narrowing::to(READ_ONLY));
        ctx.progress.update("Asking a sub-agent", JsonObject::new());
        let asked = Ask {
            agent: &ctx.agent_name,
            input: self.prompt,
            narrowing,
            event_type: "session.spawn",
        };
        let answer = ask(ctx, asked).await?;
        let output = json!({"session_id": answer.session.to_string(), "response": answer.text});
        Ok(titled("Asked a sub-agent", output))
    }
}

pub(crate) struct Ask<'a> {
    pub(crate) agent: &'a str,
    pub(crate) input: String,
    pub(crate) narrowing: Option<Narrowing>,
    pub(crate) event_type: &'static str,
}

pub(crate) struct Answer {
    pub(crate) session: InstanceId,
    pub(crate) text: String,
}

/// Opens a session in the caller's working directory, sends a request, and waits for the answer.
pub(crate) async fn ask(ctx: &ToolContext, ask: Ask<'_>) -> Result<Answer, ToolError> {
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
        terms: Terms {
            narrowing: ask.narrowing,
            ..Terms::default()
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
    Ok(Answer {
        session: InstanceId::new(ask.agent, key),
        text,
    })
}

/// List the sessions that this one has spawned and that still have something to do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Subagents {
    /// List those that are done, too.
    #[serde(default)]
    include_idle: bool,
}

impl Operation for Subagents {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let own = own(ctx);
        let is_wanted = |session: &&InstanceMeta| {
            session.owner.as_ref() == Some(&own)
                && (session.status == InstanceStatus::Processing
                    || (self.include_idle && session.status == InstanceStatus::Idle))
        };
        let sessions = powers::sessions(ctx)?.sessions().await?;
        let shown: Vec<Value> = sessions
            .iter()
            .filter(is_wanted)
            .map(|session| shown(session, &own))
            .collect();
        let output = json!({"count": shown.len(), "subagents": shown});
        Ok(titled(
            format!("{} sub-agents", shown_count(&output)),
            output,
        ))
    }
}

/// Show the state of this session: its id, its number of messages, and what its finished turns have used.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Status {
    /// Another session, as `sessions__list` names it.
    session_id: Option<String>,
}

impl Operation for Status {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let power = powers::sessions(ctx)?;
        let id = match &self.session_id {
            Some(id) => find(ctx, id).await?.id(),
            None => own(ctx),
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
            output["cost"] =
                json!({"amount": number(rounded(cost)), "currency": power.currency(&id).await});
        }
        Ok(titled(format!("{id}: {messages} messages"), output))
    }
}

/// Rounds to a millionth, so that a price shows no floating-point noise.
fn rounded(cost: f64) -> f64 {
    (cost * 1_000_000.0).round() / 1_000_000.0
}

/// Returns the calling session.
fn own(ctx: &ToolContext) -> InstanceId {
    InstanceId::new(&*ctx.agent_name, &*ctx.instance_key)
}

/// Finds the session with that id.
async fn find(ctx: &ToolContext, id: &str) -> Result<InstanceMeta, ToolError> {
    let sessions = powers::sessions(ctx)?.sessions().await?;
    let wanted = id
        .split_once(':')
        .map(|(agent, key)| InstanceId::new(agent, key));
    let found =
        wanted.and_then(|wanted| sessions.into_iter().find(|session| session.id() == wanted));
    found.ok_or_else(|| {
        ToolError::new(format!("there is no session `{id}`"))
            .code(Code::TOOL_SESSION_NOT_FOUND)
            .suggest("sessions__list names the sessions that there are")
    })
}

/// Returns a session for the list.
fn shown(session: &InstanceMeta, own: &InstanceId) -> Value {
    let mut shown = json!({
        "session_id": session.id().to_string(),
        "agent": session.agent,
        "instanceKey": session.instance_key,
        "status": status(session),
        "self": session.id() == *own,
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
    });
    if let Some(owner) = &session.owner {
        shown["owner"] = json!(owner.to_string());
    }
    shown
}

fn status(session: &InstanceMeta) -> &'static str {
    match session.status {
        InstanceStatus::Idle => "idle",
        InstanceStatus::Processing => "processing",
        InstanceStatus::Retired => "retired",
    }
}

/// Returns a message for another conversation.
fn told(message: &Message) -> Value {
    let mut told =
        json!({"role": message.data.role, "text": message.text(), "createdAt": message.created_at});
    let calls: Vec<&str> = message
        .tool_calls()
        .map(|call| call.tool_name.as_str())
        .collect();
    if !calls.is_empty() {
        told["toolCalls"] = json!(calls);
    }
    told
}

fn shown_count(output: &Value) -> u64 {
    output["count"].as_u64().unwrap_or_default()
}

fn most_sessions() -> usize {
    20
}

fn most_messages() -> usize {
    50
}
