//! Changed tools of MCP servers: the same bundle is planned again, and the change is reported as a
//! reload.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use goondan_engine::plan::ServingGeneration;
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::{
    AgentChange, AgentEffect, AgentPart, Bundle, Diagnostic, ReloadPlan, Resource, ResourceId,
};

use super::{ReloadCause, ReloadNews, ReloadOutcome, ReloadState, plan_swarm};
use crate::start::swarm::Swarm;

/// Applies changed tools of MCP servers while `swarm` exists.
pub(crate) fn follow_servers(swarm: &Swarm) {
    let changes = swarm.inner().tools.mcp().changes();
    let swarm = swarm.downgrade();
    tokio::spawn(async move {
        loop {
            changes.notified().await;
            let Some(swarm) = swarm.upgrade().map(Swarm::of) else {
                return;
            };
            swarm.plan_again().await;
        }
    });
}

impl Swarm {
    /// Plans the current bundle again if a server has changed tools, and swaps in the new
    /// generation. Edits of the project are not included.
    async fn plan_again(&self) {
        let inner = self.inner();
        let state = inner.reloading.lock().await;
        let outdated = inner.tools.mcp().outdated();
        if outdated.is_empty() {
            // Another reload has already applied the change.
            return;
        }
        let (started, bundle) = (Instant::now(), self.bundle());
        let mut outcome = ReloadOutcome::begin(ReloadCause::Asked);
        match bundle.choose_swarm(Some(&inner.notebook.swarm.name)) {
            Ok(swarm) => {
                outcome.result = self.swap_planned_again(&bundle, swarm, &state).await;
                if outcome.result.is_ok() {
                    outcome.plan = changes(&bundle, swarm, &outdated);
                    outcome.warnings = inner.tools.mcp().notices(&bundle);
                }
            }
            Err(problem) => outcome.result = Err(vec![problem]),
        }
        outcome.timing.plan = started.elapsed();
        self.publish_reload_news(ReloadNews::Reloaded(Arc::new(outcome)));
    }

    /// Plans the bundle with the changed tools of its MCP servers, and swaps in the generation.
    /// Returns its number.
    async fn swap_planned_again(
        &self,
        bundle: &Arc<Bundle>,
        swarm: &Resource<SwarmSpec>,
        state: &ReloadState,
    ) -> Result<u64, Vec<Diagnostic>> {
        let inner = self.inner();
        let serving = inner.runtime.generation();
        let number = serving.number + 1;
        let unchanged: HashSet<ResourceId> = bundle
            .tools()
            .values()
            .map(|tool| tool.id.clone())
            .collect();
        let serving_generation = Some(ServingGeneration {
            generation: &serving,
            unchanged: &unchanged,
        });
        let (ports, environment) = (&inner.ports, &state.environment);
        let mut generation = plan_swarm(
            bundle,
            swarm,
            number,
            ports,
            environment,
            serving_generation,
            &inner.redactor,
        )
        .await?;
        generation
            .warnings
            .extend(inner.tools.mcp().notices(bundle));
        inner.runtime.swap(generation);
        Ok(number)
    }
}

/// Returns the effects of changed server tools on agents.
fn changes(bundle: &Bundle, swarm: &Resource<SwarmSpec>, tools: &[ResourceId]) -> ReloadPlan {
    let agents = swarm
        .spec
        .agents
        .iter()
        .filter_map(|id| bundle.agents().get(id));
    let affected_agents = agents.filter(|agent| {
        agent
            .spec
            .tools
            .iter()
            .any(|used| tools.contains(&used.tool))
    });
    let change = |name: &String| AgentChange {
        name: name.clone(),
        effect: AgentEffect::Changed {
            next_step: vec![AgentPart::Tools],
            next_turn: Vec::new(),
        },
    };
    ReloadPlan {
        changed: tools.iter().map(ToString::to_string).collect(),
        agents: affected_agents
            .map(|agent| change(&agent.id.name))
            .collect(),
        ..ReloadPlan::default()
    }
}
