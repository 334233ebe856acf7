//! Instances whose turn failed in the store. They are retried with the next event or after a delay,
//! so that freed disk space is used without user action.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Orchestrator;
use goondan_core::ids::InstanceId;

/// First retry delay. The delay doubles until a turn succeeds.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Upper limit of the retry delay.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Stalled instances and the time of the next retry.
pub(super) struct StalledInstances {
    instances: HashSet<InstanceId>,
    at: Option<Instant>,
    wait: Duration,
}

impl Default for StalledInstances {
    fn default() -> Self {
        StalledInstances {
            instances: HashSet::new(),
            at: None,
            wait: FIRST_RETRY_DELAY,
        }
    }
}

impl StalledInstances {
    /// Returns the time of the next retry; `None` if no instance is stalled.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.at
    }

    /// Resets the delay after a turn has succeeded.
    pub(super) fn store_works(&mut self) {
        self.wait = FIRST_RETRY_DELAY;
    }

    /// Adds an instance; its work is retried at the next retry.
    pub(super) fn add(&mut self, id: InstanceId) {
        self.instances.insert(id);
        self.at.get_or_insert_with(|| Instant::now() + self.wait);
    }

    /// Removes and returns all stalled instances. Doubles the delay of the next retry.
    fn take(&mut self) -> HashSet<InstanceId> {
        self.at = None;
        self.wait = (self.wait * 2).min(MAX_RETRY_DELAY);
        std::mem::take(&mut self.instances)
    }
}

impl Orchestrator {
    /// Retries all stalled instances. Each retry counts as a heartbeat for waiting clients.
    pub(super) fn retry_stalled_instances(&mut self) {
        for id in self.stalled.take() {
            self.engine.activity.tracker_for(&id).record_heartbeat();
            self.make_ready(id);
        }
    }
}
