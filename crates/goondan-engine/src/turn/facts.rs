//! What a turn is about, told from its event: the same on every node.

use std::path::Path;
use std::sync::Arc;

use crate::delivery::orchestrator::Refusal;
use crate::engine::Engine;
use crate::plan::{AgentPlan, ModelPlan};
use crate::tooling::dispatch::TurnFacts;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::store::InstanceMeta;

/// The built-in tool that reloads the project of the node that it runs on.
const RELOADS: &str = "self-restart__";

impl Engine {
    /// The agent of that name.
    pub(crate) fn known_agent(&self, name: &str) -> Result<Arc<AgentPlan>, Refusal> {
        let generation = self.generation.load();
        if let Some(agent) = generation.agent(name) {
            return Ok(Arc::clone(agent));
        }
        let known = generation
            .agents()
            .map(|agent| agent.name.clone())
            .collect();
        Err(Refusal::NoSuchAgent {
            swarm: generation.swarm.name.clone(),
            agent: name.to_owned(),
            known,
        })
    }

    /// The Model resource of that name, ready to be asked.
    pub(crate) fn known_model(&self, name: &str) -> Result<ModelPlan, Refusal> {
        let (generation, model) = (self.generation.load(), name.to_owned());
        match generation.model(name) {
            Some(Ok(plan)) => Ok(plan.clone()),
            Some(Err(cause)) => Err(Refusal::ModelUnavailable {
                model,
                cause: cause.clone(),
            }),
            None => Err(Refusal::NoSuchModel {
                model,
                known: generation.models().map(str::to_owned).collect(),
            }),
        }
    }

    /// The agent that handles an event, with the model that the event asks for.
    pub(crate) fn agent_for(&self, event: &AgentEvent) -> Result<Arc<AgentPlan>, Refusal> {
        let agent = self.known_agent(&event.target.agent)?;
        let agent = match &event.terms.model {
            None => agent,
            Some(model) => Arc::new(agent.with_model(&self.known_model(model)?)),
        };
        Ok(match &event.terms.output {
            Some(schema) if !agent.answers_as_data => Arc::new(agent.with_output(schema)),
            _ => agent,
        })
    }

    /// What is the same for the whole turn of `event`.
    pub(crate) fn facts(
        &self,
        agent: Arc<AgentPlan>,
        event: &AgentEvent,
        meta: &InstanceMeta,
    ) -> TurnFacts {
        let turn_id = event.turn_id();
        TurnFacts {
            trace: event.turn_trace(),
            workdir: self.workdir(&agent, &event.target, meta.cwd.as_deref().map(Path::new)),
            anchor: self.anchor(&agent, meta.cwd.as_deref().map(Path::new)),
            instance: event.target.clone(),
            callers: event.callers.clone(),
            bound_by: event.terms.bound_by.clone(),
            narrowing: Narrowing::both(event.terms.narrowing.as_ref(), meta.narrowing.as_ref()),
            turn_id,
            layers: Arc::clone(agent.extensions.built_in()),
            agent,
            life: self.lives.of(&event.target),
        }
    }

    /// Whether the turns of an instance run where the swarm is led: its agent may change the project that serves.
    pub(crate) fn is_bound_here(&self, id: &InstanceId) -> bool {
        let Some(agent) = self.agent(&id.agent) else {
            return true;
        };
        let builtin = |name: &str| {
            agent
                .catalog
                .get(name)
                .and_then(|tool| tool.builtin.clone())
        };
        agent
            .catalog
            .names()
            .filter_map(builtin)
            .any(|name| name.starts_with(RELOADS))
    }
}
