//! Reloads that tools ask for.

use std::sync::Weak;

use async_trait::async_trait;
use goondan_core::ports::reload::{NotReloaded, Reloaded, Reloader};
use tokio::sync::SetOnce;

use crate::swarm::{Inner, Swarm};

/// Reloads that tools ask for.
#[derive(Default)]
pub(crate) struct ToolReloads(SetOnce<Weak<Inner>>);

impl ToolReloads {
    /// From now on they are for `swarm`.
    pub(crate) fn serve(&self, swarm: &Swarm) {
        // A second swarm has a second one of these.
        let _ = self.0.set(swarm.downgrade());
    }
}

#[async_trait]
impl Reloader for ToolReloads {
    async fn reload(&self) -> Result<Reloaded, NotReloaded> {
        // A turn that resumes may ask before the start is complete.
        let Some(swarm) = self.0.wait().await.upgrade().map(Swarm::of) else {
            // The swarm is gone, and the call that asks goes with it.
            return std::future::pending().await;
        };
        let outcome = swarm.reload().await;
        match outcome.result {
            Ok(generation) => Ok(Reloaded {
                generation,
                plan: outcome.plan,
            }),
            Err(diagnostics) => Err(NotReloaded {
                generation: swarm.generation(),
                diagnostics,
            }),
        }
    }
}
