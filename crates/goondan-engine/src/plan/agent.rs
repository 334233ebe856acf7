//! An agent as it runs.

use std::sync::Arc;

use goondan_spec::kinds::{ModelParams, Permissions, Workdir};
use serde_json::Value;

use super::ModelPlan;
use crate::middleware::{Extensions, Middleware as _, StructuredOutput};
use crate::tooling::registry::{Catalog, RegisteredTool, Registry};

/// An agent, ready to run.
#[derive(Clone)]
pub struct AgentPlan {
    /// The Agent resource's name.
    pub name: String,
    /// What it is there for, in the words of its annotation `description`.
    pub description: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The names of files with instructions, which folders below the working folder may have, too.
    pub instructions: Arc<[String]>,
    /// The models, in the order in which they are asked: each where those before it have failed. There is at least one.
    pub models: Arc<[ModelPlan]>,
    /// Sampling settings.
    pub params: Arc<ModelParams>,
    /// Whether its answers are data, by its `output`.
    pub answers_as_data: bool,
    /// The tool that takes the answers of this turn alone. A reload does not change it.
    pub(crate) answer_tool: Option<Arc<RegisteredTool>>,
    /// The schema that its providers are sent, where its answers are data.
    pub output: Option<Arc<Value>>,
    /// Everything that can run for it.
    pub registry: Registry,
    /// What a step offers before middleware.
    pub catalog: Catalog,
    /// Its policy.
    pub permissions: Option<Permissions>,
    /// Calls of a step that run at the same time.
    pub max_parallel_tool_calls: usize,
    /// Where its tools work.
    pub workdir: Workdir,
    /// Outermost first.
    pub extensions: Extensions,
}

impl AgentPlan {
    /// The same agent with another model, and with no other.
    #[must_use]
    pub fn with_model(&self, model: &ModelPlan) -> AgentPlan {
        AgentPlan {
            models: Arc::new([model.clone()]),
            ..self.clone()
        }
    }

    /// The same agent whose answers fit `schema`. It must not state a form of its own.
    #[must_use]
    pub fn with_output(&self, schema: &Arc<Value>) -> AgentPlan {
        let is_sent = self.models.iter().all(|model| model.is_schema_sent);
        let mut guard = StructuredOutput::new(schema, is_sent);
        if guard
            .tools()
            .iter()
            .any(|tool| self.registry.get(tool.name.as_str()).is_some())
        {
            // The agent has a tool of that name: the model is held to the schema by what it is told of its answers.
            guard = StructuredOutput::new(schema, true);
        }
        AgentPlan {
            answers_as_data: true,
            answer_tool: guard.tools().pop(),
            output: is_sent.then(|| Arc::clone(schema)),
            extensions: self.extensions.inside(Arc::new(guard)),
            ..self.clone()
        }
    }

    /// What its costs are counted in, where a Model states prices.
    pub fn currency(&self) -> Option<&str> {
        self.models
            .iter()
            .find_map(|model| Some(model.pricing.as_ref()?.currency.as_str()))
    }
}
