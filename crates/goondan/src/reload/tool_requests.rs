//! Reloads that tools request.

use std::sync::Weak;

use async_trait::async_trait;
use goondan_core::ports::reload::{ProjectReloader, ReloadFailure, ReloadSuccess};
use tokio::sync::SetOnce;

use crate::start::swarm::{Swarm, SwarmInner};

/// Reload capability for tools.
#[derive(Default)]
pub(crate) struct ToolReloads(SetOnce<Weak<SwarmInner>>);

impl ToolReloads {
    /// Connects the capability to `swarm`.
    pub(crate) fn serve(&self, swarm: &Swarm) {
        // Each swarm has its own capability, so it is set only once.
        let _ = self.0.set(swarm.downgrade());
    }
}

#[async_trait]
impl ProjectReloader for ToolReloads {
    async fn reload(&self) -> Result<ReloadSuccess, ReloadFailure> {
        // A resumed turn can request a reload before the start is complete.
        let Some(swarm) = self.0.wait().await.upgrade().map(Swarm::of) else {
            // The swarm is gone and drops the calling turn.
            return std::future::pending().await;
        };
        let outcome = swarm.reload().await;
        match outcome.result {
            Ok(generation) => Ok(ReloadSuccess {
                generation,
                plan: outcome.plan,
            }),
            Err(diagnostics) => Err(ReloadFailure {
                generation: swarm.generation(),
                diagnostics,
            }),
        }
    }
}
