//! Facts of a turn that are derived from its event and are the same on every node.

use std::path::Path;
use std::sync::Arc;

use crate::delivery::orchestrator::SubmitError;
use crate::engine::Engine;
use crate::plan::{AgentPlan, ModelPlan};
use crate::tooling::dispatch::TurnScope;
use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::InstanceMeta;
use goondan_core::tool_allowlist::ToolAllowlist;

/// Prefix of the built-in tool that reloads the project of the node that it runs on.
const RELOAD_TOOL_PREFIX: &str = "self-restart__";

impl Engine {
    /// Returns an agent of the current generation, or an error with the names of all agents.
    pub(crate) fn known_agent(&self, name: &str) -> Result<Arc<AgentPlan>, SubmitError> {
        let generation = self.generation.load();
        if let Some(agent) = generation.agent(name) {
            return Ok(Arc::clone(agent));
        }
        let agent_names = generation
            .agents()
            .map(|agent| agent.name.clone())
            .collect();
        Err(SubmitError::NoSuchAgent {
            swarm: generation.swarm.name.clone(),
            agent: name.to_owned(),
            known: agent_names,
        })
    }

    /// Returns a usable model of the current generation, or an error.
    pub(crate) fn known_model(&self, name: &str) -> Result<ModelPlan, SubmitError> {
        let (generation, model) = (self.generation.load(), name.to_owned());
        match generation.model(name) {
            Some(Ok(plan)) => Ok(plan.clone()),
            Some(Err(cause)) => Err(SubmitError::ModelUnavailable {
                model,
                cause: cause.clone(),
            }),
            None => Err(SubmitError::NoSuchModel {
                model,
                known: generation.models().map(str::to_owned).collect(),
            }),
        }
    }

    /// Returns the agent that handles `event`, with the model and output schema of the event
    /// applied.
    pub(crate) fn agent_for(&self, event: &AgentEvent) -> Result<Arc<AgentPlan>, SubmitError> {
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

    /// Returns the fixed data of the turn that handles `event`.
    pub(crate) fn turn_scope(
        &self,
        agent: Arc<AgentPlan>,
        event: &AgentEvent,
        meta: &InstanceMeta,
    ) -> TurnScope {
        let turn_id = event.turn_id();
        TurnScope {
            trace: event.turn_trace(),
            workdir: self.workdir(&agent, &event.target, meta.cwd.as_deref().map(Path::new)),
            anchor: self.workdir_anchor(&agent, meta.cwd.as_deref().map(Path::new)),
            instance: event.target.clone(),
            callers: event.callers.clone(),
            since: event.terms.since.unwrap_or(event.created_at),
            bound_by: event.terms.bound_by.clone(),
            answer_call: event.terms.answer_call.clone(),
            narrowing: ToolAllowlist::intersection(
                event.terms.narrowing.as_ref(),
                meta.narrowing.as_ref(),
            ),
            turn_id,
            layers: Arc::clone(agent.extensions.built_in()),
            agent,
            tracker: self.activity.tracker_for(&event.target),
        }
    }

    /// Returns true if the turns of an instance must run on the leader because its agent can reload
    /// the project.
    pub(crate) fn is_bound_here(&self, id: &InstanceId) -> bool {
        let Some(agent) = self.agent(&id.agent) else {
            return true;
        };
        let builtin_name = |name: &str| {
            agent
                .catalog
                .get(name)
                .and_then(|tool| tool.builtin.clone())
        };
        agent
            .catalog
            .names()
            .filter_map(builtin_name)
            .any(|name| name.starts_with(RELOAD_TOOL_PREFIX))
    }
}
