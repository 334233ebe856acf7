//! Bodies for the studio: topology of the swarm, reloads, failed events, sign-in.

use std::collections::BTreeMap;

use goondan::StatedPrompt;
use goondan::spec::{AgentChange, Diagnostic, ReloadPlan};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Topology of the swarm.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyBody {
    /// Number of the active generation.
    pub generation: u64,
    /// All agents, sorted.
    pub agents: Vec<AgentBody>,
    /// Models that agents can call.
    pub models: Vec<ModelBody>,
    /// Tools that agents can call.
    pub tools: Vec<ToolBody>,
    /// Connections of the swarm.
    pub connections: Vec<ConnectionBody>,
    /// Warnings from the start of the generation. They do not stop the swarm.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Diagnostic>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentBody {
    /// Agent name.
    pub name: String,
    /// Purpose of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Models in order of use: each is a fallback for the models before it.
    pub models: Vec<String>,
    /// Tools that its model can call, as `resource__export`.
    pub exports: Vec<String>,
    /// Agents to which it can send requests. Permission rules can still deny a request.
    pub calls: Vec<String>,
    /// Its extensions, outermost first.
    pub extensions: Vec<String>,
    /// System prompt. Absent if the agent has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptBody>,
    /// Stated default for calls that match no permission rule: `allow`, `ask` or `deny`. Absent if
    /// the agent states no default; such calls are then allowed, and `permissionRules` begins with
    /// the rules for `execute` and `network`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Permission rules as they apply. The last matching rule decides.
    pub permission_rules: Vec<PermissionRuleBody>,
}

/// System prompt of an agent, as the project states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptBody {
    /// Prompt with the instructions and the list of skills. Secrets are masked.
    pub text: String,
    /// File of the prompt, relative to the project directory: the file of the agent for an inline
    /// prompt. Absent if the text has only instructions and skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the agent in `file`, from 1. Absent for a prompt with its own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Files with instructions, relative to the working directory of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
}

impl From<StatedPrompt> for PromptBody {
    fn from(prompt: StatedPrompt) -> Self {
        let StatedPrompt {
            text,
            file,
            line,
            instructions,
        } = prompt;
        PromptBody {
            text,
            file,
            line,
            instructions,
        }
    }
}

/// A permission rule. It matches a call if all its conditions match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct PermissionRuleBody {
    /// Pattern for the tool name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Permission that the call needs: `read`, `write`, `execute` or `network`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// Patterns for arguments, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// Action for matching calls: `allow`, `ask` or `deny`.
    pub action: String,
    /// The rule applies because the agent states no default.
    pub implied: bool,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ModelBody {
    /// Resource name.
    pub name: String,
    /// Provider.
    pub provider: String,
    /// Model name at the provider.
    pub model: String,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolBody {
    /// Resource name.
    pub name: String,
    /// Kind of the entry: `builtin`, `library`, `executable`, `module`, `mcp` or `a2a`.
    pub entry: String,
    /// Functions that agents can call.
    pub exports: Vec<ExportBody>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionBody {
    /// Resource name.
    pub name: String,
    /// Connector name.
    pub connector: String,
    /// Agents that get its events, in the order of its rules.
    pub agents: Vec<String>,
}

/// Schedules of the swarm.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SchedulesBody {
    /// Schedules of connections by name, then those of conversations.
    pub schedules: Vec<ScheduleBody>,
}

/// A schedule of a `cron` Connection, or one that an agent made for a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleBody {
    /// Connection; absent for the schedule of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Agent of the conversation; absent for the schedule of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Key of the conversation; absent for the schedule of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Cron expression. Absent if the project reads it from the environment or from a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Time zone. Absent if the project reads it from the environment or from a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Time of the next event, as RFC 3339. Absent if the schedule or its time zone is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<String>,
}

/// A function of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ExportBody {
    /// Name, as `resource__export`.
    pub name: String,
    /// Purpose of the function.
    pub description: String,
}

/// A reload since the process began.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadRecord {
    /// End time of the reload.
    pub at: String,
    /// True if the new project is active.
    pub ok: bool,
    /// Number of the generation that is active since then.
    pub generation: u64,
    /// Changes; empty if the new project was rejected.
    pub plan: PlanBody,
    /// Errors that kept the old generation active, or warnings.
    #[schema(value_type = Vec<Object>)]
    pub diagnostics: Vec<Diagnostic>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
}

/// Changes made by a reload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct PlanBody {
    /// Added resources.
    pub added: Vec<String>,
    /// Changed resources.
    pub changed: Vec<String>,
    /// Removed resources.
    pub removed: Vec<String>,
    /// Changes of agents.
    #[schema(value_type = Vec<Object>)]
    pub agents: Vec<AgentChange>,
    /// True if the swarm limits changed.
    pub limits: bool,
}

impl From<&ReloadPlan> for PlanBody {
    fn from(plan: &ReloadPlan) -> Self {
        let ReloadPlan {
            added,
            changed,
            removed,
            agents,
            limits,
        } = plan.clone();
        PlanBody {
            added,
            changed,
            removed,
            agents,
            limits,
        }
    }
}

/// Reloads since the process began.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReloadsBody {
    /// Up to the latest 200, oldest first; fewer if they have more than 10,000 different diagnostics.
    pub reloads: Vec<ReloadRecord>,
}

/// Latest model calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelCallsBody {
    /// Maximum number of recorded calls: `policy.telemetry.modelCalls` of the Swarm.
    pub limit: usize,
    /// Oldest call first. Each has the `spanId` of its event, and no content.
    #[schema(value_type = Vec<Object>)]
    pub calls: Vec<Value>,
}

/// A recorded model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallBody {
    /// True if `/http` returns an HTTP request.
    pub has_http: bool,
    /// The `request` with `system`, `messages`, `tools` and `params`, and the `response` with
    /// `parts`, `finishReason`, `usage` and `cost`, or the `error`.
    #[schema(value_type = Object)]
    pub call: Value,
}

/// HTTP request of a model call, and the response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HttpExchangeBody {
    /// The `url`, the `headers`, the `body` unless it is too large, the `status` and the start of
    /// the `response`.
    #[schema(value_type = Object)]
    pub exchange: Value,
}

/// Events whose turns failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersBody {
    /// Oldest failure first. Each has the `event`, the `error` and the time `failedAt`.
    #[schema(value_type = Vec<Object>)]
    pub dead_letters: Vec<Value>,
}

/// Position at which a conversation is forked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkBody {
    /// ID of the last message to copy into the new conversation. The results of its tool calls are
    /// copied as well. Default: the last message of the original conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A forked conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedBody {
    /// Agent name.
    pub agent_name: String,
    /// Key of the new conversation.
    pub instance_key: String,
    /// Number of messages that it begins with.
    pub messages: usize,
}

/// Source of a recorded test case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaseSource {
    /// A message of the turn to record. Default: the whole conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A conversation recorded as a test case for `gdn test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseBody {
    /// Name of the test case.
    pub name: String,
    /// Suggested path, relative to the project directory: in the directory of its other test cases.
    pub file: String,
    /// YAML for a file in that directory.
    pub text: String,
}

/// Sign-in code of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeBody {
    /// One-time code, valid for ten minutes.
    pub code: String,
    /// Path of the studio page, which takes the code after `#code=`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// A studio session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionBody {
    /// Session token. It replaces the server token until the process ends.
    pub token: String,
}

/// Filter for the list of failed events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterFilter {
    /// Only events of this agent.
    #[serde(default)]
    pub agent: Option<String>,
}
