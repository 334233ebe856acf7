//! Instances whose turn the store has failed. They go on with the next event, or by themselves after a while: disks get room
//! again, and nobody should have to tell.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Orchestrator;
use goondan_core::ids::InstanceId;

/// The first wait. Each one after it is twice as long, until a turn is over.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Those that stand still, and when they are tried again.
pub(super) struct Stalled {
    instances: HashSet<InstanceId>,
    at: Option<Instant>,
    wait: Duration,
}

impl Default for Stalled {
    fn default() -> Self {
        Stalled {
            instances: HashSet::new(),
            at: None,
            wait: FIRST_WAIT,
        }
    }
}

impl Stalled {
    /// When those that stand still are tried again.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// A turn is over: the store works.
    pub(super) fn store_works(&mut self) {
        self.wait = FIRST_WAIT;
    }

    /// One more stands still.
    pub(super) fn add(&mut self, id: InstanceId) {
        self.instances.insert(id);
        self.at.get_or_insert_with(|| Instant::now() + self.wait);
    }

    fn take(&mut self) -> HashSet<InstanceId> {
        self.at = None;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        std::mem::take(&mut self.instances)
    }
}

impl Orchestrator {
    /// Tries those that stand still again. That is a sign of life to whoever waits for them.
    pub(super) fn retry_stalled(&mut self) {
        for id in self.stalled.take() {
            self.engine.lives.of(&id).show();
            self.make_ready(id);
        }
    }
}
