//! Agents that are ready to run: their models, tools, middleware and policy are resolved.

use std::sync::Arc;

use goondan_spec::kinds::{AgentWorkdir, ModelParams, Permissions};
use serde_json::Value;

use super::{ModelPlan, UnavailableTool};
use crate::middleware::{AgentExtensions, Middleware as _, StructuredOutput};
use crate::tooling::registry::{RegisteredTool, ToolCatalog, ToolRegistry};

/// An agent that is ready to run.
#[derive(Clone)]
pub struct AgentPlan {
    /// Name of the Agent resource.
    pub name: String,
    /// Purpose of the agent, for other agents, clients and people.
    pub description: Option<String>,
    /// System prompt.
    pub system: Option<String>,
    /// Tools of the agent whose exports are missing for now. The system prompt names them.
    pub(crate) unavailable: Arc<[UnavailableTool]>,
    /// Names of instruction files, which are also looked up below the working directory.
    pub instructions: Arc<[String]>,
    /// Models in fallback order. Never empty.
    pub models: Arc<[ModelPlan]>,
    /// Sampling settings.
    pub params: Arc<ModelParams>,
    /// True if the agent defines an output schema.
    pub answers_as_data: bool,
    /// Tool for structured answers of this turn only. A reload does not change it.
    pub(crate) answer_tool: Option<Arc<RegisteredTool>>,
    /// Output schema that the agent's providers receive.
    pub output: Option<Arc<Value>>,
    /// All tools that can run for the agent.
    pub registry: ToolRegistry,
    /// Tools that a step offers before middleware changes them.
    pub catalog: ToolCatalog,
    /// Permissions of the agent.
    pub permissions: Option<Permissions>,
    /// Maximum concurrent tool calls of a step.
    pub max_parallel_tool_calls: usize,
    /// Working directory setting.
    pub workdir: AgentWorkdir,
    /// Extensions, outermost first.
    pub extensions: AgentExtensions,
}

impl AgentPlan {
    /// Returns the agent with `model` as its only model.
    #[must_use]
    pub fn with_model(&self, model: &ModelPlan) -> AgentPlan {
        AgentPlan {
            models: Arc::new([model.clone()]),
            ..self.clone()
        }
    }

    /// Returns the agent with `schema` as its output schema. The agent itself must not define a
    /// schema.
    #[must_use]
    pub fn with_output(&self, schema: &Arc<Value>) -> AgentPlan {
        let is_sent = self.models.iter().all(|model| model.is_schema_sent);
        let mut guard = StructuredOutput::new(schema, is_sent);
        if guard
            .tools()
            .iter()
            .any(|tool| self.registry.get(tool.name.as_str()).is_some())
        {
            // The answer tool's name is taken, so the schema is only enforced through the prompt.
            guard = StructuredOutput::new(schema, true);
        }
        AgentPlan {
            answers_as_data: true,
            answer_tool: guard.tools().pop(),
            output: is_sent.then(|| Arc::clone(schema)),
            extensions: self.extensions.wrapped_in(Arc::new(guard)),
            ..self.clone()
        }
    }

    /// Returns the smallest context window of the agent's models, in tokens.
    pub fn context_window(&self) -> u64 {
        let windows = self.models.iter().map(|model| model.context_window);
        windows.min().unwrap_or(u64::MAX)
    }

    /// Returns the currency of the agent's costs, if a Model states prices.
    pub fn currency(&self) -> Option<&str> {
        self.models
            .iter()
            .find_map(|model| Some(model.pricing.as_ref()?.currency.as_str()))
    }
}
