//! A running configuration: agents, tools and models that are ready to be used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::kinds::{ModelPricing, RateLimits, SwarmPolicy, Tool, ToolEntry};
use goondan_spec::{Bundle, Diagnostic, Resource, ResourceId};

use super::agent::AgentPlan;
use super::tool_plan::ToolPlan;
use crate::turn::rate_limiter::RateLimiter;
use goondan_core::ports::model::{ModelClient, ModelError};
use goondan_core::ports::tool::AgentCatalog;

/// A running configuration. Immutable: a reload creates another one, and a running step keeps its
/// own.
pub struct Generation {
    /// Number of the generation, from 1.
    pub number: u64,
    /// Bundle from which the generation was planned.
    pub bundle: Arc<Bundle>,
    /// Absolute path of the project directory; external programs receive it.
    pub project: PathBuf,
    /// The Swarm resource.
    pub swarm: ResourceId,
    /// Agent that receives inputs without a target.
    pub entry_agent: String,
    /// Limits and budgets.
    pub policy: SwarmPolicy,
    /// Rate limits for the model calls of all agents together.
    pub limits: RateLimits,
    /// Warnings from opening tools.
    pub warnings: Vec<Diagnostic>,
    pub(super) agents: BTreeMap<String, Arc<AgentPlan>>,
    /// Tools that the agents use.
    pub(super) tools: HashMap<ResourceId, ToolPlan>,
    /// Planned models by name. An unused model may lack a key, for example; its error is reported
    /// when the model is called.
    pub(super) models: BTreeMap<String, Result<ModelPlan, ModelError>>,
}

/// Provider and name of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// Provider, as in the Model resource.
    pub provider: String,
    /// Provider's name of the model.
    pub model: String,
}

/// A model that can be called.
#[derive(Clone)]
pub struct ModelPlan {
    /// Provider and name.
    pub name: Arc<ModelName>,
    /// Identity of the model: provider, name and endpoint.
    pub identity: String,
    /// Client of the provider.
    pub client: Arc<dyn ModelClient>,
    /// Maximum retries of a failed call.
    pub max_retries: u32,
    /// Longest wait before a retry. If the provider asks for a longer wait, the call is not
    /// retried.
    pub max_retry_wait: Duration,
    /// Time limit of a whole answer.
    pub total_timeout: Duration,
    /// Prices, if the Model resource states them.
    pub pricing: Option<ModelPricing>,
    /// Rate limits of the model.
    pub limits: RateLimits,
    /// Rate limiter, shared by all generations.
    pub(crate) rate_limiter: Arc<RateLimiter>,
    /// True if the provider receives the output schema.
    pub is_schema_sent: bool,
    /// Context window in tokens.
    pub context_window: u64,
}

impl Generation {
    /// Returns an agent by name.
    pub fn agent(&self, name: &str) -> Option<&Arc<AgentPlan>> {
        self.agents.get(name)
    }

    /// Returns all agents, sorted by name.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<AgentPlan>> {
        self.agents.values()
    }

    /// Returns a model by name, or the reason why it cannot be called.
    pub fn model(&self, name: &str) -> Option<&Result<ModelPlan, ModelError>> {
        self.models.get(name)
    }

    /// Returns the first rate-limited model with this identity.
    pub(crate) fn rate_limited_model(&self, identity: &str) -> Option<ModelPlan> {
        let planned = self.models.values().filter_map(|model| model.as_ref().ok());
        planned
            .filter(|model| !model.limits.is_none())
            .find(|model| model.identity == identity)
            .cloned()
    }

    /// Returns the names of all Model resources, sorted.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// Returns the swarm's agents as the agent `viewer` sees them (rule A6).
    pub fn seen_from(&self, viewer: &str) -> AgentCatalog {
        let available: Vec<String> = self.agents.keys().cloned().collect();
        AgentCatalog {
            swarm_name: self.swarm.name.clone(),
            entry_agent: self.entry_agent.clone(),
            self_agent: viewer.to_owned(),
            callable_agents: available
                .iter()
                .filter(|name| *name != viewer)
                .cloned()
                .collect(),
            available_agents: available,
            descriptions: self
                .agents
                .values()
                .filter_map(|agent| Some((agent.name.clone(), agent.description.clone()?)))
                .collect(),
        }
    }
}

/// The generation in use while another one is planned.
#[derive(Clone, Copy)]
pub struct ServingGeneration<'a> {
    /// The generation in use.
    pub generation: &'a Generation,
    /// Tools that are unchanged in the new bundle, including the files and variables that they
    /// reference.
    pub unchanged: &'a HashSet<ResourceId>,
}

impl ServingGeneration<'_> {
    /// Returns the plan of an unchanged built-in tool. Tools of libraries are planned again,
    /// because their warnings need current positions. That is cheap: the library is still loaded.
    pub(super) fn tool(&self, tool: &Resource<Tool>) -> Option<ToolPlan> {
        let is_builtin = matches!(tool.spec.entry, ToolEntry::Builtin(_));
        let planned = self
            .generation
            .tools
            .get(&tool.id)
            .filter(|_| is_builtin && self.unchanged.contains(&tool.id));
        planned.cloned()
    }
}
