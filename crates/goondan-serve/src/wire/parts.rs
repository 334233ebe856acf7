//! What the studio asks for: of which parts the swarm consists, what reloads have changed, what went wrong, who signs in.

use goondan::spec::{AgentChange, Diagnostic, ReloadPlan};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Of which parts the swarm consists.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyBody {
    /// The number of the generation that serves.
    pub generation: u64,
    /// All agents, sorted.
    pub agents: Vec<AgentBody>,
    /// The models that they may ask.
    pub models: Vec<ModelBody>,
    /// The tools that they are offered.
    pub tools: Vec<ToolBody>,
    /// What was noticed when the generation began and keeps nothing from running.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Diagnostic>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentBody {
    /// Its name.
    pub name: String,
    /// What it is there for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The models that it asks, in their order: each where those before it have failed.
    pub models: Vec<String>,
    /// What its model is offered, as `resource__export`.
    pub exports: Vec<String>,
    /// Its extensions, outermost first.
    pub extensions: Vec<String>,
    /// What happens to calls that no rule of its permissions matches: `allow`, `ask` or `deny`. None where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ModelBody {
    /// The name of its resource.
    pub name: String,
    /// Its provider.
    pub provider: String,
    /// The provider's name for it.
    pub model: String,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolBody {
    /// The name of its resource.
    pub name: String,
    /// What it is: `builtin`, `library`, `executable`, `module`, `mcp` or `a2a`.
    pub entry: String,
    /// What agents are offered of it.
    pub exports: Vec<ExportBody>,
}

/// A function of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ExportBody {
    /// As `resource__export`.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// A reload since the process began.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadRecord {
    /// When it was over.
    pub at: String,
    /// Whether the project was taken.
    pub ok: bool,
    /// The number of the generation that serves since then.
    pub generation: u64,
    /// What has changed; nothing where the project was not taken.
    pub plan: PlanBody,
    /// Errors that kept the old generation in place, or warnings.
    #[schema(value_type = Vec<Object>)]
    pub diagnostics: Vec<Diagnostic>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// What a reload has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct PlanBody {
    /// Resources that are new.
    pub added: Vec<String>,
    /// Resources that differ.
    pub changed: Vec<String>,
    /// Resources that are gone.
    pub removed: Vec<String>,
    /// What becomes of agents.
    #[schema(value_type = Vec<Object>)]
    pub agents: Vec<AgentChange>,
    /// Whether the limits of the swarm differ.
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

/// The reloads since the process began.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReloadsBody {
    /// The last 200, oldest first.
    pub reloads: Vec<ReloadRecord>,
}

/// The events whose turns failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersBody {
    /// Oldest failure first: each with the `event`, the `error` and when it `failedAt`.
    #[schema(value_type = Vec<Object>)]
    pub dead_letters: Vec<Value>,
}

/// Where a conversation is forked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkBody {
    /// The last message that the new conversation has, with the results of its tool calls; the last one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A conversation that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedBody {
    /// The agent.
    pub agent_name: String,
    /// The key of the new conversation.
    pub instance_key: String,
    /// How many messages it begins with.
    pub messages: usize,
}

/// What a case is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaseOf {
    /// A message of the turn that it is made of; the whole conversation by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A conversation as a case that `gdn test` runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseBody {
    /// The name of the case.
    pub name: String,
    /// What a file with it is called.
    pub file: String,
    /// The YAML, for a file in the folder of the project.
    pub text: String,
}

/// With what a browser signs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeBody {
    /// Works once, for ten minutes.
    pub code: String,
    /// Where the page is: it takes the code behind `#code=`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// A session of the studio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionBody {
    /// Goes where the token of the server would go, until the process ends.
    pub token: String,
}

/// Which dead letters are listed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LetterFilter {
    /// Only those of this agent.
    #[serde(default)]
    pub agent: Option<String>,
}
