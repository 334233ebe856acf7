//! Signals for changed lists of tools and prompts. The servers of a swarm share them.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// Signals of all servers of a swarm.
#[derive(Clone, Default)]
pub(crate) struct ListChanges {
    /// Notified when the tools of a server differ from the tools in the serving generation.
    pub(crate) tools: Arc<Notify>,
    /// Notified when the prompts of the swarm change.
    pub(crate) prompts: watch::Sender<()>,
}
