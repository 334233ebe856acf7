//! What MCP servers have changes while a swarm runs: the same bundle is planned again.

use std::collections::HashSet;

use goondan_runtime::plan::Serving;
use goondan_spec::{Diagnostic, ResourceId};

use super::plan_swarm;
use crate::swarm::Swarm;

/// Takes up what servers have whenever one of them has something else, for as long as `swarm` lives.
pub(crate) fn follow_servers(swarm: &Swarm) {
    let changes = swarm.inner().tools.mcp().changes();
    let swarm = swarm.downgrade();
    tokio::spawn(async move {
        loop {
            changes.notified().await;
            let Some(swarm) = swarm.upgrade().map(Swarm::of) else { return };
            match swarm.plan_again().await {
                Ok(generation) => tracing::info!(generation, "an MCP server has other tools than before"),
                Err(problems) => {
                    let problem = problems.first().map(|problem| problem.message.as_str()).unwrap_or_default();
                    tracing::warn!(problem, "an MCP server has other tools than before, and they were not taken up");
                }
            }
        }
    });
}

impl Swarm {
    /// Plans the bundle that serves once more, and swaps the new generation in. Edits of the project are none of it.
    async fn plan_again(&self) -> Result<u64, Vec<Diagnostic>> {
        let inner = self.inner();
        let state = inner.reloading.lock().await;
        let serving = inner.runtime.generation();
        let (bundle, number) = (self.bundle(), serving.number + 1);
        let swarm = bundle.choose_swarm(Some(&inner.notebook.swarm.name)).map_err(|problem| vec![problem])?;
        let unchanged: HashSet<ResourceId> = bundle.tools().values().map(|tool| tool.id.clone()).collect();
        let beside = Some(Serving { generation: &serving, unchanged: &unchanged });
        let (ports, environment) = (&inner.ports, &state.environment);
        let mut generation = plan_swarm(&bundle, swarm, number, ports, environment, beside, &inner.redactor).await?;
        generation.warnings.extend(inner.tools.mcp().notices(&bundle));
        inner.runtime.swap(generation);
        Ok(number)
    }
}
